"""A `.log` file read forward, batch by batch, in bounded memory.

The scan follows Kafka's own rules of where a log ends: silently before a batch that the file does not hold whole,
and with an error at a length that no batch can have. It judges neither checksums nor records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import FramingError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.record.layout import BATCH_HEADER_BYTES
from storage.record.reading import Batch, read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile
    from storage.record.batch import RecordBatch
    from storage.record.kernel.walk import Walk
    from storage.record.legacy import LegacyBatch

WINDOW_BYTES = 1024 * 1024


class LogScan:
    """The whole batches of a log from `start` up to `end`, in order; iterate over it once.

    The file's end is taken when the scan is made: what a broker appends meanwhile is not seen. Memory stays within the
    larger of a window and a batch, and a batch that declares more than `limit_bytes` is a `FramingError`.
    """

    def __init__(
        self,
        file: ReadableFile,
        *,
        start: int = 0,
        end: int | None = None,
        limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.file = file
        self.end = file.size_bytes() if end is None else end
        self._limit_bytes = limit_bytes
        self._window_bytes = window_bytes
        self._window_end = min(start, self.end)
        self._walk = read_batches(b"", origin=self._window_end)  # over the window, which is empty at first

    @property
    def position(self) -> int:
        """Where the batch after the last one given begins, or would."""
        return self._walk.position

    @property
    def trailing_bytes(self) -> int:
        """How many bytes lie behind the last whole batch, once the scan has ended."""
        return self.end - self.position

    @property
    def next_last_offset(self) -> int | None:
        """The last offset of the batch at the position, by its header alone; None if none can begin there."""
        return self._look(BATCH_HEADER_BYTES).next_last_offset

    def seek(self, offset: int) -> None:
        """Pass over the batches that end below the offset, of which only the headers are looked at.

        The position stays in front of what cannot be a batch.
        """
        while True:
            walk = self._look(BATCH_HEADER_BYTES)
            before = walk.position
            walk.pass_over(offset, self.end)
            position = walk.position
            if position == before or self._window_end - position >= BATCH_HEADER_BYTES:
                return

    def find(self, offset: int) -> Batch | None:
        """The first batch from the position on that does not end below the offset; None if there is none."""
        self.seek(offset)
        try:
            batch = next(self._walk, None)
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

    def _look(self, needed_bytes: int) -> Walk[RecordBatch, LegacyBatch]:
        """A walk at the position through a window that has so many bytes from there, or all that are left."""
        walk = self._walk
        position = walk.position
        if self._window_end - position >= needed_bytes:  # as for nearly every lookup
            return walk
        left_bytes = self.end - position
        if self._window_end - position < left_bytes:
            size_bytes = min(max(needed_bytes, self._window_bytes), left_bytes)
            window = self.file.read_at(position, size_bytes)
            self._window_end = position + len(window)
            if len(window) < size_bytes:
                self.end = self._window_end  # the file was cut while we read it
            self._walk = read_batches(window, origin=position)
        return self._walk
