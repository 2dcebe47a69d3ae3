"""One partition's log: appending to it, and reading what is in it.

One thread at a time appends, rolls or truncates; readers see the log through `view` and never wait. An append that is
refused leaves the log as it was. Any other exception poisons the log: readers go on, but nothing more is taken until
recovery has looked at the files. `docs/concurrency.md` says what readers see. Opening and recovery, and what is
to be deleted or compacted, are left to others.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from storage.log.appending import (
    Appended,
    check_fits,
    read_sent_batch,
    stored_by_follower,
    stored_by_leader,
    stored_together,
)
from storage.log.flushing import Durability
from storage.log.producers.state import AppendOrigin
from storage.log.segmented_log import SegmentedLog
from storage.record.layout import NO_LEADER_EPOCH
from storage.segment.rolling import Incoming, roll_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

    from storage.log.appending import StoredBatches
    from storage.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class Log(SegmentedLog):
    """The log in a directory that is ours alone, with the settings of its topic.

    `config` may be replaced at any time; what it says of new segments holds from the next one on. `in_background` is
    given the flush that follows a roll, and runs it whenever it likes; until then that segment stays open.
    `lower_checkpoints` is called before a truncation; when it returns, no checkpoint on disk says more of the log than
    this offset. `checkpoint_start` is called before the log's start moves; when it returns, the checkpoint says so.
    """

    def append_as_leader(
        self, data: Buffer, *, leader_epoch: int = NO_LEADER_EPOCH, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> Appended:
        """Append one batch, as a producer or a coordinator sends it, at the log's end.

        A producer's batch that the log has already is not written again. Raises a `StorageError` if nothing was
        appended: `InvalidRecordError` or `CorruptBatchError` for what is never taken, `RefusedAppendError` for what its
        producer may not write now, `DiskFullError`, `PoisonedLogError`.
        """
        with self._writing:
            self._check_writable()
            now_ms = self._clock.now_ms()
            batch = read_sent_batch(data, self.config, origin)
            if batch.producer_id >= 0:
                repeated = self.producers.check(batch, origin=origin)
                if repeated is not None:
                    return Appended(repeated.first_offset, repeated.last_offset, is_duplicate=True)
            end_offset = self.view.end_offset
            stored = stored_by_leader(
                batch, self.config, next_offset=end_offset, leader_epoch=leader_epoch, now_ms=now_ms
            )
            return self._append(stored, now_ms)

    def append_all_as_leader(
        self,
        sent: Sequence[Buffer],
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> list[Appended]:
        """Append batches together: all of them or none, as far as readers and errors tell; raises as for one.

        A crash may leave the first ones of them without the others.
        """
        with self._writing:
            self._check_writable()
            now_ms = self._clock.now_ms()
            batches = [read_sent_batch(data, self.config, origin) for data in sent]
            known = self.producers.check_all(batches, origin=origin)
            answers, fresh = stored_together(
                batches, known, self.config, next_offset=self.view.end_offset, leader_epoch=leader_epoch, now_ms=now_ms
            )
            self._append_together(fresh, now_ms)
            return answers

    def append_all_as_follower(self, placed: Iterable[Buffer]) -> None:
        """Append batches that have their places already: all of them or none, as far as readers and errors tell.

        They are taken one after the other, so that they need not be in memory together. Raises as
        `append_as_follower` does, and what taking them raises. A crash may leave the first ones without the others.
        """
        with self._writing:
            self._check_writable()
            self._append_together(self._followed(placed), self._clock.now_ms())

    def _followed(self, placed: Iterable[Buffer]) -> Iterator[StoredBatches]:
        next_offset = self.view.end_offset
        for data in placed:
            stored = stored_by_follower(data, next_offset=next_offset)
            if stored is not None:
                self._check_followed(stored)
                next_offset = stored.last_offset + 1
                yield stored

    def _append_together(self, batches: Iterable[StoredBatches], now_ms: int) -> None:
        """Append all, and show them to readers only then; after an error that leaves the log sound, none is there."""
        view = self.view
        refused: BaseException | None = None
        with self._poison.changing:
            try:
                self._is_holding_back = True
                for stored in batches:
                    self._append(stored, now_ms)
            except BaseException as error:
                if self._poison.error is not None:
                    raise
                refused = error
            finally:
                self._is_holding_back = False
            if refused is None:
                self._publish(view.start_offset, self.producers.end_offset)
            elif self.producers.end_offset > view.end_offset:
                self._cut_back(view.end_offset)
        # Nothing of the append is left, or else the log would be poisoned.
        if refused is not None:
            raise refused

    def append_as_follower(self, data: Buffer) -> Appended | None:
        """Append the whole batches that another leader has given their places, or none of them; None if there is none.

        Raises as `append_as_leader` does, and `UnexpectedOffsetError` where they do not follow on the log's end.
        """
        with self._writing:
            self._check_writable()
            now_ms = self._clock.now_ms()
            stored = stored_by_follower(data, next_offset=self.view.end_offset)
            if stored is None:
                return None
            self._check_followed(stored)
            return self._append(stored, now_ms)

    def _check_followed(self, stored: StoredBatches) -> None:
        self.producers.check(*stored.batches, origin=AppendOrigin.REPLICATION)

    def _append(self, stored: StoredBatches, now_ms: int) -> Appended:
        check_fits(stored, self.config)
        with self._poison.changing:
            with self._poison.refusing:
                self.epochs.assign_from(stored.batches)
                active = self._segment_for(stored, now_ms)
                active.append(stored.buffers, self._accounting(stored.batches))
            self._take_notice(stored, active)
        return Appended(stored.first_offset, stored.last_offset)

    def _segment_for(self, stored: StoredBatches, now_ms: int) -> WritableSegment:
        """The segment that the batches go into: the active one, or a new one."""
        active = self._segments.active
        active.prepare()
        incoming = Incoming(stored.size_bytes, stored.last_offset, stored.largest_timestamp)
        reason = roll_reason(active, incoming, self.config, now_ms)
        if reason is None:
            return active
        base_offset = stored.segment_base(self.view.end_offset)
        if active.size_bytes == 0 and active.base_offset == base_offset:
            return active  # a new one would be the same
        logger.debug("%s begins a segment at %d: %s", self.directory, base_offset, reason.value)
        self._roll(base_offset, now_ms)
        self._poison.check()  # the flush behind the roll may have failed already
        return self._segments.active

    def _take_notice(self, stored: StoredBatches, active: WritableSegment) -> None:
        """Learn from what was written, keep the promises about it, and show it to readers."""
        end_offset = stored.last_offset + 1
        for batch in stored.batches:
            if batch.producer_id >= 0:
                ended = self.producers.apply(batch)
                if ended is not None and (aborted := ended.index_entry()) is not None:
                    active.add_aborted(aborted)
        self.producers.set_end_offset(end_offset)
        self.producers.on_high_watermark(end_offset)
        if self._durability is Durability.SYNCED:
            active.sync_log()
        self._publish(self.view.start_offset, end_offset)
        if end_offset - self._flushing.recovery_point >= self.config.flush_messages:
            self._flush()
