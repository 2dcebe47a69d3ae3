"""The input of every check of a partition: its directory, what is expected of it, and where findings go.

An expectation is data, so that one process can make it and another can verify the partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import CorruptCheckpointError
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.recognition import CLEAN_MARKER_NAME
from storage.verify.finding import FindingList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition

# Each log has reached these offsets once. The cleaner's checkpoint is not among them: brokers correct one that is
# beyond the log.
_REACHED: Final = (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.LOG_START, OffsetCheckpoint.HIGH_WATERMARK)


class Standing(NamedTuple):
    """The state of a partition by the files at the top of its log directory.

    `reached` are offsets that the log had reached when a checkpoint was written, by the checkpoints' names. Those that
    are `outdated` may be older than a truncation of the log.
    """

    is_clean: bool
    reached: Mapping[str, int]
    outdated: frozenset[str]

    @classmethod
    def of(cls, log_dir: Directory, partition: Partition) -> Self:
        """Read the files; one that cannot be read says nothing."""
        offsets: dict[OffsetCheckpoint, Mapping[Partition, int]] = {}
        for checkpoint in _REACHED:
            try:
                offsets[checkpoint] = read_offsets(log_dir, checkpoint)
            except (CorruptCheckpointError, OSError):
                offsets[checkpoint] = {}
        is_clean = was_closed(log_dir)
        return cls(is_clean, reached(offsets, partition), outdated(log_dir, is_clean=is_clean))


def reached(offsets: Mapping[OffsetCheckpoint, Mapping[Partition, int]], partition: Partition) -> dict[str, int]:
    """Return the offsets that the log has reached by these checkpoints, by the checkpoints' names."""
    return {each.value: offsets[each][partition] for each in _REACHED if partition in offsets[each]}


def was_closed(log_dir: Directory) -> bool:
    """Return True if the log directory has the marker of a proper shutdown. Only a regular file counts."""
    marker = log_dir.status(CLEAN_MARKER_NAME)
    return marker is not None and marker.is_file


def outdated(log_dir: Directory, *, is_clean: bool) -> frozenset[str]:
    """Return the checkpoints that a broker wrote before it may have truncated a log.

    With a truncation it writes the recovery points, and the high watermarks up to five seconds later.
    """
    points, watermarks = (
        log_dir.status(each.value) for each in (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.HIGH_WATERMARK)
    )
    if is_clean or points is None or watermarks is None or points.modified_ms <= watermarks.modified_ms:
        return frozenset()
    return frozenset({OffsetCheckpoint.HIGH_WATERMARK.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExpectation:
    """The facts known of a partition before its directory is read. Can be sent to another process.

    The log begins at `start_offset` or later; records before that are deleted, also where they are still there.
    `is_clean`, `reached` and `outdated` are those of a `Standing`. A partition that `is_compacted` may lack offsets,
    and so may one that shows signs of it. One that `is_cluster_metadata` is the metadata log of a KRaft cluster, and
    has snapshots of its own kind.

    A running broker changes its log directory meanwhile. `spoken_of` is the partition by which the log directory can be
    asked again; None if what it says is about another directory.
    """

    directory: Directory
    is_clean: bool = False
    has_topic_id: bool = False
    is_compacted: bool = False
    start_offset: int = 0
    reached: Mapping[str, int] = field(default_factory=dict)
    outdated: frozenset[str] = frozenset()
    is_cluster_metadata: bool = False
    spoken_of: Partition | None = None

    def standing_now(self) -> Standing | None:
        """Ask the log directory again; None if it says nothing of this directory."""
        log_dir = self.directory.above
        return None if self.spoken_of is None or log_dir is None else Standing.of(log_dir, self.spoken_of)

    def is_clean_still(self) -> bool:
        """Return True if no broker has opened the log directory since it was found properly closed."""
        now = self.standing_now() if self.is_clean else None
        return self.is_clean and (now is None or now.is_clean)


class SegmentExpectation(NamedTuple):
    """The facts known of a segment before its files are read.

    A broker appends to one that `is_active`, or did when it was killed. One that `begins_epoch` may have the first
    record of a leader epoch at its base.
    """

    base_offset: int
    is_active: bool
    begins_epoch: bool


class LogEnd(NamedTuple):
    """Where the batches of a log end, as a reader has found it: in its last segment, and before which offset."""

    base_offset: int
    position: int
    offset: int


def _ignore(_more_bytes: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """The state that the checks of one partition share. They call `advance` with the bytes of logs that they read."""

    directory: Directory
    expected: PartitionExpectation
    advance: Callable[[int], None] = _ignore
    findings: FindingList = field(default_factory=FindingList)
