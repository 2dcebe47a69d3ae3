"""Where the bytes of a rendered log lie in its files, counted from where the log began at some time.

The positions never change: segments that are appended come behind the others, and those that are removed leave the
positions of the rest as they were.
"""

from __future__ import annotations

from bisect import bisect_right
from mmap import PAGESIZE
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import CorruptBatchError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from kafkafs.sizes.counted_file import CountedFile
    from storage.partition.view import LogView
    from storage.segment.segment import Segment


EDGE_BYTES: Final = 16 * 1024


class SeenFile(NamedTuple):
    """A segment in a view, what is known of its file, and the position where its batches end."""

    segment: Segment
    counted: CountedFile
    end: int
    is_last: bool


class Seen(NamedTuple):
    """A view as its reader sees it: up to an end offset, and from the segment on that has the log's start.

    Of that segment, what comes to the first `hidden` bytes counted lies before the log's start, at whose batch, at
    `start_position`, the reader begins.
    """

    view: LogView
    end_offset: int
    files: tuple[SeenFile, ...]
    start_position: int
    hidden: int

    def number_of(self, counted: CountedFile) -> int | None:
        """Which of the files this is; None if it is none of them."""
        number = bisect_right(self.files, counted.base_offset, key=_base_offset) - 1
        return number if number >= 0 and self.files[number].counted is counted else None


_base_offset = attrgetter("counted.base_offset")


class Part(NamedTuple):
    """A file whose first counted byte has the position `start`, which is below 0 if the log began behind it."""

    start: int
    counted: CountedFile


class Kept(NamedTuple):
    """Some bytes of a rendered log, and the position of the first of them."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position behind them."""
        return self.start + len(self.data)

    def between(self, start: int, end: int) -> Kept | None:
        """The bytes between two positions, if all of those are kept."""
        if not self.start <= start <= end <= self.end:
            return None
        return Kept(start, self.data[start - self.start : end - self.start])


class Positions:
    """The positions that begin with the log's start in one view; `number` tells them from others of the same log.

    Who has read to the end by the positions of one `lineage` can go on by them, whatever others there are since.
    """

    def __init__(self, number: int, lineage: int, seen: Seen) -> None:
        self.number = number
        self.lineage = lineage
        self.start_offset = seen.view.start_offset
        self.start_position = seen.start_position
        self.edge = Kept(0, b"")  # the last bytes that were made; replaced, never changed
        self.threshold = Kept(0, b"")  # what is in front of all that can still be read, and in one page with it
        self.told_bytes: int | None = None  # the size that readers believe in
        self._parts = [Part(-seen.hidden, seen.files[0].counted)] if seen.files else []
        self._extending = Lock()

    @property
    def parts(self) -> list[Part]:
        """The files whose positions are known, in order."""
        return self._parts

    def extend(self, seen: Seen) -> None:
        """Take in the files behind those that are counted to their ends by now."""
        with self._extending:
            parts = self._parts
            if not parts:
                if seen.files:
                    parts.append(Part(-seen.hidden, seen.files[0].counted))
                else:
                    return
            number = seen.number_of(parts[-1].counted)
            if number is None and _follows(parts[-1].counted, seen):
                parts.append(Part(parts[-1].start + parts[-1].counted.end.rendered, seen.files[0].counted))
                number = 0
            if number is None:
                return
            for file, following in zip(seen.files[number:], seen.files[number + 1 :], strict=False):
                if file.counted.end.position < file.end:
                    return
                parts.append(Part(parts[-1].start + file.counted.end.rendered, following.counted))

    def remember(self, position: int, data: Buffer) -> None:
        """Keep the last of the bytes that were made, which begin at the position, if they are the furthest so far."""
        view, edge = memoryview(data), self.edge
        if position + len(view) <= edge.end:
            return
        last = bytes(view[-EDGE_BYTES:])
        start = position + len(view) - len(last)
        if edge.start < start <= edge.end:
            last = (edge.data[: start - edge.start] + last)[-EDGE_BYTES:]
            start = position + len(view) - len(last)
        self.edge = Kept(start, last)

    def begin_at(self, position: int) -> None:
        """Take notice that everything before the position has been removed.

        The kernel reads whole pages though who reads wants nothing of that, so a page's worth of it is kept.
        """
        if self.threshold.end < position:
            self.threshold = self.edge.between(position // PAGESIZE * PAGESIZE, position) or Kept(position, b"")

    def tell(self, size_bytes: int) -> int:
        """Have it known that readers are told this size, or a larger one that they were told before; gives that."""
        with self._extending:
            self.told_bytes = max(size_bytes, self.told_bytes or 0)
            return self.told_bytes

    def go_on_in(self, seen: Seen) -> bool:
        """Whether the last of the files whose positions are known is there still, or what follows on it is."""
        self.extend(seen)
        return not self._parts or seen.number_of(self._parts[-1].counted) is not None

    def counted_bytes(self) -> int:
        """How many bytes there are at least: as many as were counted without a gap."""
        if not self._parts:
            return 0
        start, counted = self._parts[-1]
        return start + counted.end.rendered

    def size_bytes(self, seen: Seen) -> int | None:
        """How many bytes there are in a view, or None while that is unknown."""
        self.extend(seen)
        if not self._parts:
            return 0
        start, counted = self._parts[-1]
        number = seen.number_of(counted)
        if number is None or not counted.is_counted(seen.files[number].end, seen.end_offset):
            return None
        if number + 1 < len(seen.files) and counted.end_offset < seen.end_offset:
            return None
        return start + counted.end.rendered

    def part_at(self, position: int) -> int:
        """Which part has the byte of this position, or will have it."""
        return max(bisect_right(self._parts, position, key=attrgetter("start")) - 1, 0)

    def damaged(self, seen: Seen) -> int:
        """How many damaged batches there are, as far as was counted."""
        return sum(part.counted.damaged_behind(self._first_position(part)) for part in self._parts) + sum(
            tail_damage(file) is not None for file in seen.files if file.counted.is_counted(file.end, seen.end_offset)
        )

    def damage(self, seen: Seen) -> tuple[int, CorruptBatchError] | None:
        """The position that the first damaged batch would have, and what is wrong with it."""
        for part in self._parts:
            damage = part.counted.damage_behind(self._first_position(part))
            if damage is not None:
                return part.start + damage.behind.rendered, damage.error
            number = seen.number_of(part.counted)
            if number is not None and part.counted.end.position >= seen.files[number].end:
                error = tail_damage(seen.files[number])
                if error is not None:
                    return part.start + part.counted.end.rendered, error
        return None

    def _first_position(self, part: Part) -> int:
        return self.start_position if part is self._parts[0] else part.counted.start


def _follows(counted: CountedFile, seen: Seen) -> bool:
    """Whether a view begins just behind all that was counted of a file that is in it no more."""
    return (
        bool(seen.files)
        and seen.files[0].counted.start == 0
        and seen.files[0].counted.base_offset == counted.end_offset
    )


def tail_damage(file: SeenFile) -> CorruptBatchError | None:
    """What ends the batches of the last segment, if that is damage. In others it is damage before their end."""
    if not file.is_last:
        return None
    try:
        file.segment.check_end(file.end)
    except CorruptBatchError as error:
        return error
    return None
