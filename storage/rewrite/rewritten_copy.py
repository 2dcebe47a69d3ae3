"""A partition's log rewritten into a store that is built, with the offsets that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cleanup.kept_batch import KeptBatch
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.rewrite.batches import BatchRewriting
from storage.rewrite.log_copying import CopiedBatch, LogCopying

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.log_dir.checkpoints import Partition
    from storage.rewrite.batches import RewriteRules, RewriteTally
    from storage.rewrite.store_builder import StoreBuilding
    from storage.store.store import Store


def copy_rewritten(store: Store, build: StoreBuilding, partition: Partition, rules: RewriteRules) -> None:
    """Rewrite a partition of a store, which is open for reading only, into one that is built.

    Its segments become as large as the topic's may be. Raises a `StorageError` if the log cannot be read.
    """
    with build.attempt(partition) as directory:
        copying = LogCopying(store, build, partition, directory)
        try:
            rewriting = _rewrite(copying, rules)
            copying.finish()
        finally:
            copying.building.close()
        _, log_dir = store.topics.place(*partition)
        checkpoint = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get(partition)
        if checkpoint is None and rewriting.tally.dropped:
            checkpoint = 0
        copying.put(checkpoint, _told(copying, rewriting.tally))


def _told(copying: LogCopying, tally: RewriteTally) -> dict[str, int]:
    return {
        "recordsBefore": tally.records_before,
        "recordsAfter": tally.records_before - tally.dropped,
        "batchesBefore": tally.batches_before,
        "batchesAfter": tally.batches_after,
        "beforeBytes": copying.size_bytes,
        "afterBytes": copying.building.size_bytes,
        "redacted": tally.redacted,
        "dropped": tally.dropped,
        "segments": copying.building.segments,
    }


def _rewrite(copying: LogCopying, rules: RewriteRules) -> BatchRewriting:
    last = {state.batches[-1].last_offset for state in copying.producers if state.batches}
    rewriting = BatchRewriting(rules, copying.config, last)
    if copying.view.segments:
        copying.building.cut(copying.base_offset)
    for part in copying.slices():
        for copied in copying.batches(part):
            _write(copying, rewriting.add(copied))
    _write(copying, rewriting.rest())
    return rewriting


def _write(copying: LogCopying, rewritten: Iterable[CopiedBatch]) -> None:
    for batch, aborted, modified_ms in rewritten:
        kept = KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True, aborted=aborted)
        copying.building.add(batch, kept, modified_ms)
