"""What a store writes into the checkpoints of its log directories.

Logs that are open say where they are. Of the others stays what was known, and partitions that are gone are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.topics.open_logs import PartitionLog


def write_checkpoints(
    log_dir: LogDir, partitions: Iterable[Partition], open_logs: Mapping[Partition, PartitionLog], *, leads: bool
) -> None:
    """Bring the checkpoints of a log directory, which has these partitions, up to date."""
    with log_dir.checkpointing:
        for checkpoint, offsets in offsets_to_write(log_dir, partitions, open_logs, leads=leads).items():
            log_dir.write_offsets(checkpoint, offsets)


def offsets_to_write(
    log_dir: LogDir, partitions: Iterable[Partition], open_logs: Mapping[Partition, PartitionLog], *, leads: bool
) -> dict[OffsetCheckpoint, dict[Partition, int]]:
    """What the checkpoints of a log directory, which has these partitions, are to say.

    Who leads all of them has no followers either: what is appended is replicated. Of a broker's replicas nobody but the
    broker knows how far they are, and all that can be said is that they are not beyond their end.
    """
    here = sorted(partition for partition in partitions if partition[0] != CLUSTER_METADATA)
    found: dict[OffsetCheckpoint, dict[Partition, int]] = {}
    for checkpoint in OffsetCheckpoint:
        known = log_dir.offsets(checkpoint)
        offsets = found.setdefault(checkpoint, {})
        for partition in here:
            log = open_logs.get(partition)
            offset = known.get(partition)
            if log is not None and checkpoint is not OffsetCheckpoint.FIRST_DIRTY:
                is_known = leads or checkpoint is not OffsetCheckpoint.HIGH_WATERMARK
                offset = _offset(checkpoint, log, offset) if is_known else _at_most(offset, log.view.end_offset)
            if checkpoint is OffsetCheckpoint.FIRST_DIRTY and log_dir.flaw(checkpoint) is not None:
                offset = known.get(partition, 0)  # any of them may have been compacted, and lack offsets since
            if offset is not None:
                offsets[partition] = offset
    return found


def lower_checkpoints(log_dir: LogDir, partition: Partition, offset: int) -> None:
    """Have no checkpoint say more of a partition than this offset, durably, as its log is about to end there."""
    with log_dir.checkpointing:
        for checkpoint in OffsetCheckpoint:
            known = log_dir.offsets(checkpoint)
            lowered = {partition: min(known[partition], offset)} if partition in known else {}
            log_dir.write_offsets(checkpoint, {**known, **lowered})


def write_log_start(log_dir: LogDir, partition: Partition, offset: int) -> None:
    """Have the checkpoint say, durably, that a partition's log begins at this offset, as it is about to."""
    with log_dir.checkpointing:
        known = log_dir.offsets(OffsetCheckpoint.LOG_START)
        log_dir.write_offsets(OffsetCheckpoint.LOG_START, {**known, partition: offset})


def note_compaction(log_dirs: Mapping[Partition, LogDir]) -> None:
    """Have the cleaners' checkpoints name these partitions, durably: whoever recovers one knows then why offsets lack.

    What they say of a partition already stays.
    """
    for log_dir in set(log_dirs.values()):
        here = {partition: 0 for partition, place in log_dirs.items() if place is log_dir}
        with log_dir.checkpointing:
            known = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
            log_dir.write_offsets(OffsetCheckpoint.FIRST_DIRTY, {**here, **known})


def write_first_dirty(log_dir: LogDir, partition: Partition, offset: int) -> None:
    """Have the cleaner's checkpoint say, durably, that a partition is compacted up to this offset."""
    with log_dir.checkpointing:
        known = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
        log_dir.write_offsets(OffsetCheckpoint.FIRST_DIRTY, {**known, partition: offset})


def forget_checkpoints(log_dirs: Iterable[LogDir], partitions: Collection[Partition]) -> None:
    """Have no checkpoint say anything of these partitions, lest namesakes that are made later inherit it."""
    for log_dir in log_dirs:
        with log_dir.checkpointing:
            for checkpoint in OffsetCheckpoint:
                known = log_dir.offsets(checkpoint)
                kept = {partition: offset for partition, offset in known.items() if partition not in partitions}
                log_dir.write_offsets(checkpoint, kept)


def _offset(checkpoint: OffsetCheckpoint, log: PartitionLog, known: int | None) -> int | None:
    """What the log has to say, of which this is known so far; None if nothing."""
    if checkpoint is OffsetCheckpoint.RECOVERY_POINT:
        return log.recovery_point
    view = log.view
    if checkpoint is OffsetCheckpoint.HIGH_WATERMARK:
        return view.end_offset
    # Elsewhere a log begins with its first segment, and whoever opens it sees that.
    first = view.segments[0].base_offset if view.segments else 0
    start_offset = max(view.start_offset, known or 0)  # the checkpoint knows of a move before the log makes it
    return start_offset if start_offset > first else None


def _at_most(offset: int | None, end_offset: int) -> int | None:
    return None if offset is None else min(offset, end_offset)
