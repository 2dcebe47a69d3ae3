"""A partition's producers: who writes, what is a duplicate, which transactions are open, what was aborted.

`ProducerStates` promises what a broker does with idempotent and transactional batches. Checking and applying are
apart: `check` changes nothing, `apply` takes every batch that can be read, and a batch is written between the two.
Reading the log where no snapshot helps, and writing the transaction index, are left to the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from storage.errors import CorruptSnapshotError
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.producers.state import AppendOrigin, CachedBatch, ProducerState, marker_of
from storage.log.producers.transactions import CompletedTransaction, Transactions
from storage.record.layout import NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory
    from storage.record.reading import Batch

logger = logging.getLogger(__name__)


class ProducerStates:
    """The producers of a partition's log up to `end_offset`.

    One thread changes them. Meanwhile others may call `states` and `live` and read `first_unstable_offset`,
    `last_stable_offset` and `end_offset`, which are as of some moment between the changes.
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

    def states(self) -> list[ProducerState]:
        """The state of each producer."""
        return list(self._producers.values())

    def live(self, now_ms: int) -> list[ProducerState]:
        """The same without those that have been silent for too long, whether they are forgotten yet or not."""
        return [state for state in self.states() if not state.is_expired(now_ms, self._expiration_ms)]

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open, or whose end is not yet replicated."""
        return self._transactions.first_unstable_offset

    def last_stable_offset(self, log_start_offset: int, high_watermark: int) -> int:
        """The offset up to which consumers with read_committed may read."""
        unstable = self.first_unstable_offset
        return high_watermark if unstable is None else min(high_watermark, max(unstable, log_start_offset))

    def check(self, batches: Sequence[Batch], *, origin: AppendOrigin) -> list[CachedBatch | None]:
        """Try batches that are about to be appended together, whose offsets need not be assigned yet.

        Raises a `RefusedAppendError` if one of them may not be appended. Returns for each the batch in the log that a
        client's batch repeats: then it is not to be written, and the answer is that batch's offsets.
        """
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
        """Take in a batch that is in the log, at the offsets that it has there, and whatever it contradicts.

        Returns the transaction that it ends; an aborted one belongs into the transaction index. A marker of a
        producer that has none open ends nothing. Raises `CorruptBatchError`, having changed nothing, if it is a
        control batch that cannot be read.
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
            # Even a control batch that has lost its marker makes its producer known, as it does to a broker.
            self._producers[producer_id] = after
        self.end_offset = batch.last_offset + 1
        return completed

    def set_end_offset(self, end_offset: int) -> None:
        """Say that no producer wrote anything more before this offset."""
        self.end_offset = end_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Everything before the high watermark is replicated."""
        self._transactions.on_high_watermark(high_watermark)

    def expire(self, now_ms: int) -> None:
        """Forget the producers that have been silent for too long."""
        self._producers = {state.producer_id: state for state in self.live(now_ms)}

    def take_snapshot(self, *, sync: bool = True) -> int | None:
        """Write a snapshot at the end offset unless there is one as new; returns its offset if one was written.

        Without `sync` it is for the caller to have `snapshots` bring it to disk.
        """
        if self.end_offset <= self._snapshot_offset:
            return None
        self.snapshots.write(self.end_offset, self._producers.values(), sync=sync)
        self._snapshot_offset = self.end_offset
        return self.end_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Fit the producers to a log with these bounds; what lies after `end_offset` is to be applied again.

        Snapshots outside of the bounds, and one at the start itself, are removed, as a broker removes them. So a caller
        passes the checkpointed start: the snapshot at the base of the log's first segment says what earlier segments
        had, which retention has deleted since. If the log ends elsewhere than the producers do, they are loaded
        from the newest snapshot left that is whole, less those that have expired; without any, there are none.
        """
        for offset in self.snapshots.offsets:
            if not log_start_offset < offset <= log_end_offset:
                self.snapshots.remove(offset)
        if log_end_offset == self.end_offset:
            self.advance_log_start(log_start_offset)
            return
        self._producers.clear()
        self._transactions.clear()
        self._snapshot_offset = self.end_offset = self._load_newest(now_ms, log_start_offset)

    def advance_log_start(self, log_start_offset: int) -> None:
        """The log begins at this offset now. What its producers did before is still known."""
        self._transactions.on_high_watermark(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        latest = self.snapshots.latest
        self._snapshot_offset = log_start_offset if latest is None else latest

    def reset_to(self, end_offset: int) -> None:
        """Forget everything, snapshots included: the log is empty and goes on at this offset."""
        for offset in self.snapshots.offsets:
            self.snapshots.remove(offset)
        self._producers.clear()
        self._transactions.clear()
        self._snapshot_offset = 0
        self.end_offset = end_offset

    def _load_newest(self, now_ms: int, log_start_offset: int) -> int:
        """Load the newest snapshot that can be read, remove those that cannot; returns up to where that is."""
        while (offset := self.snapshots.latest) is not None:
            try:
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
            return offset
        return log_start_offset
