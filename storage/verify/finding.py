"""The findings of verify: one value for every kind of damage, wherever it is shown.

A check of one file knows only that file; `within` adds what its callers know.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from storage.errors import SpecialFileError, SymbolicLinkError


class Severity(StrEnum):
    """The severity of a finding."""

    DAMAGE = "damage"  # no broker leaves this, running or killed
    NOTICE = "notice"  # a broker may leave this, and removes it without loss
    UNREADABLE = "unreadable"  # the operating system refused to show it


class FindingKind(StrEnum):
    """The kind of a finding."""

    # In a log
    FRAMING = "framing"  # a header that makes no sense, with sound batches after it
    CHECKSUM = "checksum"
    RECORDS = "records"  # the checksum is right, but the records do not decode
    OFFSETS = "offsets"  # they do not ascend, or are not the segment's
    OFFSET_GAP = "offset_gap"  # some are missing, and nothing was compacted
    LEADER_EPOCH = "leader_epoch"  # a batch and the checkpoint of epochs contradict each other
    TORN_TAIL = "torn_tail"  # bytes after the last batch that are no batch
    ZERO_TAIL = "zero_tail"  # the same, all zeros
    LOST_TAIL = "lost_tail"  # the log ends before what other files know of it
    # Beside a log
    MISSING_INDEX = "missing_index"
    ORPHANED_INDEX = "orphaned_index"  # it has no log
    INDEX_SIZE = "index_size"  # not a multiple of an entry
    UNTRIMMED_INDEX = "untrimmed_index"  # unused slots, which a broker takes for entries
    INDEX_ENTRY = "index_entry"
    TIME_INDEX_ENTRY = "time_index_entry"
    TRANSACTION_INDEX_ENTRY = "transaction_index_entry"
    # In a partition's directory
    INTERRUPTED_REPLACEMENT = "interrupted_replacement"
    LEFT_OVER = "left_over"  # files to be removed, or that no broker reads
    MISSING_SNAPSHOT = "missing_snapshot"
    SNAPSHOT = "snapshot"
    EPOCH_CHECKPOINT = "epoch_checkpoint"
    PARTITION_METADATA = "partition_metadata"
    METADATA_SNAPSHOT = "metadata_snapshot"  # it does not begin or end as one
    QUORUM_STATE = "quorum_state"
    # In a log directory
    META_PROPERTIES = "meta_properties"
    CHECKPOINT = "checkpoint"
    FOREIGN_DIRECTORY = "foreign_directory"
    BARE_LOG_DIR = "bare_log_dir"  # with nothing in it, as one whose disk is not mounted
    DUPLICATE_PARTITION = "duplicate_partition"
    DUPLICATE_COPY = "duplicate_copy"  # two copies of a partition on their way to another log directory
    STRAY = "stray"  # of no topic, or no partition here, that the cluster has
    SETTINGS = "settings"  # the file that kafkafs keeps
    COMMITS = "commits"  # kafkafs's record of them
    # Anywhere
    SYMBOLIC_LINK = "symbolic_link"  # in the place of a file or a directory; it is not followed
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding and its place.

    `path` is relative to `log_dir`, the log directory as the caller named it. `position` and `end_position` are bytes
    of the file, `offset` is that of the record or entry. For bytes that do not decode, `last_good_offset` and
    `next_good_offset` are those of the nearest records in the same file that do. `start_action` and `at_start` say what
    a broker that starts does about it, in a word and in a sentence.
    """

    severity: Severity
    kind: FindingKind
    log_dir: str | None = None
    topic: str | None = None
    partition: int | None = None
    path: str
    position: int | None = None
    end_position: int | None = None
    offset: int | None = None
    last_good_offset: int | None = None
    next_good_offset: int | None = None
    reason: str
    start_action: str | None = None
    at_start: str | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """The fields that are equal when a second check finds the same damage."""
        return self.severity, self.kind, self.path, self.position, self.end_position, self.offset

    def within(
        self, directory: str, *, log_dir: str | None = None, topic: str | None = None, partition: int | None = None
    ) -> Finding:
        """Return the finding with its path relative to the parent of `directory`."""
        path = "/".join(part for part in (directory, self.path) if part)
        return replace(self, path=path, log_dir=log_dir, topic=topic, partition=partition)


def damage(kind: FindingKind, path: str, reason: str, **place: int | None) -> Finding:
    """Return a finding of damage in a file."""
    return Finding(severity=Severity.DAMAGE, kind=kind, path=path, reason=reason, **place)  # type: ignore[arg-type]


def notice(kind: FindingKind, path: str, reason: str) -> Finding:
    """Return a finding that is no damage."""
    return Finding(severity=Severity.NOTICE, kind=kind, path=path, reason=reason)


def missing_index(path: str) -> Finding:
    """Return the finding of an index that is not there, which the broker that wrote the segment had made."""
    return damage(FindingKind.MISSING_INDEX, path, "the segment lacks this index")


def stranger(path: str, error: SpecialFileError) -> Finding:
    """Return the finding of what kafkafs does not open: damage for a symbolic link, and unreadable for all others."""
    if isinstance(error, SymbolicLinkError):
        return damage(FindingKind.SYMBOLIC_LINK, path, f"it {error.strerror}")
    return _unreadable(path, f"it {error.strerror}")


def unreadable(path: str, error: OSError) -> Finding:
    """Return the finding of a file that the operating system refused to show, or that kafkafs does not open."""
    if isinstance(error, SpecialFileError):
        return stranger(path, error)
    return _unreadable(path, error.strerror or str(error))


def _unreadable(path: str, reason: str) -> Finding:
    return Finding(severity=Severity.UNREADABLE, kind=FindingKind.UNREADABLE, path=path, reason=reason)


KEPT_MAX: Final = 100
"""The number of findings of a kind that are kept of a file."""


class FindingList:
    """The findings of one check, in their order. Of thousands of one kind in a file it keeps the first and the last.

    Of a symbolic link it keeps one finding and nothing else, and of what cannot be read no finding twice.
    """

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, FindingKind]] = Counter()
        self._last: dict[tuple[str, FindingKind], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        key = (finding.path, finding.kind)
        if self._counts[finding.path, FindingKind.SYMBOLIC_LINK]:
            return
        if finding.severity is Severity.UNREADABLE and finding in self._kept:  # by its name, and then by opening it
            return
        self._counts[key] += 1
        if self._counts[key] <= KEPT_MAX:
            self._kept.append(finding)
        else:
            self._last[key] = finding

    def extend(self, others: FindingList) -> None:
        """Add those of another list, as if each had been added here."""
        for finding in others._kept:
            self.add(finding)
        for key, finding in others._last.items():
            self._counts[key] += others._counts[key] - KEPT_MAX - 1
            self.add(finding)

    def all(self) -> list[Finding]:
        """Return the kept findings, and one for each kind that had more."""
        more = [
            replace(finding, reason=f"{finding.reason}; the last of {self._counts[key] - KEPT_MAX} more like this")
            for key, finding in self._last.items()
        ]
        return [*self._kept, *more]
