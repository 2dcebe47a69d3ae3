"""A partition's log rewritten into a store that is built, with the offsets that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cleanup.kept_batch import KeptBatch
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.rewrite.batches import BatchRewriter
from storage.rewrite.log_copier import CopiedBatch, LogCopier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.log_dir.checkpoints import Partition
    from storage.rewrite.batches import RewriteRules, RewriteTally
    from storage.rewrite.store_builder import StoreBuilder
    from storage.store.store import Store


def copy_rewritten(store: Store, build: StoreBuilder, partition: Partition, rules: RewriteRules) -> None:
    """Rewrite a partition of a store, which is open for reading only, into one that is built.

    Its segments become as large as the topic's may be. Raises a `StorageError` if the log cannot be read.
    """
    with build.attempt(partition) as directory:
        copier = LogCopier(store, build, partition, directory)
        try:
            rewriter = _rewrite(copier, rules)
            copier.finish()
        finally:
            copier.builder.close()
        _, log_dir = store.topics.place(*partition)
        checkpoint = log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY).get(partition)
        if checkpoint is None and rewriter.tally.dropped:
            checkpoint = 0
        copier.put(checkpoint, _told(copier, rewriter.tally))


def _told(copier: LogCopier, tally: RewriteTally) -> dict[str, int]:
    return {
        "recordsBefore": tally.records_before,
        "recordsAfter": tally.records_before - tally.dropped,
        "batchesBefore": tally.batches_before,
        "batchesAfter": tally.batches_after,
        "beforeBytes": copier.size_bytes,
        "afterBytes": copier.builder.size_bytes,
        "redacted": tally.redacted,
        "dropped": tally.dropped,
        "segments": copier.builder.segments,
    }


def _rewrite(copier: LogCopier, rules: RewriteRules) -> BatchRewriter:
    last = {state.batches[-1].last_offset for state in copier.producers if state.batches}
    rewriter = BatchRewriter(rules, copier.config, last)
    if copier.view.segments:
        copier.builder.cut(copier.base_offset)
    for part in copier.slices():
        for copied in copier.batches(part):
            _write(copier, rewriter.add(copied))
    _write(copier, rewriter.rest())
    return rewriter


def _write(copier: LogCopier, rewritten: Iterable[CopiedBatch]) -> None:
    for batch, aborted, modified_ms in rewritten:
        kept = KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True, aborted=aborted)
        copier.builder.add(batch, kept, modified_ms)
