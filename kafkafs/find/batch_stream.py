"""The batches of a log as one stream of bytes, whichever segments they are in, and how far two of them are the same.

Replicas roll at different times, so their segments need not match. Their batches do, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import FramingError
from storage.record import read_batches
from storage.segment import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from storage.files import ReadableFile
    from storage.log import LogView
    from storage.record import Batch
    from storage.segment import Segment

_READ_BYTES: Final = 1024 * 1024
_LARGEST_OFFSET: Final = 2**63 - 1


class BatchStream:
    """The batches of a view from the one that holds an offset on. Only whole batches are passed over.

    It ends before the batch that holds the offset `until`, or at the end of the log.

    `segment` and `position` are the place of the next batch once there is one. Raises `FileNotFoundError` where a
    segment is gone.
    """

    def __init__(self, view: LogView, offset: int, until: int = _LARGEST_OFFSET) -> None:
        self.segment: Segment | None = None
        self.position = 0
        self._parts = view.slices(offset)
        self._offset = offset
        self._until = until
        self._file: ReadableFile | None = None
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    @property
    def left_bytes(self) -> int:
        """The bytes that are left in the segment at hand; 0 at the end of the log."""
        return self._end - self.position if self._opened() is not None else 0

    def read(self, size_bytes: int) -> bytes:
        """Return the next bytes without passing over them, of which so many are left in the segment."""
        file = self._opened()
        return b"" if file is None else file.read_at(self.position, size_bytes)

    def pass_over(self, size_bytes: int) -> None:
        """Go on after so many bytes, which are whole batches of the segment at hand."""
        self.position += size_bytes

    def batch(self) -> Batch | None:
        """Return the next batch; None at the end. Raises `FramingError` if no batch can begin there."""
        file = self._opened()
        return None if file is None else next(iter(LogScan(file, start=self.position, end=self._end)), None)

    def _opened(self) -> ReadableFile | None:
        """Return the file of the next batch; None at the end."""
        while self._file is None or self.position >= self._end:
            self._close()
            part = next(self._parts, None)
            if part is None or part.segment.base_offset >= self._until:
                return None
            self.segment, self.position = part.segment, 0
            self._end = part.segment.size_bytes if part.end is None else part.end
            self._file = part.segment.open_log()
            if self._offset > part.segment.base_offset:
                first = part.segment.find(self._offset, self._end)
                self.position = self._end if first is None else first.position
            if self._until < part.end_offset:
                last = part.segment.find(self._until, self._end)
                self._end = self._end if last is None else last.position
            self._offset = 0
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def pass_equal(one: BatchStream, other: BatchStream) -> Iterator[int]:
    """Pass over the batches in which both streams are the same, and yield the bytes of them as it goes.

    Afterwards each is at its first batch that differs from the other's, or at its end, or at what is no batch.
    """
    wanted_bytes = _READ_BYTES
    while size_bytes := min(one.left_bytes, other.left_bytes, wanted_bytes):
        mine, others = one.read(size_bytes), other.read(size_bytes)
        walk = read_batches(mine)
        walk.pass_over(_LARGEST_OFFSET, len(mine))
        if mine == others and walk.position:
            one.pass_over(walk.position)
            other.pass_over(walk.position)
            yield walk.position
            wanted_bytes = _READ_BYTES
        elif mine == others and size_bytes == wanted_bytes:
            wanted_bytes *= 2  # a batch is larger
        else:
            if mine != others:
                yield from _pass_first_equal(one, other, mine, others)
            return


def _pass_first_equal(one: BatchStream, other: BatchStream, mine: bytes, others: bytes) -> Iterator[int]:
    """Pass over the whole batches before the first byte that differs."""
    passed = 0
    try:
        for batch in read_batches(mine):
            end = batch.position + batch.size_bytes
            if mine[batch.position : end] != others[batch.position : end]:
                break
            passed = end
    except FramingError:
        pass  # the same bytes are no batch in both, which reading them says
    one.pass_over(passed)
    other.pass_over(passed)
    yield passed
