"""The walk over the batches of a `.log` file, in bounded memory.

`LogScan` gives whole batches and ends where Kafka's rules end a log: silently before a batch that the file does not
hold whole, and with an error at a length that no batch can have. `GappedScan` goes on after damage. Neither judges
checksums, offsets or records: their callers do, with `check_place` for offsets, and report what they find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.budget import MEMORY
from storage.errors import (
    CorruptBatchError,
    DecompressedTooLargeError,
    FramingError,
    MisplacedBatchError,
    forget_frames,
)
from storage.offset_text import offsets_text
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.record.kernel.pinned_buffer import LeasedBuffer
from storage.record.layout import BATCH_HEADER_BYTES
from storage.record.leased import UNLEASED_BYTES_MAX
from storage.record.reading import Batch, read_batches
from storage.segment.index.zero_tail import is_zero
from storage.segment.sound_batch_search import position_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile
    from storage.record.batch import RecordBatch
    from storage.record.kernel.walk import Walk
    from storage.record.legacy import LegacyBatch

WINDOW_BYTES = 1024 * 1024

_LARGEST_OFFSET = 2**63 - 1


class LogScan:
    """The whole batches of a log from `start` up to `end`, in order; iterate over it once.

    The scan takes the file's end when it is made: it does not see what a broker appends afterwards. Memory stays within
    the larger of a window and a batch, and a batch that declares more than `limit_bytes` is a `FramingError`.

    A caller that knows that `end` lies within the file says `is_within`, which saves asking for the file's length.
    `window_begin` is the position of the first byte of the buffer that holds the last batch given.
    """

    __slots__ = ("_limit_bytes", "_walk", "_window", "_window_bytes", "_window_end", "end", "file", "window_begin")

    def __init__(
        self,
        file: ReadableFile,
        *,
        start: int = 0,
        end: int | None = None,
        is_within: bool = False,
        limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.file = file
        if end is None or not is_within:
            size_bytes = file.size_bytes()
            end = size_bytes if end is None else min(end, size_bytes)
        self.end = end
        self._limit_bytes = limit_bytes
        self._window_bytes = window_bytes
        self.window_begin = self._window_end = min(start, self.end)
        self._window: bytes | LeasedBuffer = b""
        self._walk: Walk[RecordBatch, LegacyBatch] | None = None  # over the window, which is empty at first

    @property
    def position(self) -> int:
        """The position after the last batch that was given."""
        return self._window_end if self._walk is None else self._walk.position

    @property
    def trailing_bytes(self) -> int:
        """The bytes after the last whole batch, once the scan has ended."""
        return self.end - self.position

    @property
    def next_last_offset(self) -> int | None:
        """The last offset of the batch at the position, by its header alone; None if no batch can begin there."""
        return self._look(BATCH_HEADER_BYTES).next_last_offset

    def seek(self, offset: int) -> Walk[RecordBatch, LegacyBatch]:
        """Pass over the batches that end below the offset, and return a walk from there. Only headers are read.

        The position stays in front of bytes that cannot be a batch.
        """
        while True:
            walk = self._look(BATCH_HEADER_BYTES)
            before = walk.position
            walk.pass_over(offset, self.end)
            position = walk.position
            if position == before or self._window_end - position >= BATCH_HEADER_BYTES:
                return walk

    def move_to(self, position: int) -> None:
        """Go on at a position at which a batch may begin."""
        if position == self.position:
            return
        if self._walk is not None and self.window_begin <= position < self._window_end:
            self._walk = read_batches(self._window, start=position - self.window_begin, origin=self.window_begin)
        else:
            self._window_end = position
            self._walk = None

    def find(self, offset: int) -> Batch | None:
        """Return the first batch from the position on that does not end below the offset; None if there is none."""
        walk = self.seek(offset)
        try:
            batch = next(walk, None)
        except FramingError as error:
            raise error.located(path=self.file.path) from None
        return next(iter(self), None) if batch is None else batch

    def __iter__(self) -> Iterator[Batch]:
        needed_bytes = 1
        while self.position + needed_bytes <= self.end:
            if needed_bytes > self._limit_bytes:
                raise FramingError(
                    f"the batch declares {needed_bytes} bytes, above the limit of {self._limit_bytes}",
                    path=self.file.path,
                    position=self.position,
                )
            walk = self._look(needed_bytes)
            try:
                yield from walk
            except FramingError as error:
                raise error.located(path=self.file.path) from None
            needed_bytes = max(self._window_end - walk.position + walk.missing_bytes, 1)

    def stretches(self, bytes_max: int) -> Iterator[Stretch]:
        """Yield the log in stretches of whole batches; use this or iterate over the batches.

        The first stretch is one batch. Each may be twice as long as the one before it, up to `bytes_max`.
        """
        stretch_bytes = 0
        for batch in self:
            walk, start = self._walk, batch.position
            assert walk is not None
            walk.pass_over(_LARGEST_OFFSET, min(start + stretch_bytes, self._window_end))
            end, origin = walk.position, self.window_begin
            yield Stretch(read_batches(batch.buffer, start=start - origin, end=end - origin, origin=origin), start, end)
            stretch_bytes = min(2 * stretch_bytes + batch.size_bytes, bytes_max)

    def _look(self, needed_bytes: int) -> Walk[RecordBatch, LegacyBatch]:
        """Return a walk at the position through a window that has so many bytes from there, or all that are left."""
        walk, window_end = self._walk, self._window_end
        position = window_end if walk is None else walk.position
        if walk is not None and (window_end - position >= needed_bytes or window_end >= self.end):
            return walk
        size_bytes = min(max(needed_bytes, self._window_bytes), self.end - position)
        window = self._read(position, size_bytes) if size_bytes > 0 else b""
        self.window_begin, self._window_end = position, position + len(window)
        if len(window) < size_bytes:
            self.end = self._window_end  # the file was truncated during the scan
        self._window, self._walk = window, (walk := read_batches(window, origin=position))
        return walk

    def _read(self, position: int, size_bytes: int) -> bytes | LeasedBuffer:
        """Read a window, and lease memory for a large one."""
        if size_bytes <= UNLEASED_BYTES_MAX:
            return self.file.read_at(position, size_bytes)
        self._window, self._window_end, self._walk = b"", position, None  # before others have to wait for their memory
        lease = MEMORY.lease(min(size_bytes, MEMORY.share_bytes))  # batches that are not compressed may be larger
        return LeasedBuffer(self.file.read_at(position, size_bytes), lease)


class Stretch(NamedTuple):
    """Whole batches of a log in one buffer, between two positions, and a walk over them."""

    walk: Walk[RecordBatch, LegacyBatch]
    start: int
    end: int

    def move_to(self, position: int) -> None:
        """Continue the walk at a later position at which a batch begins."""
        self.walk.pass_over(_LARGEST_OFFSET, position)


class Gap(NamedTuple):
    """Bytes of a log from `position` on that hold no sound batch, for the reason in `error`.

    The scan can go on at `end`, which is None if nothing sound follows. `is_unused` says that only zeros follow, as in
    a file that its broker preallocated, and `is_overrun` that a possible batch reaches beyond the end.
    """

    position: int
    end: int | None
    error: CorruptBatchError
    is_unused: bool = False
    is_overrun: bool = False


class GappedScan:
    """The batches of a log up to the next damage. After an error, `resume` after its gap, and iterate again.

    An iteration raises `FramingError` where no batch can begin, and at bytes after the last whole batch. The caller
    finds other damage. `next_offset` is the offset after the last batch given, or what the caller sets: no batch after
    a gap begins below it. `is_done` says that no more batches can follow.
    """

    def __init__(self, scan: LogScan, base_offset: int, *, end: int | None = None) -> None:
        self.next_offset = base_offset
        self.end = scan.end if end is None else end
        self.is_done = False
        self._scan = scan
        self._base_offset = base_offset
        self._overrun: FramingError | None = None

    @property
    def position(self) -> int:
        """The position after the last batch that was given."""
        return self._scan.position

    @property
    def window_begin(self) -> int:
        """The position of the first byte of the buffer that holds the last batch given."""
        return self._scan.window_begin

    @property
    def is_cut_short(self) -> bool:
        """True if the file turned out to be shorter than the range to scan."""
        return self._scan.end < self.end

    def __iter__(self) -> Iterator[Batch]:
        for batch in self._scan:
            self.next_offset = batch.last_offset + 1
            yield batch
        self._end()

    def stretches(self, bytes_max: int) -> Iterator[Stretch]:
        """Yield the batches up to the next damage as `LogScan.stretches` does; the caller sets `next_offset`."""
        yield from self._scan.stretches(bytes_max)
        self._end()

    def _end(self) -> None:
        """End an iteration: raise `FramingError` if bytes follow the last whole batch."""
        scan = self._scan
        if scan.trailing_bytes > 0:
            reason = f"{scan.trailing_bytes} bytes follow the last whole batch"
            self._overrun = FramingError(reason, path=scan.file.path, position=scan.position)
            raise self._overrun
        self.is_done = True

    def gap_of(self, error: CorruptBatchError, batch: Batch | None = None) -> Gap:
        """Return the gap that an error leaves: of the iteration, or of a batch that the caller found damaged.

        A damaged batch's gap ends with the batch if another seems to begin there. Otherwise, and without a batch, the
        gap ends at the next place where a sound batch begins. A batch that takes too much memory is not damaged, and
        has its end where it says.
        """
        file = self._scan.file
        error = error.located(path=file.path)
        forget_frames(error)  # the gap keeps it
        position = self._scan.position if batch is None else batch.position
        own_end = None if batch is None else batch.position + batch.size_bytes
        is_overrun = error is self._overrun
        if batch is None and is_zero(file, position, self.end):
            return Gap(position, None, error, is_unused=True, is_overrun=is_overrun)
        if own_end is not None and isinstance(error, DecompressedTooLargeError):
            return Gap(position, own_end, error, is_overrun=is_overrun)
        end = position_after(
            file, position, own_end, self.end, base_offset=self._base_offset, next_offset=self.next_offset
        )
        return Gap(position, end, error, is_overrun=is_overrun)

    def resume(self, gap: Gap) -> None:
        """Continue the next iteration after a gap."""
        self.is_done = gap.end is None
        if gap.end is not None:
            self._scan.move_to(gap.end)

    def extend_to(self, end: int) -> None:
        """Continue the next iteration up to a later end."""
        self.end = self._scan.end = end


def check_place(batch: Batch, base_offset: int, end_offset: int) -> None:
    """Raise `MisplacedBatchError` unless the batch has offsets from `base_offset` up to, and not with, `end_offset`.

    No checksum covers a batch's base offset.
    """
    if not base_offset <= batch.base_offset <= batch.last_offset < end_offset:
        raise MisplacedBatchError(
            f"the batch has the offsets from {batch.base_offset} to {batch.last_offset}, in the place of "
            f"{offsets_text(base_offset, end_offset)}",
            position=batch.position,
            offset=batch.base_offset,
        )


def check_order(batch: Batch, next_offset: int) -> None:
    """Raise `MisplacedBatchError` if the batch begins below the offset after the batch before it."""
    if batch.base_offset < next_offset:
        raise MisplacedBatchError(
            f"the batch follows on one that ends with {next_offset - 1}",
            position=batch.position,
            offset=batch.base_offset,
        )
