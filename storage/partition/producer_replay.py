"""What producers did in the part of a log that no snapshot covers, found by reading it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.record.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.partition.producers import ProducerStates
    from storage.segment.segment import Segment


def replay(producers: ProducerStates, segments: Sequence[Segment], end_offset: int) -> None:
    """Bring the producers from where they are known to the log's end; the segments are all of the log's, in order.

    Batches of old versions say nothing of producers. Nothing is written, transaction indexes included.
    """
    for segment, following in zip(segments, (*segments[1:], None), strict=True):
        if following is not None and following.base_offset <= producers.end_offset:
            continue
        start = segment.locate(producers.end_offset)
        if start is None:
            continue
        for batch in segment.batches(start):
            if isinstance(batch, RecordBatch) and batch.base_offset >= producers.end_offset:
                producers.apply(batch)
    producers.advance(end_offset)
