"""A partition's producers: their states, duplicate batches, open and aborted transactions.

`ProducerStates` treats idempotent and transactional batches as a broker does. Checking and applying are apart: `check`
changes nothing, `apply` accepts every batch that can be read, and the log writes a batch between the two. The log reads
the batches after the newest snapshot, and writes the transaction index.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY
from storage.errors import CorruptSnapshotError
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.producers.state import AppendOrigin, CachedBatch, ProducerState, marker_of
from storage.log.producers.transactions import CompletedTransaction, Transactions
from storage.record.layout import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.budget import Lease
    from storage.files import Directory
    from storage.record.reading import Batch

PRODUCER_BYTES: Final = 512
"""What a producer with an open transaction takes in memory, about."""
RESERVED_TOGETHER: Final = 16 * 1024
"""For how many producers memory is reserved at a time; the first ones, which nearly all logs have, go without."""

logger = logging.getLogger(__name__)


class ProducerStates:
    """The producers of a partition's log up to `end_offset`.

    One thread changes them. Meanwhile other threads may call `states` and `live` and read `first_unstable_offset`,
    `last_stable_offset` and `end_offset`, each as it was at some moment between two changes.

    Many producers take their memory from the budget until they are collected: where none is left, loading, replaying
    and checking raise `MemoryBudgetError`.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        expiration_ms: int,
        read_only: bool = False,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        self.end_offset = 0
        self.snapshots = SnapshotFiles(directory, read_only=read_only) if snapshots is None else snapshots
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerState] = {}
        self._transactions = Transactions()
        self._snapshot_offset = 0
        self._reserved: list[Lease] = []

    @property
    def is_empty(self) -> bool:
        """Return True if no producer is known."""
        return not self._producers

    @property
    def count(self) -> int:
        """How many producers are known."""
        return len(self._producers)

    @property
    def is_large(self) -> bool:
        """Return True if the producers take memory from the budget."""
        return bool(self._reserved)

    def reserve_memory(self, count: int = 1, *, may_take_long: bool = True) -> None:
        """Reserve memory for so many producers more. Each may be one that is known.

        Raises `MustWaitError` where that `may_take_long` and the thread may not.
        """
        while len(self._producers) + count > RESERVED_TOGETHER * (1 + len(self._reserved)):
            if may_take_long:
                MEMORY.check_lease()
            what = f"the {len(self._producers) + count} producers of the log"
            self._reserved.append(MEMORY.reserve(RESERVED_TOGETHER * PRODUCER_BYTES, what))

    def states(self) -> list[ProducerState]:
        """Return the state of each producer."""
        return list(self._producers.values())

    def live(self, now_ms: int) -> list[ProducerState]:
        """Return the state of each producer that has not expired, removed yet or not."""
        return [state for state in self.states() if not state.is_expired(now_ms, self._expiration_ms)]

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open, or whose end is not yet replicated."""
        return self._transactions.first_unstable_offset

    def last_stable_offset(self, log_start_offset: int, high_watermark: int) -> int:
        """Return the offset up to which consumers with read_committed may read."""
        unstable = self.first_unstable_offset
        return high_watermark if unstable is None else min(high_watermark, max(unstable, log_start_offset))

    def check(self, batches: Sequence[Batch], *, origin: AppendOrigin) -> list[CachedBatch | None]:
        """Check batches that are about to be appended together; their offsets need not be assigned yet.

        Raises a `RefusedAppendError` if one of them may not be appended. Returns for each batch of a client the batch
        in the log that it repeats, if any: the caller answers with the offsets of that one, and writes nothing.
        """
        self.reserve_memory(len(batches), may_take_long=False)
        ahead: dict[int, ProducerState] = {}
        repeated: list[CachedBatch | None] = []
        for batch in batches:
            producer_id = batch.producer_id
            known = self._producers.get(producer_id)
            before = known.cached(batch) if origin is AppendOrigin.CLIENT and known else None
            repeated.append(before)
            if producer_id <= NO_PRODUCER_ID or before is not None:
                continue
            state = ahead.get(producer_id) or known or ProducerState(producer_id)
            marker = marker_of(batch)
            state.check(batch, marker, origin)
            if len(batches) > 1:  # seldom: most appends are of one batch
                ahead[producer_id] = state.after(batch, marker)
        return repeated

    def apply(self, batch: Batch) -> CompletedTransaction | None:
        """Apply a batch of the log, at its offsets there, even if it contradicts the producer's state.

        Returns the transaction that it ends; the caller adds an aborted one to the transaction index. A marker of a
        producer without an open transaction ends nothing. Raises `CorruptBatchError`, having changed nothing, if it is
        a control batch that cannot be read.
        """
        completed = None
        producer_id = batch.producer_id
        if producer_id > NO_PRODUCER_ID:
            state = self._producers.get(producer_id) or ProducerState(producer_id)
            marker = marker_of(batch)
            after = state.after(batch, marker)
            if state.transaction_offset is None:
                if after.transaction_offset is not None:
                    self._transactions.begin(producer_id, after.transaction_offset)
            elif marker is not None:
                completed = self._transactions.complete(producer_id, batch.base_offset, is_aborted=not marker.committed)
            # Even a control batch that has lost its marker makes its producer known, as in a broker.
            self._producers[producer_id] = after
        self.end_offset = batch.last_offset + 1
        return completed

    def set_end_offset(self, end_offset: int) -> None:
        """Note that no producer wrote between the last applied batch and this offset."""
        self.end_offset = end_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Note that everything before the high watermark is replicated."""
        self._transactions.on_high_watermark(high_watermark)

    def expire(self, now_ms: int) -> None:
        """Remove the producers that have expired."""
        self._producers = {state.producer_id: state for state in self.live(now_ms)}
        self._give_back_memory()

    def _give_back_memory(self) -> None:
        del self._reserved[len(self._producers) // RESERVED_TOGETHER :]

    def take_snapshot(self, *, sync: bool = True) -> int | None:
        """Write a snapshot at the end offset unless there is one as new; returns its offset if one was written.

        Without `sync` the caller brings it to disk with `snapshots.sync`.
        """
        if self.end_offset <= self._snapshot_offset:
            return None
        self.snapshots.write(self.end_offset, self._producers.values(), sync=sync)
        self._snapshot_offset = self.end_offset
        return self.end_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Fit the producers to a log with these bounds; the caller then applies the batches after `end_offset`.

        Snapshots outside of the bounds, and one at the start itself, are removed, as a broker removes them. So a caller
        passes the checkpointed start: the snapshot at the base of the log's first segment has the producers of earlier
        segments, which retention has deleted since. If the producers do not end where the log ends, they are loaded
        from the newest snapshot left that is whole, without expired ones; if there is no snapshot, there are none.
        """
        kept = range(log_start_offset + 1, log_end_offset + 1)
        self.snapshots.remove_all([offset for offset in self.snapshots.offsets if offset not in kept])
        if log_end_offset == self.end_offset:
            self.advance_log_start(log_start_offset)
            return
        self._clear()
        self._snapshot_offset = self.end_offset = self._load_newest(now_ms, log_start_offset)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Note that the log begins at this offset now. Its producers stay known."""
        self._transactions.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        latest = self.snapshots.latest
        self._snapshot_offset = log_start_offset if latest is None else latest

    def reset_to(self, end_offset: int) -> None:
        """Remove everything, snapshots included: the log is empty and goes on at this offset."""
        self.snapshots.remove_all(self.snapshots.offsets)
        self._clear()
        self._snapshot_offset = 0
        self.end_offset = end_offset

    def _clear(self) -> None:
        self._producers.clear()
        self._transactions.clear()
        self._reserved.clear()

    def _load_newest(self, now_ms: int, log_start_offset: int) -> int:
        """Load the newest snapshot that can be read, and remove newer ones; returns its offset, or the log's start."""
        while (offset := self.snapshots.latest) is not None:
            try:
                self.reserve_memory(self.snapshots.count(offset))
                states = self.snapshots.read(offset)
            except (CorruptSnapshotError, FileNotFoundError) as error:
                logger.warning("an older producer snapshot is tried: %s", error)
                self.snapshots.remove(offset)
                continue
            for state in states:
                if not state.is_expired(now_ms, self._expiration_ms):
                    self._producers[state.producer_id] = state
                    if state.transaction_offset is not None:
                        self._transactions.begin(state.producer_id, state.transaction_offset)
            self._give_back_memory()
            return offset
        return log_start_offset
