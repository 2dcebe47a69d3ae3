"""The segments of a log as its writer changes them: rolled, cut, removed.

Everything here happens in an order that a crash may interrupt anywhere: what is left is a log with the old segments, or
with the new ones, or with a part of what was being removed still there. Nothing is undone after an error but what says
so; the log decides whether it can go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.partition.flushing import Flushing
from storage.segment.rolling import draw_jitter_ms
from storage.segment.segment import Segment
from storage.segment.writable_segment import WritableSegment, remove_segment_files

if TYPE_CHECKING:
    import os
    import random
    from collections.abc import Sequence

    from storage.config import TopicConfig
    from storage.files import Files


class LogSegments:
    """All segments of a log, ascending; the last is the active one.

    `all` is never changed in place, so that others may keep it. `flushing` knows which are on disk.
    """

    def __init__(
        self,
        files: Files,
        directory: str | os.PathLike[str],
        closed: Sequence[Segment],
        active: WritableSegment,
        *,
        recovery_point: int,
        draw: random.Random,
        now_ms: int,
    ) -> None:
        self.flushing = Flushing(active, recovery_point, now_ms)
        self._files = files
        self._directory = directory
        self._draw = draw
        self.all: tuple[Segment, ...] = (*closed, active)

    @property
    def active(self) -> WritableSegment:
        """The segment that is appended to."""
        return self.flushing.active

    def create(self, base_offset: int, config: TopicConfig, now_ms: int) -> WritableSegment:
        """Make the files of a new segment, which is not among the others yet. If it fails, there are none."""
        return WritableSegment.create(
            self._files,
            self._directory,
            base_offset,
            config,
            now_ms=now_ms,
            jitter_ms=draw_jitter_ms(config, self._draw),
        )

    def roll(self, following: WritableSegment) -> None:
        """Finish the active segment and go on with this one."""
        rolled = self.active
        rolled.finalise()
        closed = Segment(self._files, self._directory, rolled.base_offset, size_bytes=rolled.size_bytes)
        self.flushing.roll(following)
        self.all = (*self.all[:-1], closed, following)

    def before(self, offset: int) -> tuple[tuple[Segment, ...], int]:
        """What a truncation to the offset will leave: these segments, the last of them up to this position."""
        kept = tuple(segment for segment in self.all if segment.base_offset <= offset)
        position = kept[-1].locate(offset) if kept else 0
        return kept, kept[-1].size_bytes if position is None else position

    def truncate_to(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Drop the batch that has the offset, and all behind it; that is durable when this returns.

        The offset is not below the first segment's base, and nothing rolled is left to flush.
        """
        kept = [segment for segment in self.all if segment.base_offset <= offset]
        active = self.active
        if kept[-1] is not active:
            active.close()
            self._remove(self.all[len(kept) :])
            active = WritableSegment.open_writing(
                self._files,
                self._directory,
                kept[-1].base_offset,
                config,
                now_ms=now_ms,
                jitter_ms=draw_jitter_ms(config, self._draw),
            )
        active.truncate_to(offset, now_ms)
        self._files.sync_directory(self._directory)
        self.flushing.replace(active)
        self.all = (*kept[:-1], active)

    def restart(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Drop everything and begin anew at an offset; that is durable when this returns."""
        self.active.close()
        self._remove(self.all)
        active = self.create(offset, config, now_ms)
        active.flush()
        self.flushing.replace(active)
        self.all = (active,)

    def _remove(self, segments: Sequence[Segment]) -> None:
        """Remove the segments' files, the last segment first, so that a crash leaves no gap between others."""
        for segment in reversed(segments):
            remove_segment_files(self._files, self._directory, segment.base_offset)
