"""The positions of a rendered log's bytes in its files, counted from an earlier start of the log.

The positions never change. They go through the log's files one after another, as long as those are the log. A file that
has left the log, because it was removed, compacted or truncated, keeps the positions that were counted in it. If it is
still open, readers read it to its end; otherwise the positions go on in the log as it is now, with the first record
after those that were counted. Records that were removed before that are a hole of one byte that cannot be read.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkafs.content.counted_file import NO_END
from kafkafs.content.edges import Edges
from kafkafs.content.seen import FilesAhead, tail_damage
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from kafkafs.content.counted_file import CountedFile
    from kafkafs.content.seen import Seen, SeenFile
    from storage.errors import CorruptBatchError

_HOLE_BYTES = 1

logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """A place in a log: its file, the position in it, and the counted bytes before it."""

    number: int
    position: int
    hidden: int


class Places(Protocol):
    """Finds where positions go on."""

    @property
    def name(self) -> str:
        """The log's name in messages."""

    def is_held(self, file: SeenFile) -> bool:
        """True if the file stays accessible even if it leaves the log."""

    def left(self, file: SeenFile) -> SeenFile | None:
        """Return a former file of the log with its final end; None if it is inaccessible or was cut."""

    def find(self, seen: Seen, offset: int) -> Place | None:
        """The first batch that does not end below the offset, or the log's end; None if there are no files."""


class Part(NamedTuple):
    """The positions from `begin` on, up to `end` if that is known: those of one file.

    They begin in the file at `position`, where no record below `offset` is any more, and its first counted byte would
    have the position `start`. A part that `has_left` is in a file that the log does not have any more.
    """

    begin: int
    start: int
    position: int
    offset: int
    file: SeenFile
    has_left: bool = False
    end: int | None = None

    @property
    def counted(self) -> CountedFile:
        """The counts of the file."""
        return self.file.counted

    @property
    def counted_end(self) -> int:
        """The position after all that was counted."""
        return self.start + self.counted.end.rendered if self.end is None else self.end


