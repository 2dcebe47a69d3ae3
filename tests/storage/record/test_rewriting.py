"""Batches made from batches: what stays and what changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress as choose

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from storage.errors import InvalidRecordError
from storage.record import Codec, RecordBatch, read_batches
from storage.record.rewriting import assign_offset, recompressed, retaining
from storage.testing import strategies
from storage.testing.codec import CODEC_MASK, DELETE_HORIZON, OracleBatch, decode_batches, encode_batch

pytestmark = pytest.mark.property


def parsed(data: bytes) -> RecordBatch:
    (batch,) = read_batches(data)
    assert isinstance(batch, RecordBatch)
    return batch


def oracle_of(data: bytes) -> OracleBatch:
    (batch,) = decode_batches(data)
    assert isinstance(batch, OracleBatch)
    return batch


@given(strategies.batches(), st.integers(0, 2**62), st.integers(-1, 2**31 - 1))
def test_placing_changes_two_fields_and_not_the_checksum(batch: OracleBatch, offset: int, epoch: int) -> None:
    data = bytearray(b"before" + encode_batch(batch) + b"behind")
    assign_offset(memoryview(data)[6:-6], base_offset=offset, leader_epoch=epoch)
    assert (data[:6], data[-6:]) == (b"before", b"behind")
    placed = oracle_of(bytes(data[6:-6]))
    assert (placed.base_offset, placed.partition_leader_epoch) == (offset, epoch)
    moved = tuple(replace(r, offset=r.offset - batch.base_offset + offset) for r in batch.records)
    assert placed == replace(batch, base_offset=offset, partition_leader_epoch=epoch, records=moved)


@pytest.mark.parametrize("size_bytes", [0, 60, 100])
def test_only_a_batch_can_be_given_an_offset(size_bytes: int) -> None:
    with pytest.raises(InvalidRecordError):
        assign_offset(bytearray(size_bytes), base_offset=0, leader_epoch=0)


@given(strategies.data_batches(), st.sampled_from(list(Codec)))
def test_another_codec_changes_nothing_else(batch: OracleBatch, codec: Codec) -> None:
    again = oracle_of(recompressed(parsed(encode_batch(batch)), codec))
    assert again == replace(batch, attributes=batch.attributes & ~CODEC_MASK | codec)


@given(strategies.data_batches(), st.lists(st.booleans(), min_size=10, max_size=10), st.none() | st.integers(0, 2**60))
def test_survivors_keep_their_places(batch: OracleBatch, chosen: list[bool], horizon: int | None) -> None:
    select_retained_records = tuple(choose(batch.records, chosen))
    assume(select_retained_records)
    original = parsed(encode_batch(batch))
    left = oracle_of(retaining(original, list(choose(original.records(), chosen)), delete_horizon_ms=horizon))
    assert left.records == select_retained_records
    set_horizon = original.delete_horizon_ms if horizon is None else horizon
    kept = max(record.timestamp for record in select_retained_records)
    assert left == replace(
        batch,
        attributes=batch.attributes | (0 if set_horizon is None else DELETE_HORIZON),
        base_timestamp=select_retained_records[0].timestamp if set_horizon is None else set_horizon,
        max_timestamp=batch.max_timestamp if batch.is_log_append_time else kept,
        record_count=len(select_retained_records),
        records=select_retained_records,
    )


@given(strategies.batches())
def test_an_emptied_batch_keeps_its_extent(batch: OracleBatch) -> None:
    data = retaining(parsed(encode_batch(batch)), [])
    assert len(data) == 61
    assert oracle_of(data) == replace(
        batch,
        attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp=-1,
        record_count=0,
        records=(),
    )
