"""Limits the records of a task by their offsets, as Spark's own Kafka source does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from storage.log_dir import Partition
    from storage.split import Split


def parts(ranges: Mapping[Partition, tuple[int, int]], records_max: int) -> Iterator[dict[Partition, tuple[int, int]]]:
    """Cut ranges of offsets into as few as possible, of about the same size, none with more."""
    for partition, (start, end) in sorted(ranges.items()):
        count = -(-(end - start) // records_max)
        for number in range(count):
            first, last = (start + (end - start) * place // count for place in (number, number + 1))
            yield {partition: (first, last)}


def within(packs: Iterable[Sequence[Split]], records_max: int) -> Iterator[tuple[Split, ...]]:
    """Packs of splits, cut between splits so that none has more; each split has no more by itself."""
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
