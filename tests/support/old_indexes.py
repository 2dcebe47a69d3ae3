"""Indexes as brokers before 4.0 wrote them: the batches of one append count as one, while we index each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record import Batch

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OldIndexes:
    """The indexes of one segment, to which appends are added in order."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._offsets = bytearray()
        self._times = bytearray()
        self._position = self._entry_position = 0
        self._largest = (-1, base_offset)
        self._indexed_timestamp = -1

    def add(self, batches: Sequence[Batch], bearer: int | None = None) -> None:
        """Index an append; `bearer` is the offset of its largest timestamp if that is not its batch's last one."""
        batch = max(batches, key=lambda each: each.max_timestamp)  # the first of several
        if batch.max_timestamp > self._largest[0]:
            self._largest = (batch.max_timestamp, batch.last_offset if bearer is None else bearer)
        if self._position - self._entry_position > self._interval_bytes:
            self._entry_position = self._position
            self._offsets += _OFFSET_ENTRY.pack(batches[-1].last_offset - self._base_offset, self._position)
            self._index_time()
        self._position += sum(each.size_bytes for each in batches)

    def files(self) -> dict[str, bytes]:
        """The index files of the segment once it is finished, by their names."""
        self._index_time()
        name = f"{self._base_offset:020}"
        return {f"{name}.index": bytes(self._offsets), f"{name}.timeindex": bytes(self._times)}

    def _index_time(self) -> None:
        timestamp, offset = self._largest
        if timestamp > self._indexed_timestamp:
            self._times += _TIME_ENTRY.pack(timestamp, offset - self._base_offset)
            self._indexed_timestamp = timestamp
