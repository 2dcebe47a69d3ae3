"""What a store writes into the checkpoints of its log directories.

Logs that are open say where they are. Of the others stays what was known, and partitions that are gone are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.store.checkpoints import OffsetCheckpoint
from storage.store.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from storage.store.checkpoints import Partition
    from storage.store.log_dir import LogDir
    from storage.store.open_logs import PartitionLog


def write_checkpoints(
    log_dir: LogDir, partitions: Iterable[Partition], open_logs: Mapping[Partition, PartitionLog]
) -> None:
    """Bring the checkpoints of a log directory, which has these partitions, up to date."""
    here = sorted(partition for partition in partitions if partition[0] != CLUSTER_METADATA)
    for checkpoint in OffsetCheckpoint:
        known = log_dir.offsets(checkpoint)
        offsets = {}
        for partition in here:
            log = open_logs.get(partition)
            offset = known.get(partition)
            if log is not None and checkpoint is not OffsetCheckpoint.FIRST_DIRTY:
                offset = _offset(checkpoint, log)
            if offset is not None:
                offsets[partition] = offset
        log_dir.write_offsets(checkpoint, offsets)


def forget_checkpoints(log_dirs: Iterable[LogDir], partitions: Collection[Partition]) -> None:
    """Have no checkpoint say anything of these partitions, lest namesakes that are made later inherit it."""
    for log_dir in log_dirs:
        for checkpoint in OffsetCheckpoint:
            known = log_dir.offsets(checkpoint)
            if not known.keys().isdisjoint(partitions):
                kept = {partition: offset for partition, offset in known.items() if partition not in partitions}
                log_dir.write_offsets(checkpoint, kept)


def _offset(checkpoint: OffsetCheckpoint, log: PartitionLog) -> int | None:
    """What the log has to say; None if nothing."""
    if checkpoint is OffsetCheckpoint.RECOVERY_POINT:
        return log.recovery_point
    view = log.view
    if checkpoint is OffsetCheckpoint.HIGH_WATERMARK:
        return view.end_offset
    # Elsewhere a log begins with its first segment, and whoever opens it sees that.
    return view.start_offset if view.start_offset > view.segments[0].base_offset else None
