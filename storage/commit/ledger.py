"""A store's record of commits: the transactions that are in it, and the one that is being applied.

One small file at the top of a log directory, where brokers ignore it, holds both, and is replaced whole. Replacing it
is the commit point: once it has the intent, the commit will be there, even after a crash. Once it says that the commit
is complete, all readers see all of it at once. Applying is left to `commits`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import CorruptMetadataError, InvalidIdError
from storage.ids import format_id, parse_id
from storage.log.followed_log import UncommittedRange

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any
    from uuid import UUID

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition

LEDGER_NAME: Final = "kafkafs-commits.json"

_VERSION: Final = 1


class Transaction(NamedTuple):
    """A version of an application, to be in a store once. The versions of an application rise."""

    application: str
    version: int


class OffsetRange(NamedTuple):
    """The offsets for a commit in a partition of the topic with this id; `end_offset` is excluded."""

    topic_id: UUID | None
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Intent:
    """A decided commit: the staged files, in this order, and the offsets of their batches."""

    transaction: Transaction | None
    staged: tuple[str, ...]
    ranges: Mapping[Partition, OffsetRange]


@dataclass(frozen=True, slots=True)
class Entries:
    """The file's contents. `applied` is each application's last version; `sequence` rises with each replacement."""

    sequence: int = 0
    applied: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    pending: Intent | None = None

    def has(self, transaction: Transaction | None) -> bool:
        """Return True if the transaction, or a later one of its application, is in the store."""
        return transaction is not None and transaction.version <= self.applied.get(transaction.application, -1)

    def with_pending(self, intent: Intent) -> Self:
        """Return the entries to write before the commit is applied."""
        return replace(self, sequence=self.sequence + 1, pending=intent)

    def with_applied(self) -> Self:
        """Return the entries to write when the pending commit is complete."""
        assert self.pending is not None
        applied = dict(self.applied)
        if self.pending.transaction is not None:
            application, version = self.pending.transaction
            applied[application] = version
        return replace(self, sequence=self.sequence + 1, applied=MappingProxyType(applied), pending=None)

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
        self._nothing = UncommittedRange()  # one for the thousands of logs of a store

    @property
    def current(self) -> Entries:
        """The contents of the file, read again. Raises `CorruptMetadataError`."""
        directory, data = self._found()
        known, entries = self._read
        if data != known:
            entries = _parsed(data, directory.path_of(LEDGER_NAME)) if data else Entries()
            self._read = data, entries
        return entries

    def replace(self, entries: Entries) -> None:
        """Write these entries to the file, durably; after an error it has the old ones or these."""
        self._found()[0].replace(LEDGER_NAME, _text(entries).encode())

    def withheld(self, partition: Partition) -> UncommittedRange:
        """Return the range of the partition that is hidden from readers while a commit is under way."""
        entries = self.current
        offset_range = None if entries.pending is None else entries.pending.ranges.get(partition)
        if offset_range is None:
            nothing = self._nothing
            if nothing.sequence != entries.sequence:
                nothing = self._nothing = UncommittedRange(entries.sequence)
            return nothing
        return UncommittedRange(entries.sequence, offset_range.first_offset, offset_range.end_offset)

    def names_of(self, names: Collection[str]) -> set[str]:
        """Return those of the staged files that the pending commit needs."""
        pending = self.current.pending
        return set() if pending is None else set(pending.staged).intersection(names)

    def _found(self) -> tuple[Directory, bytes]:
        for directory in self._directories:
            if directory.status(LEDGER_NAME) is None:  # as a rule; a look costs less than opening it in vain
                continue
            with suppress(FileNotFoundError):
                return directory, directory.read_small(LEDGER_NAME, CorruptMetadataError)
        return self._directories[0], b""


def _text(entries: Entries) -> str:
    pending = entries.pending
    said: dict[str, object] = {"version": _VERSION, "sequence": entries.sequence, "applied": dict(entries.applied)}
    if pending is not None:
        said["pending"] = {
            "transaction": pending.transaction,
            "staged": pending.staged,
            "extents": [
                [
                    topic,
                    number,
                    "" if offset_range.topic_id is None else format_id(offset_range.topic_id),
                    *offset_range[1:],
                ]
                for (topic, number), offset_range in pending.ranges.items()
            ],
        }
    return json.dumps(said, separators=(",", ":")) + "\n"


def _parsed(data: bytes, path: str) -> Entries:
    try:
        said = json.loads(data)
        if said["version"] != _VERSION:
            raise CorruptMetadataError(
                f"the file's version is {said['version']}, known is {_VERSION}: a newer kafkafs wrote it", path=path
            )
        applied = {str(application): int(version) for application, version in said["applied"].items()}
        pending = said.get("pending")
        return Entries(int(said["sequence"]), MappingProxyType(applied), None if pending is None else _intent(pending))
    except (ValueError, TypeError, LookupError, AttributeError, InvalidIdError) as error:
        raise CorruptMetadataError(f"the file of commits is not what kafkafs writes: {error}", path=path) from None


def _intent(said: Mapping[str, Any]) -> Intent:
    transaction = said["transaction"]
    ranges = {
        (str(topic), int(number)): OffsetRange(parse_id(topic_id) if topic_id else None, int(first), int(end))
        for topic, number, topic_id, first, end in said["extents"]
    }
    return Intent(
        None if transaction is None else Transaction(str(transaction[0]), int(transaction[1])),
        tuple(map(str, said["staged"])),
        MappingProxyType(ranges),
    )
