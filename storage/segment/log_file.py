"""A `.log` file read forward, batch by batch, in bounded memory.

The scan follows Kafka's own rules of where a log ends: silently before a batch that the file does not hold whole,
and with an error at a length that no batch can have. It judges neither checksums nor records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import FramingError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.record.reading import Batch, read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile

WINDOW_BYTES = 1024 * 1024


class LogScan:
    """The whole batches of a log from `start` up to `end`, in order; iterate over it once.

    `position` is where the batch after the last one given begins, or would. The file's end is taken when the scan
    is made: what a broker appends meanwhile is not seen. Memory stays within the larger of a window and a batch,
    and a batch that declares more than `limit_bytes` is a `FramingError`.
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
        size_bytes = file.size_bytes()
        self.file = file
        self.end = size_bytes if end is None else min(end, size_bytes)
        self.position = min(start, self.end)
        self._limit_bytes = limit_bytes
        self._window_bytes = window_bytes

    @property
    def trailing_bytes(self) -> int:
        """How many bytes lie behind the last whole batch, once the scan has ended."""
        return self.end - self.position

    def __iter__(self) -> Iterator[Batch]:
        needed_bytes = 1
        while self.position + needed_bytes <= self.end:
            if needed_bytes > self._limit_bytes:
                raise FramingError(
                    f"the batch declares {needed_bytes} bytes, above the limit of {self._limit_bytes}",
                    path=self.file.path,
                    position=self.position,
                )
            window_bytes = min(max(needed_bytes, self._window_bytes), self.end - self.position)
            window = self.file.read_at(self.position, window_bytes)
            if len(window) < window_bytes:
                self.end = self.position + len(window)  # the file was cut while we read it
            window_end = self.position + len(window)
            walk = read_batches(window, origin=self.position)
            try:
                for batch in walk:
                    self.position = batch.position + batch.size_bytes
                    yield batch
            except FramingError as error:
                raise error.located(path=self.file.path) from None
            needed_bytes = max(window_end - self.position + walk.missing_bytes, 1)
