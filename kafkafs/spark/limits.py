"""Limits of a streaming query's batch and of a task, by offsets, as Spark's own Kafka source has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from storage.log_dir import Partition
    from storage.split import Split


def limited(limit: int, start: Mapping[Partition, int], end: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the ends of a batch of about `limit` offsets, shared out in proportion to what each partition has.

    Each partition with new offsets gets at least one. A partition without a start keeps its end.
    """
    sizes = {each: end[each] - start[each] for each in end if each in start and end[each] > start[each]}
    total = sum(sizes.values())
    if not total:
        return dict(end)
    return {each: _share(limit, sizes[each], total, start[each]) if each in sizes else end[each] for each in end}


def _share(limit: int, size: int, total: int, start: int) -> int:
    share = limit * (size / total)
    return start + min(size, math.ceil(share) if share < 1 else math.floor(share))


def count(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return how many offsets lie between."""
    return sum(end[each] - start.get(each, 0) for each in end)


def parts(ranges: Mapping[Partition, tuple[int, int]], records_max: int) -> Iterator[dict[Partition, tuple[int, int]]]:
    """Cut ranges of offsets into as few as possible, of about the same size, none with more than `records_max`."""
    for partition, (start, end) in sorted(ranges.items()):
        number_of_parts = -(-(end - start) // records_max)
        for number in range(number_of_parts):
            first, last = (start + (end - start) * place // number_of_parts for place in (number, number + 1))
            yield {partition: (first, last)}


def within(packs: Iterable[Sequence[Split]], records_max: int) -> Iterator[tuple[Split, ...]]:
    """Cut packs between splits so that none has more than `records_max`; no split has more by itself."""
    for pack in packs:
        kept: list[Split] = []
        records = 0
        for split in pack:
            size = split.end_offset - split.start_offset
            if kept and records + size > records_max:
                yield tuple(kept)
                kept, records = [], 0
            kept.append(split)
            records += size
        yield tuple(kept)
