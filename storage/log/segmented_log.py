"""The writer's log without its appends: its segments, and which of them are on disk, rolled, cut, deleted, replaced.

Everything that changes the log excludes everything else that does, but for flushing; readers see it through `view` and
never wait. What fails half-way poisons it. Which segments may go is for others to decide.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from storage.errors import DiskFullError, OffsetOutOfRangeError, PoisonedLogError, StorageError
from storage.log.flushing import Durability
from storage.log.index_cache import IndexCache
from storage.log.log_segments import LogSegments
from storage.log.poison import Poison
from storage.log.producers.replay import replay
from storage.log.readable_log import ReadableLog
from storage.log.view import LogView, StableState
from storage.segment.accounting import per_batch
from storage.segment.writable_segment import undoing

if TYPE_CHECKING:
    import os
    import random
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.log.awake_logs import AwakeLogs
    from storage.log.log_parts import LogParts
    from storage.segment.accounting import Accounting
    from storage.segment.segment import Segment

    Task: TypeAlias = Callable[[], None]


class SegmentedLog(ReadableLog):
    """The segments of a `Log`, which says how it is made."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directory: str | os.PathLike[str],
        config: TopicConfig,
        parts: LogParts,
        *,
        rng: random.Random,
        durability: Durability = Durability.BUFFERED,
        in_background: Callable[[Task], None] = lambda task: task(),
        accounting: Accounting = per_batch,
        lower_checkpoints: Callable[[int], None] = lambda offset: None,  # noqa: ARG005
        checkpoint_start: Callable[[int], None] = lambda offset: None,  # noqa: ARG005
        awake: AwakeLogs | None = None,
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
        self._checkpoint_start = checkpoint_start
        self._segments = LogSegments(
            files,
            directory,
            parts.closed,
            parts.active,
            recovery_point=parts.recovery_point,
            rng=rng,
            now_ms=clock.now_ms(),
        )
        self._flushing = self._segments.flushing
        self._recent = IndexCache(holds_logs=True)
        self._writing = Lock()  # held by whoever changes the log
        self._poison = Poison(directory)
        self._is_closed = False
        self._cuts: tuple[int, ...] = ()
        self._is_holding_back = False  # from readers what is appended together, until all of it is there
        self._publish(parts.start_offset, parts.end_offset)
        self._awake = awake
        self.was_changed = True
        if awake is not None:
            awake.add(self)

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

    def roll(self) -> None:
        """Begin a new segment at the log's end, unless the active one is empty."""
        with self._writing:
            self._check_writable()
            if self._segments.active.size_bytes:
                with self._poison.changing, self._poison.refusing:
                    self._roll(self.view.end_offset, self._clock.now_ms())

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """A full disk leaves the log as it was, but for a producer snapshot at its end."""
        following = self._segments.create(base_offset, self.config, now_ms)
        try:
            self.producers.set_end_offset(base_offset)
            self.producers.take_snapshot(sync=False)
        except OSError:
            with undoing(self.directory):
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
        # The thread that runs this cannot answer for the log; the next append says that it is poisoned.
        with suppress(StorageError), self._poison.poisoning:
            self.producers.snapshots.sync()
            self._flushing.flush_rolled(self._clock.now_ms())

    def flush(self) -> None:
        """Return when everything that was appended before is on disk; any thread may ask for it."""
        self._check_open()
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
            with self._poison.changing:
                if offset < self.view.end_offset:
                    self._cut_back(offset)
                else:
                    with self._poison.refusing:
                        self.epochs.truncate_from_end(offset)

    def _cut_back(self, offset: int) -> None:
        now_ms = self._clock.now_ms()
        segments = self._segments
        # Readers leave what is dropped before it is touched, and do not come back to it if this fails.
        kept, end_position = segments.before(offset)
        if kept:
            offset = kept[-1].end_below(offset)  # as whoever opens the log later finds it
        start_offset = min(self.view.start_offset, offset)
        self._cuts = (*self._cuts, offset)
        self._show(kept, start_offset, offset, end_position)
        self._flushing.flush_rolled(now_ms)
        self._flushing.lower(offset)
        self._lower_checkpoints(offset)
        if offset < segments.all[0].base_offset:
            segments.reset_to(offset, self.config, now_ms)
            self.epochs.clear()
            self.producers.reset_to(offset)
        else:
            segments.truncate_to(offset, self.config, now_ms)
            self.epochs.truncate_from_end(offset)
            # The snapshot at the first segment's base is all that is left of producers before it.
            is_at_base = start_offset == segments.all[0].base_offset
            self.producers.truncate_and_reload(start_offset - is_at_base, offset, now_ms)
            replay(self.producers, segments.all, offset)
            self.producers.on_high_watermark(offset)
            self.producers.take_snapshot()
        self._publish(start_offset, offset)

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset, as deleting records does; files are left for retention to remove.

        The checkpoint says so, durably, before readers see it. Raises `DiskFullError` if it cannot, and nothing has
        changed then.
        """
        with self._writing:
            self._check_writable()
            view = self.view
            if offset > view.end_offset:
                raise OffsetOutOfRangeError(f"the log ends at {view.end_offset}", path=self.directory, offset=offset)
            if offset <= view.start_offset:
                return
            with self._poison.changing:
                with self._poison.refusing:
                    self._checkpoint_start(offset)
                # Epochs from before the start stay known: a log without its checkpoint begins with its first segment.
                self.producers.advance_log_start(offset)
                self._publish(offset, view.end_offset)

    def remove_before(self, base_offset: int) -> list[Path]:
        """Delete the segments before the one that begins at the offset; the log starts there then, unless later.

        First readers leave them, then their files and their producer snapshots are renamed, the oldest first. Gives the
        new paths, which are the caller's to remove; those who have an older view read on until then. Raises
        `LogChangedError`, having done nothing, if no segment begins at the offset.
        """
        with self._writing:
            self._check_writable()
            view = self.view
            count = self._segments.count_before(base_offset)
            start_offset = max(view.start_offset, base_offset)
            with self._poison.changing:
                doomed = self._segments.detach_before(count)
                self.producers.advance_log_start(start_offset)
                self._publish(start_offset, view.end_offset)
                deleted = self._segments.delete(doomed)
                deleted += self._delete_snapshots(segment.base_offset for segment in doomed)
                # What a full disk prevents is made up for when the log is opened the next time.
                with suppress(DiskFullError), self._poison.refusing:
                    self.epochs.truncate_from_start(base_offset)
            return deleted

    def replace(self, old: Sequence[Segment], new_bases: Sequence[int]) -> list[Path]:
        """Put new segments in the place of closed ones, without changing what the log's offsets and bounds are.

        The new ones stand as `.cleaned` in the directory, complete and on disk, and begin at these offsets; the first
        of them is the first of the old ones', unless there are none. Readers see either the old or the new ones, and
        those who have an older view go on with the old ones. It is durable when this returns, and all or nothing is
        left by a crash, but that without new ones the first of the old ones may be gone and others not.

        Gives the old files' new paths, which are the caller's to remove. Raises `LogChangedError`, having done nothing,
        if the old ones are not closed segments of the log, as its newest view shows them, in a row.
        """
        with self._writing:
            self._check_writable()
            view = self.view
            self._segments.check_closed(old)
            with self._poison.changing:
                deleted = self._segments.replace(old, new_bases)
                # Whoever opens it finds that a log without its first segments starts with what is left.
                start_offset = max(view.start_offset, self._segments.all[0].base_offset)
                self._publish(start_offset, view.end_offset)
                return deleted + self._delete_snapshots(
                    segment.base_offset for segment in old if segment.base_offset not in new_bases
                )

    def _delete_snapshots(self, base_offsets: Iterable[int]) -> list[Path]:
        renamed = map(self.producers.snapshots.mark_deleted, base_offsets)
        return [path for path in renamed if path is not None]

    def expire_producers(self) -> None:
        """Forget the producers that have been silent for too long."""
        with self._writing, self._poison.changing:
            self.producers.expire(self._clock.now_ms())

    def rest(self) -> bool:
        """Bring everything to disk and hold no descriptors until the log is changed again; False if it just is.

        Its files have the form, and take the space, of those of a closed log. Readers go on. A poisoned log keeps what
        it has, and so does one whose flush fails, which poisons it.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            self._poison.settle()
            if self._is_closed or self._poison.error is not None or self._segments.active.is_resting:
                return False
            with self._poison.poisoning:
                self._segments.active.finalise()
                self._flush()
                self._recent.release_logs()
                return self._flushing.rest()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Bring everything to disk in the form that a closed log has, and let go of the files.

        A poisoned log only lets go. Closing twice is harmless; reading goes on for those who have a view.
        """
        with self._writing:
            if self._is_closed:
                return
            self._poison.settle()
            try:
                if self._poison.error is None:
                    self._segments.active.wake()
                    with self._poison.changing:
                        self.producers.take_snapshot()
                        self._segments.active.finalise()
                        self._flush()
            finally:
                self._is_closed = True
                self._recent.release_logs()
                if self._awake is not None:
                    self._awake.discard(self)
                with self._poison.poisoning:
                    self._flushing.close()

    def _publish(self, start_offset: int, end_offset: int) -> None:
        segments = self._segments
        if not self._is_holding_back:
            self._show(segments.all, start_offset, end_offset, segments.active.size_bytes)

    def _show(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, end_position: int) -> None:
        """Give readers another view."""
        decided = StableState(self.producers.last_stable_offset(start_offset, end_offset))
        bounds = start_offset, end_offset, end_position
        self._view = LogView(segments, *bounds, lambda: decided, self._recent, cuts=self._cuts)

    def _check_writable(self) -> None:
        """Raise unless the log takes changes, and have its files open; for the thread that is about to change it."""
        self._poison.settle()
        self._check_open()
        self.was_changed = True
        if self._segments.active.is_resting:
            self._segments.active.wake()
            if self._awake is not None:
                self._awake.add(self)

    def _check_open(self) -> None:
        self._poison.check()
        if self._is_closed:
            raise StorageError("the log is closed", path=self.directory)
