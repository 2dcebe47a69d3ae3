"""What an append tells a segment's indexes: in which units, and what each may say of itself.

Kafka counts the bytes since the last entry, and adds an entry for the unit that comes after more than
`index.interval.bytes` of them. Which unit that is changed over time, and every reader takes either. We count batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from storage.record.layout import NO_TIMESTAMP
from storage.record.reading import Batch


class AppendedRun(NamedTuple):
    """Bytes that are appended at once, which an index either points to the beginning of or passes over.

    The largest timestamp comes with the last offset of the first batch that has it.
    """

    size_bytes: int
    last_offset: int
    largest_timestamp: int
    largest_timestamp_offset: int


Accounting: TypeAlias = Callable[[Sequence[Batch]], Iterable[AppendedRun]]
"""How the batches of one append, at least one and at their final offsets, are told to the indexes."""


def per_batch(batches: Sequence[Batch]) -> list[AppendedRun]:
    """Every batch for itself, as Kafka does since 4.0 and as every version rebuilds an index."""
    runs = []
    for batch in batches:
        last_offset = batch.last_offset
        runs.append(AppendedRun(batch.size_bytes, last_offset, batch.max_timestamp, last_offset))
    return runs


def per_append_call(batches: Sequence[Batch]) -> list[AppendedRun]:
    """The batches of one append together, as Kafka did before 4.0, which shows where one append brings several."""
    size_bytes = 0
    largest = largest_offset = NO_TIMESTAMP
    for batch in batches:
        size_bytes += batch.size_bytes
        if batch.max_timestamp > largest:
            largest, largest_offset = batch.max_timestamp, batch.last_offset
    return [AppendedRun(size_bytes, batches[-1].last_offset, largest, largest_offset)]