class Positions:
    """The positions that begin with the log's start in one view; `number` tells them from others of the same log.

    Everything that is added shows in all positions of the same `lineage`.
    """

    def __init__(self, number: int, lineage: int, seen: Seen, places: Places) -> None:
        self.number = number
        self.lineage = lineage
        self.start_offset = seen.view.start_offset
        self.edges = Edges()
        self.is_followed = False  # while a reader has a descriptor open that reads by these
        self.told_bytes: int | None = None  # the size that readers believe in
        self._places = places
        self._seen = seen
        self._end_offset = seen.view.end_offset  # the largest that was seen: a damaged batch may say anything
        self._cuts = seen.view.truncations
        self._parts: list[Part] = []
        self._resumes_at: int | None = None  # the offset to go on at after a truncation
        self._ahead = FilesAhead()  # the files that follow on the last part's, as far as they were seen
        self._extending = Lock()
        self._begin(seen)

    @property
    def parts(self) -> list[Part]:
        """The files whose positions are known, in order."""
        return self._parts

    @property
    def seen(self) -> Seen:
        """The newest view that was used."""
        return self._seen

    def files(self, position: int) -> list[SeenFile]:
        """The files that hold the positions from one on and that follow on those, then those before, nearest first."""
        with self._extending:  # no file is missed while it moves from `ahead` to the parts
            number = self.part_at(position)
            following = [part.file for part in self._parts[number:]]
            return [*following, *self._ahead, *(part.file for part in reversed(self._parts[:number]))]

    def extend(self, seen: Seen) -> Seen:
        """Go on into the files after those that are counted to their ends; returns the newest view used.

        Raises `FileNotFoundError` where there is a newer one yet.
        """
        with self._extending:
            if seen.number < self._seen.number:
                seen = self._seen
            self._seen = seen
            self._end_offset = max(self._end_offset, seen.view.end_offset)
            if not self._parts:
                self._begin(seen)
            if self._parts:
                self._notice_cut(seen)
                while self._extend_once(seen):
                    pass
            return seen

    def tell(self, size_bytes: int) -> int:
        """Remember a size that readers are told, and return it or an earlier larger one."""
        with self._extending:
            self.told_bytes = max(size_bytes, self.told_bytes or 0)
            return self.told_bytes

    def goes_on_in(self, seen: Seen) -> bool:
        """True if a reader of these misses no record when it goes on in the next view."""
        if not self._parts:
            return True
        last, start_offset = self._parts[-1], seen.view.start_offset
        if seen.number_of(last.counted) is not None or self._next_offset() >= start_offset:
            return True
        are_at_hand = all(
            seen.number_of(file.counted) is not None or self._places.is_held(file) for file in (last.file, *self._ahead)
        )
        return are_at_hand and self._seen.view.end_offset >= start_offset

    def counted_bytes(self) -> int:
        """Return the bytes that were counted without a gap, the least size."""
        return max(self._parts[-1].counted_end, self._parts[-1].begin) if self._parts else 0

    def newest(self, seen: Seen) -> Seen:
        """Return the newest of this view and those used so far, which is at least as new as each part."""
        known = self._seen
        return known if known.number > seen.number else seen

    def uncounted(self, seen: Seen) -> tuple[Seen, tuple[SeenFile, ...]]:
        """Return the files to count next, and their view, which may be a newer one."""
        self.extend(seen)
        with self._extending:
            seen = self._seen
            if not self._parts:
                return seen, ()
            last = self._parts[-1]
            if last.has_left:
                return seen, () if _is_counted_out(last) else (last.file,)
            number = seen.number_of(last.counted)
            return seen, () if number is None else seen.files[number:]

    def size_bytes(self, seen: Seen) -> int | None:
        """Return the size of a view, or of a newer one that was used; None while that is unknown."""
        self.extend(seen)
        with self._extending:
            if not self._parts:
                return 0
            seen, last = self._seen, self._parts[-1]
            number = seen.number_of(last.counted)
            if number is None:
                return self.counted_bytes() if _is_counted_out(last) else None
            if not last.counted.is_counted(seen.files[number].end, seen.end_offset):
                return None
            if number + 1 < len(seen.files) and last.counted.end_offset < seen.end_offset:
                return None
            return self.counted_bytes()

    def part_at(self, position: int) -> int:
        """Return the part that has the byte of this position, or will have it unless it lies in a hole."""
        return max(bisect_right(self._parts, position, key=attrgetter("begin")) - 1, 0)

    def is_end_of(self, number: int, position: int) -> bool:
        """True if the positions of this part are known to end there, and those of the next to begin."""
        following = self._parts[number + 1 : number + 2]
        return bool(following) and self._parts[number].end == position == following[0].begin

    def damaged(self, seen: Seen) -> int:
        """Return how many damaged batches were counted."""
        return sum(part.counted.damaged_behind(part.position) for part in self._parts) + sum(
            tail_damage(file) is not None for file in seen.files if file.counted.is_counted(file.end, seen.end_offset)
        )

    def damage(self, seen: Seen) -> tuple[int, CorruptBatchError] | None:
        """Return the position of the first damaged batch, and the reason."""
        for part in self._parts:
            damage = part.counted.damage_behind(part.position)
            if damage is not None and (part.end is None or part.start + damage.behind.rendered <= part.end):
                return part.start + damage.behind.rendered, damage.error
            number = seen.number_of(part.counted)
            if number is not None and part.counted.end.position >= seen.files[number].end:
                error = tail_damage(seen.files[number])
                if error is not None:
                    return part.start + part.counted.end.rendered, error
        return None

    # Going on

    def _begin(self, seen: Seen) -> None:
        if seen.files:
            self._add(Place(0, seen.start_position, seen.hidden), 0, self.start_offset, seen)

    def _extend_once(self, seen: Seen) -> bool:
        """Add one part if the last one has ended; False if it has not."""
        last = self._parts[-1]
        number = seen.number_of(last.counted)
        if number is None or last.has_left:
            return self._leave(seen)
        file, self._ahead = seen.files[number], FilesAhead(seen.files, number + 1)
        self._parts[-1] = last._replace(file=file)
        if not self._ahead or file.counted.end.position < file.end:
            return False
        offset = self._ahead.first.counted.base_offset
        if last.offset > offset:  # that file was missing for a moment
            return self._go_on(seen)
        self._add(Place(number + 1, 0, 0), self.counted_bytes(), offset, seen)
        return True

    def _leave(self, seen: Seen) -> bool:
        """Go on after a file that has left the log, once it is counted to its end, or cannot be read any more."""
        last = self._parts[-1]
        if self._ahead and (number := seen.number_of(self._ahead.last.counted)) is not None:
            self._ahead = self._ahead.followed_by(seen.files[number + 1 :])
        if not last.has_left:
            kept = self._places.left(last.file)
            last = self._parts[-1] = last._replace(file=kept or _as_counted(last.file), has_left=True)
            if kept is None:
                last.counted.seal()
        if not _is_counted_out(last):
            if self._places.left(last.file) is not None:
                return False
            last.counted.seal()
            self._parts[-1] = last._replace(file=_as_counted(last.file))
        return self._go_on(seen)

    def _go_on(self, seen: Seen) -> bool:
        """Go on with the next file as it was, if it is accessible, and otherwise in the log as it is now."""
        offset = self._next_offset()
        if self._ahead and seen.number_of(self._ahead.first.counted) is None:
            kept = self._places.left(self._ahead.first)
            if kept is not None:
                self._ahead = self._ahead.after_first()
                self._add_left(kept, max(offset, kept.counted.base_offset))
                return True
        place = self._places.find(seen, offset)
        if place is None:
            return False
        if self._resumes_at is not None:
            self._keep_uncut(place, offset, seen)
        begin = self.counted_bytes()
        if offset < seen.view.start_offset:
            if self.is_followed:
                gone = offsets_text(offset, seen.view.start_offset)
                logger.warning("%s: records were removed unread: %s", self._places.name, gone)
            begin, offset = begin + _HOLE_BYTES, seen.view.start_offset
        self._add(place, begin, offset, seen)
        return True

    def _notice_cut(self, seen: Seen) -> None:
        """After a truncation go on at its offset, if that is before the end of the counted batches."""
        cuts, self._cuts = seen.view.cuts[self._cuts :], max(self._cuts, seen.view.truncations)
        if not cuts or min(cuts) >= self._next_offset():
            return
        last, offset = self._parts[-1], min(cuts)
        if self.is_followed:
            message = "%s: the log was truncated, and readers go on with what is written from offset %d on"
            logger.warning(message, self._places.name, offset)
        last.counted.seal()
        self._ahead, self._resumes_at = FilesAhead(), offset
        self._parts[-1] = last._replace(file=_as_counted(last.file), has_left=True)

    def _keep_uncut(self, place: Place, offset: int, seen: Seen) -> None:
        """Read the part in which the log was truncated up to there in the present file."""
        number = max((number for number, part in enumerate(self._parts) if part.offset <= offset), default=0)
        part, file = self._parts[number], seen.files[place.number]
        was_here = part.counted.base_offset == file.counted.base_offset and part.counted.start == file.counted.start
        if was_here and part.counted.identity == file.counted.identity and part.counted is not file.counted:
            following = self._parts[number + 1 : number + 2]
            begin = following[0].begin if following else self.counted_bytes()
            self._parts[number] = part._replace(file=file, end=min(part.start + place.hidden, begin))
            if not following:  # the cut batches keep their positions, which cannot be read any more
                self._parts.append(part._replace(begin=part.start + place.hidden, end=begin, has_left=True))

    def _next_offset(self) -> int:
        """Return the first uncounted offset."""
        if self._resumes_at is not None:
            return self._resumes_at
        last = self._parts[-1]
        return max(last.offset, min(last.counted.next_offset, self._end_offset))

    def _add(self, place: Place, begin: int, offset: int, seen: Seen) -> None:
        self._end_last()
        self._parts.append(Part(begin, begin - place.hidden, place.position, offset, seen.files[place.number]))
        self._ahead = FilesAhead(seen.files, place.number + 1)
        self.edges.part_begins(begin)

    def _add_left(self, file: SeenFile, offset: int) -> None:
        self._end_last()
        begin = self.counted_bytes()
        self._parts.append(Part(begin, begin, file.counted.start, offset, file, has_left=True))
        self.edges.part_begins(begin)

    def _end_last(self) -> None:
        self._resumes_at = None
        if self._parts:
            last = self._parts[-1]
            self._parts[-1] = last._replace(end=last.counted_end)


def _is_counted_out(part: Part) -> bool:
    """True if a file that has left the log is counted completely."""
    return part.counted.is_sealed or part.counted.is_counted(part.file.end, NO_END)


def _as_counted(file: SeenFile) -> SeenFile:
    return file._replace(end=file.counted.end.position, is_last=False)
