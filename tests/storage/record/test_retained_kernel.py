"""The records that a cleaner keeps, beside the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, MalformedRecordsError
from storage.record import RecordBatch, read_batches, retaining
from storage.record.kernel.offset_map import SLOT_BYTES, OffsetMap
from storage.record.kernel.retained import select_retained_records
from storage.testing import strategies
from storage.testing.codec import (
    OracleBatch,
    OracleRecord,
    batch_of,
    decode_batch,
    encode_batch,
    encode_records,
    seal_batch,
)

SEED = bytes(16)


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


def mapped(known: dict[bytes, int], end: int) -> OffsetMap:
    offsets = OffsetMap((len(known) + 2) * SLOT_BYTES, 1.0, SEED)
    for key, offset in known.items():
        assert offsets.add(key, offset)
    offsets.advance(end)
    return offsets


@given(
    batch=strategies.data_batches(base_offsets=st.integers(0, 50)),
    known=st.dictionaries(strategies.small_bytes, st.integers(0, 60), max_size=6),
    end=st.integers(-1, 60),
    keeps=st.booleans(),
    horizon=st.one_of(st.none(), strategies.usual_timestamps.filter(lambda ms: ms >= 0)),
)
def test_it_keeps_what_the_oracle_keeps(
    batch: OracleBatch, known: dict[bytes, int], end: int, keeps: bool, horizon: int | None
) -> None:
    """And what `retaining` makes of it is the batch with these records."""
    stored = read(encode_batch(batch))
    records_data = encode_records(batch) if batch.codec else None
    found = select_retained_records(stored, records_data, mapped(known, end), keep_tombstones=keeps)
    counts = {"keyless": 0, "superseded": 0, "expired": 0}
    kept = []
    for record in batch.records:
        if record.offset > end:
            kept.append(record)
        elif record.key is None:
            counts["keyless"] += 1
        elif record.offset < known.get(record.key, -1):
            counts["superseded"] += 1
        elif record.value is None and not keeps:
            counts["expired"] += 1
        else:
            kept.append(record)
    assert {name: getattr(found, name) for name in counts} == counts
    assert (found.read, found.kept) == (len(batch.records), len(kept))
    assert found.tombstones == sum(record.value is None for record in kept)
    made = decode_batch(retaining(stored, found, delete_horizon_ms=horizon))
    assert isinstance(made, OracleBatch)
    assert made.records == tuple(kept)
    assert made == decode_batch(retaining(stored, kept_records(stored, kept), delete_horizon_ms=horizon))
    if kept and not batch.is_log_append_time:
        assert (found.first_timestamp, found.max_timestamp) == (
            kept[0].timestamp,
            max(-1, *(record.timestamp for record in kept)),
        )


def kept_records(batch: RecordBatch, kept: list[OracleRecord]) -> list[object]:
    offsets = {record.offset for record in kept}
    return [record for record in batch.records() if record.offset in offsets]


@given(batch=strategies.data_batches())
def test_without_a_map_all_is_kept(batch: OracleBatch) -> None:
    stored = read(encode_batch(batch))
    found = select_retained_records(stored, encode_records(batch), None, keep_tombstones=False)
    assert found.kept == found.read == len(batch.records)
    if not batch.is_log_append_time:
        assert bytes(found.records_data(batch.base_timestamp)) == encode_records(batch)


def test_records_stay_as_they_are_where_their_timestamps_do() -> None:
    """A varint that is longer than it has to be shows it."""
    records_data = bytes([14, 0, 0, 0x80, 0, 2, ord("k"), 1, 0])
    records_data = bytes([2 * (len(records_data) - 1)]) + records_data[1:]
    batch = read(seal_batch(replace(batch_of([OracleRecord(0, 0, b"k")]), base_timestamp=0), records_data))
    found = select_retained_records(batch, None, None, keep_tombstones=True)
    assert bytes(found.records_data(0)) == records_data
    assert bytes(found.records_data(1)) != records_data


def test_of_an_empty_batch_nothing_is_looked_at() -> None:
    batch = read(seal_batch(replace(batch_of([], base_offset=3), last_offset_delta=4), b"anything"))
    found = select_retained_records(batch, None, mapped({}, 100), keep_tombstones=True)
    assert (found.read, found.kept) == (0, 0)
    assert bytes(found.records_data(0)) == b""


@given(data=strategies.batches_with_damaged_records())
def test_damage_is_an_error_and_nothing_else(data: bytes) -> None:
    for batch in read_batches(data):
        if isinstance(batch, RecordBatch):
            offsets = mapped({b"a": 5}, 2**62)
            try:
                records_data = batch.records_data() if batch.codec and batch.count else None
                found = select_retained_records(batch, records_data, offsets, keep_tombstones=False)
                offsets.fill(batch, records_data, 0)
            except CorruptBatchError:
                continue
            records = list(batch.records())
            assert found.read == len(records)
            assert all(batch.base_offset <= record.offset <= batch.last_offset for record in records)


BATCH = batch_of([OracleRecord(5, 0, b"k", b"v"), OracleRecord(6, 0, b"l", None)])


@pytest.mark.parametrize(
    "data",
    [
        seal_batch(BATCH, encode_records(BATCH)[:-1]),
        seal_batch(BATCH, encode_records(BATCH) + b"x"),
        seal_batch(replace(BATCH, record_count=-1), encode_records(BATCH)),
        encode_batch(batch_of([OracleRecord(4, 0, b"k")], base_offset=5)),
        encode_batch(replace(BATCH, last_offset_delta=0)),
    ],
)
def test_records_that_are_not_the_batchs_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecordsError, match="within its offsets"):
        select_retained_records(read(data), None, None, keep_tombstones=True)
