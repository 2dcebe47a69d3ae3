"""A store's record of commits: the transactions that are in it, and the one that is being applied.

One small file at the top of a log directory, where brokers ignore it, holds both, and is replaced whole. Replacing it
is the commit point: once it has the intent, the commit will be there, even after a crash. Once it says that the commit
is complete, all readers see all of it at once. Applying is left to `commits`.
"""

from __future__ import annotations

import base64
import json
import logging
import struct
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.commit.applied import AppliedVersions, Transaction
from storage.commit.json_text import list_of, number_of, object_of, parse_json, shown, text_of
from storage.commit.staged_file import is_staged_name
from storage.errors import CorruptMetadataError, InvalidIdError, StagingError, StorageError
from storage.files import CHECKPOINT_BYTES_MAX
from storage.ids import format_id, parse_id
from storage.log.followed_log import UncommittedRange
from storage.log_dir.names import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any
    from uuid import UUID

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition

logger = logging.getLogger(__name__)

LEDGER_NAME: Final = "kafkafs-commits.json"

_VERSION: Final = 2
_EARLIER_VERSION: Final = 1  # had one version for each application, for the whole store
_CHECKSUM_BYTES: Final = 4
_CHECKSUMS_MAX: Final = 1_000_000  # of one commit, as the file is read at every look while a commit is under way


