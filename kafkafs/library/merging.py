"""The records of many logs merged by their timestamps, in memory that does not grow with the number of logs.

Of each log a portion is held, and its file is closed while the others' turn comes. A portion may end within a batch,
which is then decoded again for the next one.
"""

from __future__ import annotations

from contextlib import closing
from heapq import merge
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkafs.library.record import given
from storage.errors import StorageError
from storage.split import SPLIT_WINDOW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkafs.library.reading import LogReader
    from kafkafs.library.record import Record
    from storage.split import Split

_HELD_BYTES: Final = 64 * 1024 * 1024
"""The records that all logs hold together, as long as each holds at least the following."""
_PORTION_BYTES_MIN: Final = 16 * 1024
_WINDOW_BYTES_MIN: Final = 32 * 1024
_RECORD_BYTES: Final = 300  # what Python's objects for a record take without their bytes
_HEADER_BYTES: Final = 100

_timestamp = attrgetter("timestamp")


def merged(ranges: Sequence[tuple[LogReader, tuple[int, int]]]) -> Iterator[Record]:
    """Merge the records of ranges by their timestamps; those of a log stay in its order."""
    portion_bytes = max(_HELD_BYTES // max(len(ranges), 1), _PORTION_BYTES_MIN)
    return merge(*(_records(log, start, end, portion_bytes) for log, (start, end) in ranges), key=_timestamp)


def _records(log: LogReader, start: int, end: int, portion_bytes: int) -> Iterator[Record]:
    splits, damage = log.splits(start, end), log.damage_after(end)
    for split in splits:
        pieces = [split]
        while pieces:
            portion, offset = _portion(log, pieces, portion_bytes)
            yield from portion
            pieces = [] if offset is None else log.splits(offset, split.end_offset)
    if damage is not None:
        raise damage


def _portion(log: LogReader, pieces: Sequence[Split], portion_bytes: int) -> tuple[list[Record], int | None]:
    """Return the first records of splits, and the offset to go on at; None if these are all.

    An error is raised once no record lies before it: reading on after the records that are returned meets it again.
    """
    portion: list[Record] = []
    left_bytes = portion_bytes
    window_bytes = min(max(portion_bytes, _WINDOW_BYTES_MIN), SPLIT_WINDOW_BYTES)
    try:
        for split in pieces:
            with closing(log.read(split, window_bytes=window_bytes)) as batches:
                for record in chain.from_iterable(given(log.topic, log.partition, records) for records in batches):
                    portion.append(record)
                    left_bytes -= _size_bytes(record)
                    if left_bytes <= 0:
                        return portion, record.offset + 1
    except StorageError:
        if not portion:
            raise
        return portion, portion[-1].offset + 1
    return portion, None


def _size_bytes(record: Record) -> int:
    headers_bytes = sum(_HEADER_BYTES + len(value or b"") for _, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers_bytes
