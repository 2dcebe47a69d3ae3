"""The records around those that were found, as `grep -A` and `-B` have the lines: each once, in the log's order."""

from __future__ import annotations

from collections import deque
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING

from kafkafs.render.batch_lines import Visible
from storage.log import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.find.search import Reach
    from storage.record import Record


def with_neighbours(reach: Reach, found: Iterable[Record], before: int, after: int) -> Iterator[Record]:
    """Yield the records that were found, and so many visible ones before and after each, also beyond the reach."""
    next_offset = reach.view.start_offset
    left = 0  # of the neighbours after the last record that was found
    for record in found:
        later = _first(reach, next_offset, record.offset, left)
        for each in chain(later, _last(reach, next_offset, record.offset, before)):
            if each.offset >= next_offset:
                yield each
                next_offset = each.offset + 1
        yield record
        next_offset, left = record.offset + 1, after
    yield from _first(reach, next_offset, reach.view.end_offset, left)


def _first(reach: Reach, start: int, end: int, count: int) -> Iterator[Record]:
    """Yield the first records from `start` on and before an end."""
    between = takewhile(lambda each: each.offset < end, _visible(reach, start) if count else ())
    return islice(between, count)


def _last(reach: Reach, start: int, offset: int, count: int) -> Iterator[Record]:
    """Yield the last records from `start` on and before an offset."""
    width = count
    while count:
        begin = max(start, offset - width)
        last: deque[Record] = deque(maxlen=count)
        for each in _visible(reach, begin):
            if each.offset >= offset:
                break
            last.append(each)
        if len(last) == count or begin == start:
            yield from last
            return
        width *= 2


def _visible(reach: Reach, offset: int) -> Iterator[Record]:
    """Yield the records that the reader sees from an offset on."""
    view, isolation = reach.view, reach.isolation
    end = view.bound(isolation)
    if offset >= end:
        return
    visible = Visible(end, view.aborted(offset, end) if isolation is Isolation.COMMITTED else ())
    for batch in view.batches(offset):
        if batch.base_offset >= end:
            return
        batch.check_crc()
        if visible.shows(batch):
            yield from (each for each in batch.checked_records() if offset <= each.offset < end)
