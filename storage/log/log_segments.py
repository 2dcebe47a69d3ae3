"""The segments of a log as its writer changes them: rolled, cut, deleted, replaced.

A crash may interrupt every change anywhere: it leaves a log with the old segments, or with the new ones, or with some
of the segments that were being removed. Unless a method says otherwise, an error leaves partial changes; the log
decides whether it can go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from storage.errors import LogChangedError, TooManySegmentsError
from storage.log.flushing import Flushing
from storage.segment import names
from storage.segment.replacement import replace_segments
from storage.segment.rolling import draw_jitter_ms
from storage.segment.segment import Segment
from storage.segment.writable_segment import WritableSegment, remove_segment_files

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.segment.segment_files import SegmentFiles


class LogSegments:
    """All segments of a log, ascending; the last is the active one.

    `all` is never changed in place, so readers may keep it. `flushing` knows which segments are on disk.
    """

    def __init__(
        self,
        directory: Directory,
        closed: Sequence[Segment],
        active: WritableSegment,
        *,
        recovery_point: int,
        rng: random.Random,
        now_ms: int,
    ) -> None:
        self.flushing = Flushing(active, recovery_point, now_ms)
        self._directory = directory
        self._rng = rng
        self.all: tuple[Segment, ...] = (*closed, active)
        # The files last deleted at each base, as long as a reader holds them.
        self._deleted: WeakValueDictionary[int, SegmentFiles] = WeakValueDictionary()

    @property
    def active(self) -> WritableSegment:
        """The segment that is appended to."""
        return self.flushing.active

    def create(self, base_offset: int, config: TopicConfig, now_ms: int) -> WritableSegment:
        """Create the files of a new segment, which is not one of the log yet. A failure leaves no files."""
        return WritableSegment.create(
            self._directory,
            base_offset,
            config,
            now_ms=now_ms,
            jitter_ms=draw_jitter_ms(config, self._rng),
        )

    def check_room(self, added: int, removed: int = 0) -> None:
        """Raise `TooManySegmentsError` if the partition would have more segments than are taken in."""
        count = len(self.all) - removed + added
        if count > names.SEGMENTS_MAX:
            raise TooManySegmentsError(
                f"the partition would have {count:,} segments, and no more than {names.SEGMENTS_MAX:,} are taken in",
                path=self._directory,
            )

    def roll(self, following: WritableSegment) -> None:
        """Finish the active segment, and make `following` the active one."""
        rolled = self.active
        rolled.finalise()
        self.flushing.roll(following)
        self.all = (*self.all[:-1], rolled.closed(), following)

    def count_before(self, base_offset: int) -> int:
        """Return the number of segments before the one that begins at the offset; `LogChangedError` if none does."""
        for index, segment in enumerate(self.all):
            if segment.base_offset == base_offset:
                return index
        raise LogChangedError("no segment of the log begins there", path=self._directory, offset=base_offset)

    def detach_before(self, count: int) -> tuple[Segment, ...]:
        """Remove the first segments from the log and return them; their files stay."""
        left, self.all = self.all[:count], self.all[count:]
        return left

    def delete(self, segments: Iterable[Segment]) -> list[str]:
        """Rename the files of segments that are no longer the log's, and return the new names.

        Readers go on with them. The segments are renamed one by one, in the given order.
        """
        return [name for segment in self._doomed(segments) for name in segment.own_files.delete()]

    def check_closed(self, old: Sequence[Segment]) -> None:
        """Raise `LogChangedError` unless these are closed segments of the log that follow each other."""
        bases = [segment.base_offset for segment in self.all]
        begin = bases.index(old[0].base_offset) if old[0].base_offset in bases else len(bases)
        end = begin + len(old)
        if end >= len(bases) or any(mine is not each for mine, each in zip(self.all[begin:end], old, strict=True)):
            raise LogChangedError(
                "the segments to be replaced are no longer closed ones of the log", path=self._directory
            )

    def replace(self, old: Sequence[Segment], new_bases: Sequence[int]) -> list[str]:
        """Replace closed segments by new ones, whose files are on disk as `.cleaned`.

        The replacement is durable when this returns. Returns the new names of the old files, which the caller removes
        later; readers go on with them. The caller has checked the old segments with `check_closed`. Raises
        `TooManySegmentsError`, before any change, if the new ones are too many.
        """
        self.check_room(len(new_bases), len(old))
        begin = self.all.index(old[0])
        end = begin + len(old)
        assert all(old[0].base_offset <= base_offset < self.all[end].base_offset for base_offset in new_bases)
        deleted = replace_segments(self._directory, new_bases, self._doomed(old))
        new = [Segment(self._directory, base_offset) for base_offset in sorted(new_bases)]
        self.all = (*self.all[:begin], *new, *self.all[end:])
        return deleted

    def _doomed(self, segments: Iterable[Segment]) -> list[Segment]:
        """Return segments about to be deleted. Those deleted earlier at the same bases lose their files now."""
        doomed = list(segments)
        for segment in doomed:
            earlier = self._deleted.get(segment.base_offset)
            if earlier is not None:
                earlier.lose()
            self._deleted[segment.base_offset] = segment.own_files
        return doomed

    def before(self, offset: int) -> tuple[tuple[Segment, ...], int]:
        """Return the segments that a truncation to the offset leaves, and the position where the last one ends."""
        kept = tuple(segment for segment in self.all if segment.base_offset <= offset)
        position = kept[-1].locate(offset) if kept else 0
        return kept, kept[-1].size_bytes if position is None else position

    def truncate_to(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Drop the batch that holds the offset, and all after it, durably.

        The offset is not below the first segment's base, and every rolled segment is flushed.
        """
        kept = [segment for segment in self.all if segment.base_offset <= offset]
        active = self.active
        if kept[-1] is not active:
            active.close()
            self._remove(self.all[len(kept) :])
            active = WritableSegment.open_writing(
                self._directory,
                kept[-1].base_offset,
                config,
                now_ms=now_ms,
                jitter_ms=draw_jitter_ms(config, self._rng),
                share_files_with=kept[-1],
            )
        active.truncate_to(offset, now_ms)
        self._directory.sync()
        self.flushing.replace(active)
        self.all = (*kept[:-1], active)

    def reset_to(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Drop everything and begin again at an offset, durably."""
        self.active.close()
        self._remove(self.all)
        active = self.create(offset, config, now_ms)
        active.flush()
        self.flushing.replace(active)
        self.all = (active,)

    def _remove(self, segments: Sequence[Segment]) -> None:
        """Remove the segments' files, the last segment first, so that a crash leaves no gap."""
        for segment in reversed(segments):
            remove_segment_files(self._directory, segment.base_offset)
