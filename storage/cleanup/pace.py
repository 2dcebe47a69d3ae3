"""The limits of a cleaner, and its pace: it stops on request, and waits when it is too fast.

One `Throttle` is for all cleaners together, a `Pace` for each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from storage.errors import CompactionStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from storage.clock import Clock
    from storage.config import StoreConfig
    from storage.record.reading import Batch
    from storage.throttle import Throttle


class Pace:
    """The speed of one run, which reads `buffer_bytes` at a time; stopped, it raises `CompactionStoppedError`."""

    def __init__(self, clock: Clock, throttle: Throttle, is_stopped: Callable[[], bool], buffer_bytes: int) -> None:
        self.buffer_bytes = buffer_bytes
        self.read_bytes = 0
        self.written_bytes = 0
        self._clock = clock
        self._begun_s = clock.elapsed_s()
        self._throttle = throttle
        self._is_stopped = is_stopped

    @property
    def elapsed_s(self) -> float:
        """The time that the run has taken."""
        return self._clock.elapsed_s() - self._begun_s

    def check(self) -> None:
        """Raise if the run is stopped."""
        if self._is_stopped():
            raise CompactionStoppedError("compacting the log was stopped")

    def passing(self, batches: Iterable[Batch], at_end_of_buffer: Callable[[], None] = lambda: None) -> Iterator[Batch]:
        """Yield the same batches at the allowed speed, and call a function between two buffers."""
        buffer = None
        size_bytes = 0
        for batch in batches:
            if batch.buffer is not buffer:
                at_end_of_buffer()
                self.read(size_bytes)
                buffer, size_bytes = batch.buffer, 0
            size_bytes += batch.size_bytes
            yield batch
        at_end_of_buffer()
        self.read(size_bytes)

    def read(self, size_bytes: int) -> None:
        """Count bytes that were read."""
        self.read_bytes += size_bytes
        self._took(size_bytes)

    def wrote(self, size_bytes: int) -> None:
        """Count bytes that were written."""
        self.written_bytes += size_bytes
        self._took(size_bytes)

    def _took(self, size_bytes: int) -> None:
        self.check()
        self._throttle.took(size_bytes, self._is_stopped)
        self.check()


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """The memory for the map of keys, how full that may become, and the memory for reading."""

    map_bytes: int
    map_load_factor: float
    buffer_bytes: int

    @classmethod
    def of(cls, config: StoreConfig) -> Self:
        """Return each cleaner's share of the store's limits."""
        threads = config.log_cleaner_threads
        return cls(
            map_bytes=config.log_cleaner_dedupe_buffer_bytes // threads,
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=max(config.log_cleaner_io_buffer_bytes // threads // 2, 1),  # as much again for writing
        )
