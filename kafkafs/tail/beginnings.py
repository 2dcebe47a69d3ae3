"""Where following a log begins: at its last records, at its first ones, or at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kafkafs.locator.offsets import FromEnd
from storage.errors import RecordsGoneError

if TYPE_CHECKING:
    from kafkafs.library.reading import LogReader


@dataclass(frozen=True, slots=True)
class Last:
    """The last so many records that the reader has; with 0, only those that come."""

    count: int

    def offset(self, reader: LogReader) -> int:
        """Return the offset of the first of them."""
        end_offset = reader.end_offset
        if self.count == 0:
            return end_offset
        try:
            found = reader.offset(FromEnd(self.count))
        except RecordsGoneError:  # deleted while they were searched: what is left is fewer
            found = None
        return reader.start_offset if found is None else found


@dataclass(frozen=True, slots=True)
class From:
    """The records from the one with this number on, counted from 1."""

    number: int

    def offset(self, reader: LogReader) -> int:
        """Return the offset of the log's first record: who reads passes over those before the number."""
        return reader.start_offset


@dataclass(frozen=True, slots=True)
class Since:
    """The records from the first one at or after a time on, as `by-time` has it."""

    time_ms: int

    def offset(self, reader: LogReader) -> int:
        """Return the offset of the first of them, or of the next record to come."""
        end_offset = reader.end_offset
        found = reader.at(self.time_ms)
        return end_offset if found is None else min(found, end_offset)


Beginning: TypeAlias = "Last | From | Since"
