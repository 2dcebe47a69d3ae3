"""What a check of bytes on disk has found: one value for every kind of thing, wherever it is shown.

Whoever looks at a part of a store knows only that part; `within` adds what its callers know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from storage.errors import SymbolicLinkError


class Severity(StrEnum):
    """What a finding means for whoever relies on the store."""

    DAMAGE = "damage"  # no broker that runs, or was killed, leaves this behind
    NOTICE = "notice"  # a broker may leave this behind, and tidies it up without loss
    UNREADABLE = "unreadable"  # the operating system did not let anybody look


class FindingKind(StrEnum):
    """What was found."""

    # In a log
    FRAMING = "framing"  # a header that makes no sense, with sound batches behind it
    CHECKSUM = "checksum"
    RECORDS = "records"  # the checksum is right, and yet the records do not decode
    OFFSETS = "offsets"  # they do not rise, or are not the segment's
    OFFSET_GAP = "offset_gap"  # some are missing, and nothing was compacted
    LEADER_EPOCH = "leader_epoch"  # a batch and the checkpoint of epochs contradict each other
    TORN_TAIL = "torn_tail"  # bytes behind the last batch that are none
    ZERO_TAIL = "zero_tail"  # the same, and nothing but zeros
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
    LEFT_OVER = "left_over"  # files that are to be removed, or that nobody reads
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
    DUPLICATE_PARTITION = "duplicate_partition"
    STRAY = "stray"  # of no topic, or no partition here, that the cluster has
    SETTINGS = "settings"  # the file that kafkafs keeps
    # Anywhere
    SYMBOLIC_LINK = "symbolic_link"  # in the place of a file or a directory, which is not followed
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found, and where.

    `path` is relative to `log_dir`, the log directory as it was given. `position` and `end_position` are bytes of the
    file, `offset` the record or entry that it is about. Of a range of bytes that do not decode, `last_good_offset` and
    `next_good_offset` are those of the nearest records that do, as far as there are any in the same file.
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

    @property
    def identity(self) -> tuple[object, ...]:
        """What stays the same when the same thing is found once more."""
        return self.severity, self.kind, self.path, self.position, self.end_position, self.offset

    def within(
        self, directory: str, *, log_dir: str | None = None, topic: str | None = None, partition: int | None = None
    ) -> Finding:
        """The finding of a file in a directory, as seen from where that directory is."""
        path = "/".join(part for part in (directory, self.path) if part)
        return replace(self, path=path, log_dir=log_dir, topic=topic, partition=partition)


def damage(kind: FindingKind, path: str, reason: str, **place: int | None) -> Finding:
    """A finding of damage in a file."""
    return Finding(severity=Severity.DAMAGE, kind=kind, path=path, reason=reason, **place)  # type: ignore[arg-type]


def notice(kind: FindingKind, path: str, reason: str) -> Finding:
    """A finding that is no damage."""
    return Finding(severity=Severity.NOTICE, kind=kind, path=path, reason=reason)


def linked(path: str) -> Finding:
    """The finding of a symbolic link."""
    return damage(FindingKind.SYMBOLIC_LINK, path, "it is a symbolic link, which kafkafs does not follow")


def unreadable(path: str, error: OSError) -> Finding:
    """The finding that the operating system refused to show a file, or that it is a symbolic link."""
    if isinstance(error, SymbolicLinkError):
        return linked(path)
    return Finding(
        severity=Severity.UNREADABLE, kind=FindingKind.UNREADABLE, path=path, reason=error.strerror or str(error)
    )
