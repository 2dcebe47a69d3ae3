"""Changing a log: its segments, its producers, its leader epochs, and the view that readers get.

`Log` lets one change run at a time, and decides which are allowed. A change that fails half-way poisons the log,
unless a full disk refused it and nothing is left of it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from storage.errors import DiskFullError, PoisonedLogError, StorageError
from storage.log.flushing import Durability
from storage.log.index_cache import IndexCache
from storage.log.log_segments import LogSegments
from storage.log.poison import Poison
from storage.log.producers.replay import replay
from storage.log.view import LogView, StableState
from storage.segment.rolling import roll_reason
from storage.segment.writable_segment import undoing

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.opening import LogParts
    from storage.segment.segment import Segment
    from storage.segment.writable_segment import PlacedBatches, WritableSegment

logger = logging.getLogger(__name__)


class LogWriter:
    """The parts of one log, changed together. One thread at a time calls what changes them; any thread may flush.

    `view` is what readers see; each change replaces it in one step. `config` may be replaced at any time.
    """

    def __init__(
        self,
        clock: Clock,
        directory: Directory,
        config: TopicConfig,
        parts: LogParts,
        *,
        rng: random.Random,
        durability: Durability,
        in_background: Callable[[Callable[[], None]], None],
        lower_checkpoints: Callable[[int], None],
    ) -> None:
        self.config = config
        self.producers = parts.producers
        self.epochs = parts.epochs
        self.poison = Poison(directory)
        self.segments = LogSegments(
            directory,
            parts.closed,
            parts.active,
            recovery_point=parts.recovery_point,
            rng=rng,
            now_ms=clock.now_ms(),
        )
        self.flushing = self.segments.flushing
        self._clock = clock
        self._directory = directory
        self._durability = durability
        self._in_background = in_background
        self._lower_checkpoints = lower_checkpoints
        self._indexes = IndexCache(holds_logs=True)
        self._cuts: tuple[int, ...] = ()
        self._publish(parts.start_offset, parts.end_offset)

    # Appending

    def append(self, appended: Iterable[PlacedBatches], now_ms: int) -> None:
        """Append all batches, then show them to readers. After an error none is there, unless the log is poisoned.

        The runs of batches are read one by one, so they need not be in memory together.
        """
        end_offset = self.view.end_offset
        refused: BaseException | None = None
        with self.poison.changing:
            try:
                for placed in appended:
                    self._write(placed, now_ms)
            except BaseException as error:
                if self.poison.error is not None:
                    raise
                refused = error
            if refused is None:
                self._publish(self.view.start_offset, self.producers.end_offset)
                if self.view.end_offset - self.flushing.recovery_point >= self.config.flush_messages:
                    self.flush()
            elif self.producers.end_offset > end_offset:
                self.cut_back(end_offset)
            else:
                self._publish(self.view.start_offset, end_offset)  # there may have been a roll
        # Nothing of the append is left; otherwise the log would be poisoned.
        if refused is not None:
            raise refused

    def _write(self, placed: PlacedBatches, now_ms: int) -> None:
        """Write batches, and apply them to epochs and producers. Readers do not see them yet."""
        with self.poison.changing:
            with self.poison.refusing:
                self.epochs.assign_from(placed.batches)
                active = self._segment_for(placed, now_ms)
                active.append(placed)
            end_offset = placed.last_offset + 1
            for batch in placed.batches:
                if batch.producer_id >= 0:
                    ended = self.producers.apply(batch)
                    if ended is not None and (aborted := ended.index_entry()) is not None:
                        active.add_aborted(aborted)
            self.producers.set_end_offset(end_offset)
            self.producers.on_high_watermark(end_offset)
            if self._durability is Durability.SYNCED:
                active.sync_log()

    def _segment_for(self, placed: PlacedBatches, now_ms: int) -> WritableSegment:
        """Return the segment to append the batches to: the active one, or a new one."""
        active = self.segments.active
        active.prepare()
        reason = roll_reason(active, placed, self.config, now_ms)
        if reason is None:
            return active
        base_offset = placed.segment_base(self.producers.end_offset)
        if active.size_bytes == 0 and active.base_offset == base_offset:
            return active  # a new one would be the same
        logger.debug("%s begins a segment at %d: %s", self._directory, base_offset, reason.value)
        self._roll(base_offset, now_ms)
        self.poison.check()  # the flush after the roll may have failed already
        return self.segments.active

    def roll(self) -> None:
        """Begin a new segment at the log's end."""
        end_offset = self.view.end_offset
        with self.poison.changing, self.poison.refusing:
            self._roll(end_offset, self._clock.now_ms())
            self._publish(self.view.start_offset, end_offset)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begin a new segment. A full disk leaves the log as it was, except for a producer snapshot at its end.

        Raises `TooManySegmentsError`, before any change, if the partition has as many as are taken in.
        """
        self.segments.check_room(1)
        following = self.segments.create(base_offset, self.config, now_ms)
        try:
            self.producers.set_end_offset(base_offset)
            self.producers.take_snapshot(sync=False)
        except OSError:
            with undoing(self._directory):
                following.close()
                following.remove_files()
            raise
        try:
            with self.poison.poisoning:
                self.segments.roll(following)
        except PoisonedLogError:
            with suppress(OSError):
                following.close()
            raise
        self._in_background(self._flush_rolled)

    # Flushing

    def _flush_rolled(self) -> None:
        """Bring rolled segments to disk, on any thread."""
        if self.poison.error is not None:
            return
        # No caller waits for this thread: the next append raises that the log is poisoned.
        with suppress(StorageError), self.poison.poisoning:
            self.producers.snapshots.sync()
            self.flushing.flush_rolled(self._clock.now_ms())

    def flush(self) -> None:
        """Bring everything to disk; any thread may call this."""
        # Recovery reads nothing below the recovery point: snapshots there have to be on disk before it moves.
        with self.poison.poisoning:
            self.producers.snapshots.sync()
            self.flushing.flush(lambda: self.view.end_offset, self._clock.now_ms())

    def rest(self) -> bool:
        """Bring everything to disk in the form of a closed log, and close descriptors; False if it cannot rest now."""
        with self.poison.poisoning:
            self.segments.active.finalise()
            self.flush()
            self._indexes.release_logs()
            return self.flushing.rest()

    def finish(self) -> None:
        """Bring everything to disk in the form of a closed log, with a snapshot of its producers."""
        self.segments.active.wake()
        with self.poison.changing:
            self.producers.take_snapshot()
            self.segments.active.finalise()
            self.flush()

    def close(self) -> None:
        """Close the files without bringing anything to disk."""
        self._indexes.release_logs()
        with self.poison.poisoning:
            self.flushing.close()

    # Cutting and deleting

    def cut_back(self, offset: int) -> None:
        """Drop the batch that holds the offset, and everything after it."""
        now_ms = self._clock.now_ms()
        segments = self.segments
        # Views lose the dropped batches before their files change, and do not get them back if this fails.
        kept, end_position = segments.before(offset)
        if kept:
            offset = kept[-1].end_below(offset)  # where a later opening finds the log's end
        start_offset = min(self.view.start_offset, offset)
        self._cuts = (*self._cuts, offset)
        self._show(kept, start_offset, offset, end_position)
        self.flushing.flush_rolled(now_ms)
        self.flushing.lower(offset)
        self._lower_checkpoints(offset)
        if offset < segments.all[0].base_offset:
            segments.reset_to(offset, self.config, now_ms)
            self.epochs.clear()
            self.producers.reset_to(offset)
        else:
            segments.truncate_to(offset, self.config, now_ms)
            self.epochs.truncate_from_end(offset)
            # Only the snapshot at the first segment's base still has the producers of earlier segments.
            is_at_base = start_offset == segments.all[0].base_offset
            self.producers.truncate_and_reload(start_offset - is_at_base, offset, now_ms)
            replay(self.producers, segments.all, offset)
            self.producers.on_high_watermark(offset)
            self.producers.take_snapshot()
        self._publish(start_offset, offset)

    def advance_start(self, offset: int) -> None:
        """Move the log's start up to an offset that the checkpoint has already."""
        # Epochs from before the start stay known: a log without its checkpoint begins with its first segment.
        self.producers.advance_log_start(offset)
        self._publish(offset, self.view.end_offset)

    def remove_before(self, base_offset: int) -> list[str]:
        """Delete the segments before the one that begins at the offset; returns the new names of their files."""
        view = self.view
        count = self.segments.count_before(base_offset)
        start_offset = max(view.start_offset, base_offset)
        with self.poison.changing:
            doomed = self.segments.detach_before(count)
            self.producers.advance_log_start(start_offset)
            self._publish(start_offset, view.end_offset)
            deleted = self.segments.delete(doomed)
            deleted += self._delete_snapshots(segment.base_offset for segment in doomed)
            # If the disk is full, the next opening trims the epochs.
            with suppress(DiskFullError), self.poison.refusing:
                self.epochs.truncate_from_start(base_offset)
        return deleted

    def replace(self, old: Sequence[Segment], new_bases: Sequence[int]) -> list[str]:
        """Replace closed segments by new ones; returns the new names of the old files."""
        view = self.view
        self.segments.check_closed(old)
        with self.poison.changing:
            deleted = self.segments.replace(old, new_bases)
            # Without its first segments a log starts, when it is opened, with the first one left.
            start_offset = max(view.start_offset, self.segments.all[0].base_offset)
            self._publish(start_offset, view.end_offset)
            return deleted + self._delete_snapshots(
                segment.base_offset for segment in old if segment.base_offset not in new_bases
            )

    def _delete_snapshots(self, base_offsets: Iterable[int]) -> list[str]:
        renamed = map(self.producers.snapshots.mark_deleted, base_offsets)
        return [name for name in renamed if name is not None]

    # What readers see

    def _publish(self, start_offset: int, end_offset: int) -> None:
        """Give readers a view of all segments."""
        self._show(self.segments.all, start_offset, end_offset, self.segments.active.size_bytes)

    def _show(self, segments: tuple[Segment, ...], start_offset: int, end_offset: int, end_position: int) -> None:
        stable = StableState(self.producers.last_stable_offset(start_offset, end_offset))
        bounds = start_offset, end_offset, end_position
        self.view = LogView(segments, *bounds, lambda: stable, self._indexes, cuts=self._cuts)
