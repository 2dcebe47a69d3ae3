"""What a cleaner may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from storage.config import StoreConfig


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """Memory for the map of keys, how full that may become, and memory for what is read at a time."""

    map_bytes: int
    map_load_factor: float
    buffer_bytes: int

    @classmethod
    def of(cls, config: StoreConfig) -> Self:
        """What each of a store's cleaners may use of what they have together."""
        threads = config.log_cleaner_threads
        return cls(
            map_bytes=config.log_cleaner_dedupe_buffer_bytes // threads,
            map_load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=max(config.log_cleaner_io_buffer_bytes // threads // 2, 1),  # as much again for writing
        )
