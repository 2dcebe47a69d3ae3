"""The records of each batch that a cleaner keeps, by a broker's rules.

Of a key the last record stays that the map of offsets knows, and all records after the map's end. Tombstones and the
markers of transactions go in two passes: the first that finds them writes into their batch when they may go, and a
later one removes them. Aborted data goes at once. Some batches stay with no record left, because a producer or the
log's end is known by them. Batches of version 0 or 1 have no place for delete horizons and cannot be empty: a tombstone
in them goes at the time that its segment's age gives, and where such a batch has to stay, its last record does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.cleanup.compaction_report import Loss
from storage.errors import ChecksumError
from storage.record.batch import RecordBatch
from storage.record.compression import Codec
from storage.record.kernel.retained import select_retained_records
from storage.record.legacy_encoding import encode_wrapper
from storage.record.rewriting import retaining

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

    from storage.cleanup.cleaned_transactions import CleanedTransactions
    from storage.cleanup.compaction_report import Tally
    from storage.config import TopicConfig
    from storage.log.producers.state import ProducerState
    from storage.record.kernel.decode import Record
    from storage.record.kernel.offset_map import OffsetMap
    from storage.record.legacy import LegacyBatch
    from storage.record.reading import Batch
    from storage.segment.index.entries import AbortedTransaction

logger = logging.getLogger(__name__)

_LARGEST_TIME: Final = 2**63 - 1


class BatchFilter:
    """The rules for one run over a log, whose batches are passed in order from its beginning.

    `producers` are the log's present ones. `end_offset` is where the run ends: the batch that ends there stays.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Iterable[ProducerState],
        config: TopicConfig,
        *,
        now_ms: int,
        end_offset: int,
        tally: Tally,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = {state.producer_id: state for state in producers}
        self._config = config
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + config.delete_retention_ms, _LARGEST_TIME)
        self._end_offset = end_offset
        self._tally = tally

    def kept(self, batch: Batch, *, keeps_legacy_tombstones: bool) -> KeptBatch | None:
        """Return the kept bytes of the next batch, which is sound; None if it goes.

        Raises `CorruptBatchError` if its records cannot be read.
        """
        tally = self._tally
        tally.batches_read += 1
        if isinstance(batch, RecordBatch):
            kept = self._kept_batch(batch)
        else:
            kept = self._kept_entries(batch, keeps_tombstones=keeps_legacy_tombstones)
        if kept is not None:
            tally.batches_kept += 1
            tally.batches_unchanged += kept.is_unchanged
        return kept

    def _kept_batch(self, batch: RecordBatch) -> KeptBatch | None:
        is_needed, aborted = self._transactions.fate(batch)
        is_control = batch.is_control
        horizon_ms = batch.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self._now_ms
        if not is_needed and (is_over or not is_control):
            if is_control:
                self._tally.markers += batch.count
            else:
                self._tally.aborted += batch.count
            self._tally.read += batch.count
            return self._emptied(batch)
        records_data = batch.records_data() if batch.codec and batch.count else None
        found = select_retained_records(
            batch, records_data, None if is_control else self._offsets, keep_tombstones=not is_over
        )
        self._tally.add(found)
        if not found.kept:
            return self._emptied(batch)
        needs_horizon = horizon_ms is None and (found.tombstones > 0 or not is_needed)
        if found.kept == found.read and not needs_horizon:
            return KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True, aborted=aborted)
        data = retaining(
            batch,
            found,
            level=self._config.compression_level(batch.codec),
            delete_horizon_ms=self._new_horizon_ms if needs_horizon else None,
        )
        if len(data) > batch.size_bytes and len(data) > self._config.max_message_bytes:
            logger.warning("the batch at offset %d has %d bytes once it is compacted", batch.base_offset, len(data))
        return KeptBatch(data, is_unchanged=False, aborted=aborted)

    def _emptied(self, batch: RecordBatch) -> KeptBatch | None:
        """Return the batch without its records if it has to stay."""
        if batch.last_offset + 1 == self._end_offset or self._is_last_of_producer(batch):
            return KeptBatch(retaining(batch, ()), is_unchanged=batch.count == 0)
        return None

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """True if recovery rebuilds a producer's state from the batch: its last data, or without any its last marker.

        The offset decides, because sequences may begin again at 0.
        """
        state = self._producers.get(batch.producer_id)
        if state is None:
            return False
        if state.batches:
            return state.batches[-1].last_offset == batch.last_offset
        return batch.is_control and state.epoch == batch.producer_epoch

    def _kept_entries(self, batch: LegacyBatch, *, keeps_tombstones: bool) -> KeptBatch | None:
        return filtered_entries(
            batch,
            self._offsets,
            keeps_tombstones=keeps_tombstones,
            must_stay=batch.last_offset + 1 == self._end_offset,
            level=self._config.compression_level(batch.codec),
            tally=self._tally,
        )


class KeptBatch(NamedTuple):
    """The kept bytes of a batch, and its entry of the segment's transaction index."""

    data: Buffer
    is_unchanged: bool
    aborted: AbortedTransaction | None = None


def filtered_entries(
    batch: LegacyBatch,
    offsets: OffsetMap,
    *,
    keeps_tombstones: bool,
    must_stay: bool,
    level: int | None,
    tally: Tally,
) -> KeptBatch | None:
    """Return the kept bytes of an entry or a wrapper with a right checksum; None if it goes.

    A wrapper that is not kept as it is, or holds entries of another version than its own, is written again.
    """
    entries = list(batch.entries())
    fates = [_fate(entry.record, offsets, keeps_tombstones=keeps_tombstones) for entry in entries]
    if must_stay and Loss.NONE not in fates:
        fates[-1] = Loss.NONE
    tally.lose(fates)
    kept = [entry for entry, fate in zip(entries, fates, strict=True) if fate is Loss.NONE]
    if not kept:
        return None
    is_sound = all(entry.magic == batch.magic for entry in kept)
    if batch.codec is Codec.NONE or (is_sound and len(kept) == len(entries)):
        return KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True)
    for entry in kept:
        if not entry.crc_matches:
            raise ChecksumError(
                f"an entry within the wrapper does not have its CRC {entry.crc:08x}",
                position=batch.position,
                offset=entry.record.offset,
            )
    records = [entry.record for entry in kept]
    data = encode_wrapper(records, batch.magic, batch.codec, level=level, timestamp_type=batch.timestamp_type)
    return KeptBatch(data, is_unchanged=False)


def _fate(record: Record, offsets: OffsetMap, *, keeps_tombstones: bool) -> Loss:
    offset = record.offset
    if offset > offsets.latest_offset:
        return Loss.NONE
    key = record.key
    if key is None:
        return Loss.KEYLESS
    if offset < offsets.find(key):
        return Loss.SUPERSEDED
    return Loss.EXPIRED if record.value_size < 0 and not keeps_tombstones else Loss.NONE
