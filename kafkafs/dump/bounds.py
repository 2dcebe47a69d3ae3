"""Ranges of offsets and times: which records of a log are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.record import Batch, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The wanted records' first offset and time, and those after the last; None leaves a side open.

    A record without a timestamp is in no range of time.
    """

    first_offset: int | None = None
    end_offset: int | None = None
    first_time: int | None = None
    end_time: int | None = None

    @property
    def are_open(self) -> bool:
        """True if every record is wanted."""
        return self == _EVERYTHING

    def hold(self, record: Record) -> bool:
        """True if the record is wanted."""
        return self._hold_offsets(record.offset, record.offset) and self._hold_times(record.timestamp, record.timestamp)

    def may_hold_records_of(self, batch: Batch, lowest_offset: int) -> bool:
        """True if the batch, whose offsets begin at `lowest_offset` or later, can have wanted records."""
        return self._hold_offsets(lowest_offset, batch.last_offset) and self._hold_times(0, batch.max_timestamp)

    def hold_times_of(self, batch: Batch) -> bool:
        """True if any time from the first to the largest timestamp of the batch's header is wanted."""
        first = batch.max_timestamp
        if batch.delete_horizon_ms is None:
            first = min(batch.base_timestamp, first)
        return self._hold_times(first, batch.max_timestamp)

    def _hold_offsets(self, lowest: int, highest: int) -> bool:
        if self.first_offset is not None and highest < self.first_offset:
            return False
        return self.end_offset is None or lowest < self.end_offset

    def _hold_times(self, lowest: int, highest: int) -> bool:
        if self.first_time is None and self.end_time is None:
            return True
        return highest >= max(self.first_time or 0, 0) and (self.end_time is None or lowest < self.end_time)


_EVERYTHING: Final = Bounds()
