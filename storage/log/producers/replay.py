"""Replaying the batches of a log that no snapshot covers, to know its producers."""

from __future__ import annotations

from bisect import bisect_right
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log.producers.producers import ProducerStates
    from storage.log.producers.transactions import CompletedTransaction
    from storage.segment.segment import Segment


def replay(producers: ProducerStates, segments: Sequence[Segment], end_offset: int) -> list[CompletedTransaction]:
    """Apply the batches from `producers.end_offset` to the log's end; `segments` are all of the log's, in order.

    Batches of old versions have no producers. Returns the transactions that end; nothing is written, transaction
    indexes included. After an error the producers are known up to the batch before it.
    """
    ended = []
    first = max(bisect_right(segments, producers.end_offset, key=lambda segment: segment.base_offset) - 1, 0)
    for segment, following in zip_longest(segments[first:], segments[first + 1 :]):
        if following is not None and following.base_offset <= producers.end_offset:
            continue
        start = segment.locate(producers.end_offset)
        for batch in () if start is None else segment.batches(start):
            if batch.last_offset >= end_offset:
                break
            if batch.base_offset >= producers.end_offset:
                producers.reserve_memory()
                transaction = producers.apply(batch)
                if transaction is not None:
                    ended.append(transaction)
        else:
            segment.check_end()
    producers.set_end_offset(end_offset)
    return ended
