"""Writing the checkpoints of log directories.

Open logs give their offsets. Offsets of the others stay, and missing partitions are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from storage.files import in_order
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.names import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from storage.log.log import Log
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir


class LogOffsets(NamedTuple):
    """The offsets of a log that checkpoints hold. `base_offset` is that of its first segment."""

    recovery_point: int
    base_offset: int
    start_offset: int
    end_offset: int

    @classmethod
    def of(cls, log: Log) -> Self:
        """The offsets of a log that is open, or was until now."""
        view = log.view
        base_offset = view.segments[0].base_offset if view.segments else 0
        return cls(log.recovery_point, base_offset, view.start_offset, view.end_offset)


class PartitionCheckpoints(NamedTuple):
    """The checkpoints of a log directory, as far as they are about one of its partitions."""

    log_dir: LogDir
    partition: Partition

    def lower(self, offset: int) -> None:
        """Lower the partition's checkpoints to this offset, durably, before its log is cut there."""
        with self.log_dir.checkpointing:
            for checkpoint in OffsetCheckpoint:
                known = self.log_dir.offsets(checkpoint)
                lowered = {self.partition: min(known[self.partition], offset)} if self.partition in known else {}
                self.log_dir.write_offsets(checkpoint, {**known, **lowered})

    def move_start(self, offset: int) -> None:
        """Write the partition's new log start offset to the checkpoint, durably, before the log moves there."""
        self._write(OffsetCheckpoint.LOG_START, offset)

    def move_first_dirty(self, offset: int) -> None:
        """Write to the cleaner's checkpoint, durably, that the partition is compacted up to this offset."""
        self._write(OffsetCheckpoint.FIRST_DIRTY, offset)

    def _write(self, checkpoint: OffsetCheckpoint, offset: int) -> None:
        with self.log_dir.checkpointing:
            known = self.log_dir.offsets(checkpoint)
            self.log_dir.write_offsets(checkpoint, {**known, self.partition: offset})


def write_checkpoints(
    log_dir: LogDir, partitions: Iterable[Partition], logs: Mapping[Partition, LogOffsets], *, leads: bool
) -> None:
    """Bring the checkpoints of a log directory, which has these partitions, up to date."""
    with log_dir.checkpointing:
        for checkpoint, offsets in offsets_to_write(log_dir, partitions, logs, leads=leads).items():
            log_dir.write_offsets(checkpoint, offsets)


def offsets_to_write(
    log_dir: LogDir, partitions: Iterable[Partition], logs: Mapping[Partition, LogOffsets], *, leads: bool
) -> dict[OffsetCheckpoint, dict[Partition, int]]:
    """Return the checkpoints of a log directory that has these partitions.

    A store that leads all of them has no followers: what is appended is replicated. Only a broker knows how far its
    replicas are; of these the high watermark is only kept from lying beyond the log's end.
    """
    here = list(in_order([partition for partition in partitions if partition[0] != CLUSTER_METADATA]))
    found: dict[OffsetCheckpoint, dict[Partition, int]] = {}
    for checkpoint in OffsetCheckpoint:
        known = log_dir.offsets(checkpoint)
        offsets = found.setdefault(checkpoint, {})
        for partition in here:
            log = logs.get(partition)
            offset = known.get(partition)
            if log is not None and checkpoint is not OffsetCheckpoint.FIRST_DIRTY:
                is_known = leads or checkpoint is not OffsetCheckpoint.HIGH_WATERMARK
                offset = _offset(checkpoint, log, offset) if is_known else _at_most(offset, log.end_offset)
            if checkpoint is OffsetCheckpoint.FIRST_DIRTY and log_dir.flaw(checkpoint) is not None:
                offset = known.get(partition, 0)  # any of them may have been compacted, and lack offsets since
            if offset is not None:
                offsets[partition] = offset
    return found


def note_compaction(log_dirs: Mapping[Partition, LogDir]) -> None:
    """Name these partitions in the cleaners' checkpoints, durably: recovery then knows why offsets are missing.

    What they say of a partition already stays.
    """
    for log_dir in set(log_dirs.values()):
        here = {partition: 0 for partition, place in log_dirs.items() if place is log_dir}
        with log_dir.checkpointing:
            known = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
            log_dir.write_offsets(OffsetCheckpoint.FIRST_DIRTY, {**here, **known})


def forget_checkpoints(log_dirs: Iterable[LogDir], partitions: Collection[Partition]) -> None:
    """Remove these partitions from all checkpoints, so that later namesakes do not inherit them."""
    for log_dir in log_dirs:
        with log_dir.checkpointing:
            for checkpoint in OffsetCheckpoint:
                known = log_dir.offsets(checkpoint)
                kept = {partition: offset for partition, offset in known.items() if partition not in partitions}
                log_dir.write_offsets(checkpoint, kept)


def _offset(checkpoint: OffsetCheckpoint, log: LogOffsets, known: int | None) -> int | None:
    """Return the log's offset for a checkpoint that holds `known` so far, None if it has none."""
    if checkpoint is OffsetCheckpoint.RECOVERY_POINT:
        return log.recovery_point
    if checkpoint is OffsetCheckpoint.HIGH_WATERMARK:
        return log.end_offset
    # Without the checkpoint a log begins with its first segment.
    start_offset = max(log.start_offset, known or 0)  # the checkpoint knows of a move before the log makes it
    return start_offset if start_offset > log.base_offset else None


def _at_most(offset: int | None, end_offset: int) -> int | None:
    return None if offset is None else min(offset, end_offset)
