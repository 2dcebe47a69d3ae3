"""Control records, which brokers write into logs for each other and consumers never return.

`decode_control` makes every type that Kafka defines an object, and refuses what is malformed; a newer type is an
`UnknownControl`, for callers to count and skip. Their fields by Kafka's own names are read by
`storage.internal.control`. Only transaction markers are written here, because only they occur in partitions that we
write.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from storage.errors import MalformedRecordsError
from storage.record.layout import CONTROL_KEY, END_TRANSACTION_VALUE, ControlType

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a producer's transaction on this partition."""

    committed: bool
    coordinator_epoch: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum; records from version 1 on have its directory."""

    voter_id: int
    directory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A new leader's first record: who leads, who may vote, who voted for it."""

    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]
    version: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The first record of a metadata snapshot."""

    last_contained_log_timestamp: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """The last record of a metadata snapshot."""

    version: int = 0


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """The version of the quorum's own protocol."""

    kraft_version: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address at which a voter listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KRaftVoter:
    """A voter with its listeners and the protocol versions it speaks."""

    voter_id: int
    directory_id: UUID
    endpoints: tuple[Endpoint, ...]
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    """The whole set of voters."""

    voters: tuple[KRaftVoter, ...]
    version: int = 0


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control record of a type that this version does not know."""

    control_type: int
    value: bytes | None


Control: TypeAlias = (
    EndTransactionMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters | UnknownControl
)


def control_type_of(key: bytes | None) -> int:
    """Return the type number in a control record's key."""
    if key is None or len(key) < CONTROL_KEY.size:
        raise MalformedRecordsError("a control record's key is shorter than its version and type")
    version, control_type = CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise MalformedRecordsError(f"a control record's key has version {version}")
    return int(control_type)


def decode_control(key: bytes | None, value: bytes | None) -> Control:
    """Decode a control record; raises `MalformedRecordsError` unless its bytes are one."""
    control_type = control_type_of(key)
    decode = _DECODERS.get(control_type)
    if decode is None:
        return UnknownControl(control_type, value)
    if value is None:
        raise MalformedRecordsError(f"a control record of type {control_type} has a null value")
    try:
        return decode(_Reader(value), control_type)
    except struct.error:
        raise MalformedRecordsError(f"a control record of type {control_type} is cut short") from None


def encode_end_transaction(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Return the key and the value of a transaction marker."""
    control_type = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return CONTROL_KEY.pack(0, control_type), END_TRANSACTION_VALUE.pack(marker.version, marker.coordinator_epoch)


class _Reader:
    """Reads Kafka's flexible encoding: compact lengths, and tagged fields after every structure."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.position)
        self.position += struct.calcsize(form)
        return int(value)

    def bytes_(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.position:
            raise MalformedRecordsError("a length in a control record overruns it")
        self.position += size
        return self.data[self.position - size : self.position]

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.number(">B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedRecordsError("a varint in a control record does not end")

    def count(self) -> int:
        """The length of an array, which cannot have more elements than there are bytes left."""
        count = self.unsigned_varint() - 1
        if count > len(self.data) - self.position:
            raise MalformedRecordsError("an array in a control record overruns it")
        return count

    def text(self) -> str:
        return self.bytes_(self.unsigned_varint() - 1).decode("utf-8", "replace")

    def uuid(self) -> UUID:
        return UUID(bytes=self.bytes_(16))

    def tags(self) -> None:
        """Pass over fields that later versions may have added."""
        for _ in range(self.unsigned_varint()):
            self.unsigned_varint()
            self.bytes_(self.unsigned_varint())


def _end_transaction(reader: _Reader, control_type: int) -> Control:
    version = reader.number(">h")
    if version < 0:
        raise MalformedRecordsError(f"the marker of a transaction's end has version {version}")
    return EndTransactionMarker(control_type == ControlType.COMMIT, reader.number(">i"), version)


def _leader_change(reader: _Reader, _control_type: int) -> Control:
    version = reader.number(">h")
    leader_id = reader.number(">i")
    voters = _quorum(reader, version)
    granting = _quorum(reader, version)
    reader.tags()
    return LeaderChange(leader_id, voters, granting, version)


def _quorum(reader: _Reader, version: int) -> tuple[Voter, ...]:
    voters = []
    for _ in range(reader.count()):
        voters.append(Voter(reader.number(">i"), reader.uuid() if version >= 1 else None))
        reader.tags()
    return tuple(voters)


def _snapshot_header(reader: _Reader, _control_type: int) -> Control:
    version = reader.number(">h")
    timestamp = reader.number(">q")
    reader.tags()
    return SnapshotHeader(timestamp, version)


def _snapshot_footer(reader: _Reader, _control_type: int) -> Control:
    version = reader.number(">h")
    reader.tags()
    return SnapshotFooter(version)


def _kraft_version(reader: _Reader, _control_type: int) -> Control:
    version = reader.number(">h")
    kraft_version = reader.number(">h")
    reader.tags()
    return KRaftVersion(kraft_version, version)


def _kraft_voters(reader: _Reader, _control_type: int) -> Control:
    version = reader.number(">h")
    voters = []
    for _ in range(reader.count()):
        voter_id, directory_id = reader.number(">i"), reader.uuid()
        endpoints = []
        for _ in range(reader.count()):
            endpoints.append(Endpoint(reader.text(), reader.text(), reader.number(">H")))
            reader.tags()
        lowest, highest = reader.number(">h"), reader.number(">h")
        reader.tags()
        reader.tags()
        voters.append(KRaftVoter(voter_id, directory_id, tuple(endpoints), lowest, highest))
    reader.tags()
    return KRaftVoters(tuple(voters), version)


_DECODERS: dict[int, Callable[[_Reader, int], Control]] = {
    ControlType.ABORT: _end_transaction,
    ControlType.COMMIT: _end_transaction,
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: _snapshot_header,
    ControlType.SNAPSHOT_FOOTER: _snapshot_footer,
    ControlType.KRAFT_VERSION: _kraft_version,
    ControlType.KRAFT_VOTERS: _kraft_voters,
}
