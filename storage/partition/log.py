"""One partition's log: appending to it, and reading what is in it.

One thread at a time appends, rolls or truncates; readers see the log through `view` and never wait. An append that is
refused leaves the log as it was. A write or a flush that fails poisons it: readers go on, but nothing more is taken
until recovery has looked at the files. `docs/concurrency.md` says what readers see. Opening, recovery, retention and
compaction are left to others.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from storage.errors import OffsetOutOfRangeError, PoisonedLogError, StorageError
from storage.partition.appending import (
    Appended,
    check_fits,
    read_sent_batch,
    stored_by_follower,
    stored_by_leader,
    stored_together,
)
from storage.partition.flushing import Durability
from storage.partition.log_segments import LogSegments
from storage.partition.poison import Poison
from storage.partition.producer_replay import replay
from storage.partition.producer_state import AppendOrigin
from storage.partition.readable_log import ReadableLog
from storage.partition.recent_segments import RecentSegments
from storage.partition.view import Decided, LogView
from storage.record.batch import RecordBatch
from storage.record.layout import NO_LEADER_EPOCH
from storage.segment.accounting import per_batch
from storage.segment.rolling import Incoming, roll_reason

if TYPE_CHECKING:
    import os
    import random
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from typing_extensions import Buffer

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.partition.appending import StoredBatches
    from storage.partition.log_parts import LogParts
    from storage.segment.accounting import Accounting
    from storage.segment.segment import Segment
    from storage.segment.writable_segment import WritableSegment

    Task: TypeAlias = Callable[[], None]

logger = logging.getLogger(__name__)


class Log(ReadableLog):
    """The log in a directory that is ours alone, with the settings of its topic.

    `config` may be replaced at any time; what it says of new segments holds from the next one on. `in_background` is
    given the flush that follows a roll, and runs it whenever it likes; until then that segment stays open.
    `lower_checkpoints` is called before a truncation; when it returns, no checkpoint on disk says more of the log than
    this offset.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directory: str | os.PathLike[str],
        config: TopicConfig,
        parts: LogParts,
        *,
        draw: random.Random,
        durability: Durability = Durability.BUFFERED,
        in_background: Callable[[Task], None] = lambda task: task(),
        accounting: Accounting = per_batch,
        lower_checkpoints: Callable[[int], None] = lambda offset: None,  # noqa: ARG005
    ) -> None:
        self.directory = directory
        self.config = config
        self.producers = parts.producers
        self.epochs = parts.epochs
        self._clock = clock
        self._durability = durability
        self._in_background = in_background
        self._accounting = accounting
        self._lower_checkpoints = lower_checkpoints
        self._segments = LogSegments(
            files,
            directory,
            parts.closed,
            parts.active,
            recovery_point=parts.recovery_point,
            draw=draw,
            now_ms=clock.now_ms(),
        )
        self._flushing = self._segments.flushing
        self._recent = RecentSegments()
        self._writing = Lock()  # held by whoever changes the log
        self._poison = Poison(directory)
        self._is_closed = False
        self._truncations = 0
        self._is_holding_back = False  # from readers what is appended together, until all of it is there
        self._publish(parts.start_offset, parts.end_offset)

    @property
    def view(self) -> LogView:
        """The log as it is now."""
        return self._view

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""
        return self._flushing.recovery_point

    @property
    def is_poisoned(self) -> bool:
        """Whether writing failed, so that what is on disk is unknown and nothing more is taken."""
        return self._poison.error is not None

    # Appending

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

    def _append_together(self, batches: Sequence[StoredBatches], now_ms: int) -> None:
        """Append all, and show them to readers only then; after an error that leaves the log sound, none is there."""
        view, end_offset = self.view, self.view.end_offset
        self._is_holding_back = True
        try:
            for stored in batches:
                self._append(stored, now_ms)
                end_offset = stored.last_offset + 1
        except StorageError:
            self._is_holding_back = False
            if end_offset > view.end_offset and self._poison.error is None:
                with self._poison.poisoning:
                    self._cut_back(view.end_offset)
            raise
        finally:
            self._is_holding_back = False
        self._publish(view.start_offset, end_offset)

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
            batches = [batch for batch in stored.batches if isinstance(batch, RecordBatch)]
            self.producers.check(*batches, origin=AppendOrigin.REPLICATION)
            return self._append(stored, now_ms)

    def _append(self, stored: StoredBatches, now_ms: int) -> Appended:
        check_fits(stored, self.config)
        with self._poison.refusing:
            self.epochs.follow(stored.batches)
            active = self._segment_for(stored, now_ms)
            active.append(stored.buffers, self._accounting(stored.batches))
        with self._poison.poisoning:
            self._take_notice(stored, active)
        return Appended(stored.first_offset, stored.last_offset)

    def _segment_for(self, stored: StoredBatches, now_ms: int) -> WritableSegment:
        """The segment that the batches go into: the active one, or a new one."""
        active = self._segments.active
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
            if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
                ended = self.producers.apply(batch)
                if ended is not None and (aborted := ended.index_entry()) is not None:
                    active.add_aborted(aborted)
        self.producers.advance(end_offset)
        self.producers.acknowledge(end_offset)
        if self._durability is Durability.SYNCED:
            active.sync_log()
        self._publish(self.view.start_offset, end_offset)
        if end_offset - self._flushing.recovery_point >= self.config.flush_messages:
            self._flush()

    # Segments

    def roll(self) -> None:
        """Begin a new segment at the log's end, unless the active one is empty."""
        with self._writing:
            self._check_writable()
            if self._segments.active.size_bytes:
                with self._poison.refusing:
                    self._roll(self.view.end_offset, self._clock.now_ms())

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """An `OSError` says that the log is as it was, but for a producer snapshot at its end."""
        following = self._segments.create(base_offset, self.config, now_ms)
        try:
            self.producers.advance(base_offset)
            self.producers.take_snapshot(sync=False)
        except OSError:
            following.close()
            following.remove_files()
            raise
        try:
            with self._poison.poisoning:
                self._segments.roll(following)
        except PoisonedLogError:
            with suppress(OSError):
                following.close()
            raise
        self._publish(self.view.start_offset, base_offset)
        self._in_background(self._flush_rolled)

    def _flush_rolled(self) -> None:
        """What follows a roll, on whatever thread."""
        if self._poison.error is not None:
            return
        # Whoever runs this cannot answer for the log; the next append says that it is poisoned.
        with suppress(StorageError), self._poison.poisoning:
            self.producers.snapshots.sync()
            self._flushing.flush_rolled(self._clock.now_ms())

    def flush(self) -> None:
        """Return when everything that was appended before is on disk; any thread may ask for it."""
        self._check_writable()
        with self._poison.poisoning:
            self._flush()

    def _flush(self) -> None:
        # Nobody looks at what lies below the recovery point: snapshots there have to be on disk before it moves.
        self.producers.snapshots.sync()
        self._flushing.flush(lambda: self.view.end_offset, self._clock.now_ms())

    def flush_if_due(self) -> bool:
        """Flush if the topic's `flush.ms` have passed since the last time and there is something to flush."""
        is_due = (
            self._flushing.recovery_point < self.view.end_offset
            and self._clock.now_ms() - self._flushing.flushed_ms >= self.config.flush_ms
        )
        if is_due:
            self.flush()
        return is_due

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that has the offset, and everything behind it; the log goes on behind what is left.

        That is durable when this returns. A log that ends there or before only forgets its later epochs.
        """
        with self._writing:
            self._check_writable()
            with self._poison.poisoning:
                if offset >= self.view.end_offset:
                    self.epochs.truncate_from_end(offset)
                else:
                    self._cut_back(offset)

    def _cut_back(self, offset: int) -> None:
        now_ms = self._clock.now_ms()
        segments = self._segments
        # Readers leave what is dropped before it is touched, and do not come back to it if this fails.
        kept, end_position = segments.before(offset)
        if kept:
            offset = kept[-1].end_below(offset)  # as whoever opens the log later finds it
        start_offset = min(self.view.start_offset, offset)
        self._truncations += 1
        self._show(kept, start_offset, offset, end_position)
        self._flushing.flush_rolled(now_ms)
        self._flushing.lower(offset)
        self._lower_checkpoints(offset)
        if offset < segments.all[0].base_offset:
            segments.restart(offset, self.config, now_ms)
            self.epochs.clear()
            self.producers.restart(offset)
        else:
            segments.truncate_to(offset, self.config, now_ms)
            self.epochs.truncate_from_end(offset)
            self.producers.truncate_and_reload(start_offset, offset, now_ms)
            replay(self.producers, segments.all, offset)
            self.producers.acknowledge(offset)
            self.producers.take_snapshot()
        self._publish(start_offset, offset)

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset, as deleting records does; files are left for retention to remove."""
        with self._writing:
            self._check_writable()
            view = self.view
            if offset > view.end_offset:
                raise OffsetOutOfRangeError(f"the log ends at {view.end_offset}", path=self.directory, offset=offset)
            if offset <= view.start_offset:
                return
            # Epochs from before the start stay known: after a crash the start may be where it was.
            self.producers.move_start(offset)
            self._publish(offset, view.end_offset)

    def expire_producers(self) -> None:
        """Forget the producers that have been silent for too long."""
        with self._writing:
            self.producers.expire(self._clock.now_ms())

    def close(self) -> None:
        """Bring everything to disk in the form that a closed log has, and let go of the files.

        A poisoned log only lets go. Closing twice is harmless; reading goes on for those who have a view.
        """
        with self._writing:
            if self._is_closed:
                return
            try:
                if self._poison.error is None:
                    with self._poison.poisoning:
                        self.producers.take_snapshot()
                        self._segments.active.finalise()
                        self._flush()
            finally:
                self._is_closed = True
                with self._poison.poisoning:
                    self._flushing.close()

    def _publish(self, start_offset: int, end_offset: int) -> None:
        segments = self._segments
        if not self._is_holding_back:
            self._show(segments.all, start_offset, end_offset, segments.active.size_bytes)

    def _show(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, end_position: int) -> None:
        """Give readers another view."""
        decided = Decided(self.producers.last_stable_offset(start_offset, end_offset))
        bounds = start_offset, end_offset, end_position
        self._view = LogView(segments, *bounds, lambda: decided, self._recent, truncations=self._truncations)

    def _check_writable(self) -> None:
        self._poison.check()
        if self._is_closed:
            raise StorageError("the log is closed", path=self.directory)
