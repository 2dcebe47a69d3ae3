"""A log's view as one kind of reader sees it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import CorruptBatchError
from storage.segment.index import is_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.content.counted_file import CountedFile
    from storage.files import FileStatus
    from storage.log import LogView
    from storage.segment import Segment


class SeenFile(NamedTuple):
    """A segment in a view, the counts of its file, and the position where its batches end."""

    segment: Segment
    counted: CountedFile
    end: int
    is_last: bool


class Seen(NamedTuple):
    """A view as its reader sees it: up to an end offset, and from the segment on that has the log's start.

    The first `hidden` counted bytes of that segment lie before the log's start; the reader begins at its batch, at
    `start_position`. A later one has a higher `number`.
    """

    view: LogView
    end_offset: int
    files: tuple[SeenFile, ...]
    start_position: int
    hidden: int
    number: int = 0

    def number_of(self, counted: CountedFile) -> int | None:
        """Return the index of this file; None if it is none of them."""
        number = bisect_right(self.files, counted.base_offset, key=_base_offset) - 1
        return number if number >= 0 and self.files[number].counted is counted else None

    def newest(self, file: SeenFile) -> SeenFile:
        """Return the present file, or the former one if it has left the log."""
        number = self.number_of(file.counted)
        return file if number is None else self.files[number]


class FilesAhead:
    """The files of a view from the one with this number on. The files are not copied, as there may be very many."""

    __slots__ = ("_files", "_number")

    def __init__(self, files: tuple[SeenFile, ...] = (), number: int = 0) -> None:
        self._files = files
        self._number = number

    def __bool__(self) -> bool:
        return self._number < len(self._files)

    def __iter__(self) -> Iterator[SeenFile]:
        return islice(self._files, self._number, None)

    @property
    def first(self) -> SeenFile:
        """The next file."""
        return self._files[self._number]

    @property
    def last(self) -> SeenFile:
        """The newest file."""
        return self._files[-1]

    def after_first(self) -> FilesAhead:
        """Return the files after the next one."""
        return FilesAhead(self._files, self._number + 1)

    def followed_by(self, files: tuple[SeenFile, ...]) -> FilesAhead:
        """Return these files and then others."""
        return FilesAhead((*self, *files)) if files else self


_base_offset = attrgetter("counted.base_offset")


def tail_damage(file: SeenFile) -> CorruptBatchError | None:
    """Return the damage that ends the batches of the last segment, if any. In others it is damage before their end."""
    if not file.is_last:
        return None
    try:
        file.segment.check_end(file.end)
    except CorruptBatchError as error:
        return error
    return None


def end_of(segment: Segment, status: FileStatus) -> int:
    """Return where the batches of an earlier segment end: bytes after its size that are not zeros count too."""
    end = segment.size_bytes
    if status.size_bytes <= end:
        return end
    with segment.open_log() as file:
        return end if is_zero(file, end, status.size_bytes) else status.size_bytes


def shown_segments(view: LogView) -> tuple[Segment, ...]:
    """The segments from the one that has the log's start on."""
    bases = view.bases
    first = max((number for number, base in enumerate(bases) if base <= view.start_offset), default=0)
    return view.segments[first:]
