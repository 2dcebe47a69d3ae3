"""A partition's log written into a built store from staged files: new records, from offset 0 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage.cleanup.batch_filter import KeptBatch
from storage.commit.staged_file import StagedFile
from storage.config import StoreConfig
from storage.log.epoch_entries import EpochStart
from storage.record.reading import read_batches
from storage.record.rewriting import assign_offset
from storage.rewrite.partition_builder import PartitionBuilder
from storage.rewrite.topics import BuiltPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition
    from storage.rewrite.store_builder import StoreBuilder

_FIRST_EPOCH = 0


def copy_staged(build: StoreBuilder, partition: Partition, staging: Directory, names: Sequence[str]) -> None:
    """Append the partition's batches of these staged files, in order; raises a `StorageError` at damage."""
    known = build.topics[partition[0]].known
    assert known.topic_id is not None
    with build.attempt(partition) as directory:
        builder = PartitionBuilder(directory, StoreConfig.resolve({}).topic(known.settings))
        try:
            staged = (StagedFile(staging, name) for name in names)
            stats = _append(builder, partition, staged, build.begun_ms)
            end_offset = stats["recordsAfter"]
            builder.finish(
                0,
                end_offset,
                modified_ms=build.begun_ms,
                epochs=[EpochStart(_FIRST_EPOCH, 0)] if end_offset else (),
                producers=(),
                topic_id=known.topic_id,
            )
        finally:
            builder.close()
        stats |= {"afterBytes": builder.size_bytes, "segments": builder.segments}
        built = BuiltPartition(
            base_offset=0, start_offset=0, end_offset=end_offset, first_dirty_offset=None, stats=stats
        )
        build.put(directory, partition, built)


def _append(
    builder: PartitionBuilder, partition: Partition, staged: Iterable[StagedFile], now_ms: int
) -> dict[str, Any]:
    offset = batches = 0
    builder.cut(offset)
    for file in staged:
        for sent in file.batches(partition):
            data = bytearray(sent.view(0, sent.size_bytes))
            assign_offset(data, base_offset=offset, leader_epoch=_FIRST_EPOCH)
            (batch,) = read_batches(bytes(data))
            builder.add(batch, KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True), now_ms)
            offset += sent.count
            batches += 1
    return {"recordsAfter": offset, "batchesAfter": batches}
