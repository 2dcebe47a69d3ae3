"""Which index entries may be of a log that was truncated, by the leader epochs of its batches."""

from __future__ import annotations

import pytest

from storage.record import read_batches
from storage.segment.truncation import EarliestTruncation
from storage.testing.codec import OracleRecord, batch_of, encode_batch

SIZE = 100


def truncation_of(epochs: list[int], *, begins_epoch: bool = False) -> EarliestTruncation:
    """That of a segment from offset 50 on whose batches of one record have these epochs."""
    truncation = EarliestTruncation(50, begins_epoch=begins_epoch)
    position = 0
    for at, epoch in enumerate(epochs):
        data = encode_batch(batch_of([OracleRecord(50 + at, 1000 + at)], partition_leader_epoch=epoch))
        (batch,) = read_batches(data, origin=position)
        truncation.add(batch, batch.base_offset)
        position += len(data)
    return truncation


def size_of_batch() -> int:
    return len(encode_batch(batch_of([OracleRecord(50, 1000)])))


@pytest.mark.parametrize(
    ("epochs", "first"),
    [
        ([3, 3, 3, 3], None),
        ([3, 3, 4, 4], 2),
        ([3, 3, 4, 5], 2),
        ([3, 3, 5, 5], 0),  # the records of the leader with epoch 4 may all be gone
        ([3, 4, 4, 7], 1),
        ([4, 4, 3, 3], 0),
        ([-1, -1, -1, -1], 0),
        ([3, 3, -1, -1], 2),
    ],
)
def test_the_log_may_have_been_truncated_where_a_leader_began(epochs: list[int], first: int | None) -> None:
    truncation, size = truncation_of(epochs), size_of_batch()
    if first is None:
        assert not truncation.explains(2**40, position=2**30)
        first = len(epochs)
        truncation.end(50 + first, first * size)
    assert truncation.explains(50 + first, position=first * size)
    assert truncation.explains(50 + first, timestamp=1000 + first)
    assert not truncation.explains(49 + first, position=first * size)
    assert not truncation.explains(50 + first, position=first * size - 1)
    if first:
        assert not truncation.explains(50 + first, timestamp=998 + first)


def test_a_segment_that_begins_an_epoch_and_one_with_damage_may_have_been_truncated_anywhere() -> None:
    assert truncation_of([3, 3], begins_epoch=True).explains(50, position=0)
    damaged = truncation_of([3, 3])
    damaged.lose()
    assert damaged.explains(50, position=0)