class OffsetRange(NamedTuple):
    """The offsets for a commit in a partition of the topic with this id; `end_offset` is excluded.

    `checksums` are those of the batches, by which they are known even if their staged file is gone. An earlier kafkafs
    did not keep them, and a commit of very many batches has none.
    """

    topic_id: UUID | None
    first_offset: int
    end_offset: int
    checksums: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Intent:
    """A decided commit: the staged files, in this order, and the offsets of their batches."""

    transaction: Transaction | None
    staged: tuple[str, ...]
    ranges: Mapping[Partition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Entries:
    """The file's contents. `sequence` rises with each replacement."""

    sequence: int = 0
    applied: AppliedVersions = field(default_factory=AppliedVersions)
    pending: Intent | None = None

    def with_pending(self, intent: Intent) -> Self:
        """Return the entries to write before the commit is applied."""
        return replace(self, sequence=self.sequence + 1, pending=intent)

    def with_applied(self) -> Self:
        """Return the entries to write when the pending commit is complete."""
        assert self.pending is not None
        applied = self.applied
        if self.pending.transaction is not None:
            topic_ids = {topic: each.topic_id for (topic, _), each in self.pending.ranges.items()}
            applied = applied.noted(self.pending.transaction, topic_ids)
        return replace(self, sequence=self.sequence + 1, applied=applied, pending=None)

    def with_versions(self, applied: AppliedVersions) -> Self:
        """Return the entries to write when other versions are applied."""
        return replace(self, sequence=self.sequence + 1, applied=applied)

    def without_pending(self) -> Self:
        """Return the entries to write when the pending commit is withdrawn."""
        return replace(self, sequence=self.sequence + 1, pending=None)


class Ledger:
    """The ledger file of some log directories, which need not exist; any thread may call.

    It is in the first directory, but an existing file in a later one is used where it is.
    """

    def __init__(self, directories: Sequence[Directory]) -> None:
        self._directories = directories
        self._read: tuple[bytes, Entries] = (b"", Entries())
        self._unreadable: tuple[bytes, CorruptMetadataError | None] = (b"", None)
        self._flaw: str | None = None  # why the file could not be read at the last look
        self._nothing = UncommittedRange()  # one for the thousands of logs of a store

    @property
    def current(self) -> Entries:
        """The contents of the file, read again. Raises `CorruptMetadataError`."""
        directory, data = self._found()
        known, entries = self._read
        if data != known:
            bad, error = self._unreadable
            if error is not None and data == bad:
                raise error.with_traceback(None)
            try:
                entries = _parsed(data, directory.path_of(LEDGER_NAME)) if data else Entries()
            except CorruptMetadataError as error:
                self._unreadable = data, error
                raise
            self._read = data, entries
        return entries

    def replace(self, entries: Entries) -> None:
        """Write these entries to the file, durably; after an error it has the old ones or these.

        Raises `StagingError` before it makes the file too large to be read.
        """
        directory, _ = self._found()
        data = _text(entries).encode()
        if len(data) > CHECKPOINT_BYTES_MAX:
            raise StagingError(
                f"the file of commits would have {len(data)} bytes, and it is read up to {CHECKPOINT_BYTES_MAX}",
                path=directory.path_of(LEDGER_NAME),
            )
        directory.replace(LEDGER_NAME, data)

    def withheld(self, partition: Partition) -> UncommittedRange:
        """Return the range of the partition that is hidden from readers while a commit is under way.

        If the file cannot be read, that is logged once, and the range stays what the file said when it could be.
        """
        entries = self._entries_to_withhold()
        offset_range = None if entries.pending is None else entries.pending.ranges.get(partition)
        if offset_range is None:
            nothing = self._nothing
            if nothing.sequence != entries.sequence:
                nothing = self._nothing = UncommittedRange(entries.sequence)
            return nothing
        return UncommittedRange(entries.sequence, offset_range.first_offset, offset_range.end_offset)

    def _entries_to_withhold(self) -> Entries:
        try:
            entries = self.current
        except (StorageError, OSError) as error:
            if str(error) != self._flaw:
                self._flaw = str(error)
                logger.warning("%s: readers are shown what it may be about to hide", error)
            return self._read[1]
        self._flaw = None
        return entries

    def names_of(self, names: Collection[str]) -> set[str]:
        """Return those of the staged files that the pending commit needs."""
        pending = self.current.pending
        return set() if pending is None else set(pending.staged).intersection(names)

    def _found(self) -> tuple[Directory, bytes]:
        for directory in self._directories:
            if directory.status(LEDGER_NAME) is None:  # as a rule; a look costs less than opening it in vain
                continue
            with suppress(FileNotFoundError):
                return directory, directory.read_small(LEDGER_NAME, CorruptMetadataError, CHECKPOINT_BYTES_MAX)
        return self._directories[0], b""


def _text(entries: Entries) -> str:
    pending = entries.pending
    said: dict[str, object] = {"version": _VERSION, "sequence": entries.sequence, **entries.applied.members()}
    if pending is not None:
        kept: dict[str, object] = {
            "transaction": pending.transaction,
            "staged": pending.staged,
            "extents": [
                [
                    topic,
                    number,
                    "" if offset_range.topic_id is None else format_id(offset_range.topic_id),
                    offset_range.first_offset,
                    offset_range.end_offset,
                ]
                for (topic, number), offset_range in pending.ranges.items()
            ],
        }
        if 0 < sum(len(each.checksums) for each in pending.ranges.values()) <= _CHECKSUMS_MAX:
            kept["checksums"] = [_encoded(each.checksums) for each in pending.ranges.values()]
        said["pending"] = kept
    return json.dumps(said, separators=(",", ":")) + "\n"


def _parsed(data: bytes, path: str) -> Entries:
    try:
        said = object_of(parse_json(data))
        version = number_of(said.get("version"))
        if not _EARLIER_VERSION <= version <= _VERSION:
            raise CorruptMetadataError(
                f"the file's version is {version}, known is {_VERSION}: a newer kafkafs wrote it", path=path
            )
        parse = AppliedVersions.parse_earlier if version == _EARLIER_VERSION else AppliedVersions.parse
        applied = parse(said)
        pending = said.get("pending")
        return Entries(
            number_of(said.get("sequence")),
            applied,
            None if pending is None else _intent(object_of(pending)),
        )
    except ValueError as error:
        raise CorruptMetadataError(f"the file of commits is not what kafkafs writes: {error}", path=path) from None
    except InvalidIdError as error:
        reason = f"the file of commits is not what kafkafs writes: {error.reason}"
        raise CorruptMetadataError(reason, path=path) from None


def _intent(said: Mapping[str, Any]) -> Intent:
    staged = tuple(text_of(name) for name in list_of(said.get("staged")))
    for name in staged:
        if not is_staged_name(name):
            raise ValueError(f"{shown(name)} is not the name of a staged file")
    extents = list_of(said.get("extents"))
    checksums = list_of(said.get("checksums", [""] * len(extents)), len(extents))
    ranges = dict(map(_range, extents, checksums))
    transaction = said.get("transaction")
    if transaction is not None:
        application, version, *queries = list_of(transaction)
        (query,) = list_of(queries, 1) if queries else [None]
        query = None if query is None else text_of(query)
        transaction = Transaction(text_of(application), number_of(version, least=-(2**63)), query)
    return Intent(transaction, staged, MappingProxyType(ranges))


def _range(extent: object, checksums: object) -> tuple[Partition, OffsetRange]:
    topic, number, topic_id, first, end = list_of(extent, 5)
    if not is_topic_name(text_of(topic)):
        raise ValueError(f"{shown(topic)} is not the name of a topic")
    first_offset = number_of(first)
    known_id = parse_id(topic_id) if text_of(topic_id) else None
    found = OffsetRange(known_id, first_offset, number_of(end, least=first_offset), _decoded(text_of(checksums)))
    return (topic, number_of(number, bits=32)), found


def _encoded(checksums: tuple[int, ...]) -> str:
    return base64.b64encode(struct.pack(f">{len(checksums)}I", *checksums)).decode()


def _decoded(text: str) -> tuple[int, ...]:
    data = base64.b64decode(text, validate=True)
    if len(data) % _CHECKSUM_BYTES:
        raise ValueError(f"checksums have {len(data)} bytes")
    return struct.unpack(f">{len(data) // _CHECKSUM_BYTES}I", data)
