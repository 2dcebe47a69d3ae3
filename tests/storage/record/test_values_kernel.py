"""Values as lines, counted and written, against the records themselves and the plain-Python codec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, MalformedRecordsError
from storage.record import Codec, RecordBatch, read_batches
from storage.record.kernel.values import batch_lines, batch_lines_size, run_lines, run_size
from storage.testing.codec import OracleBatch, OracleEntry, OracleRecord, batch_of, encode_batch
from storage.testing.strategies import batches_with_damaged_records, data_batches, encoded, logs

FAR = 2**62
TRANSACTIONAL, CONTROL = 16, 32


def lines_of(batch: OracleBatch) -> bytes:
    return b"".join((record.value or b"") + b"\n" for record in batch.records)


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


@pytest.mark.property
@given(data_batches())
def test_a_section_gives_its_values(oracle: OracleBatch) -> None:
    batch = read(encode_batch(oracle))
    records_data = batch.records_data()
    assert batch_lines(batch, records_data) == lines_of(oracle)
    assert batch_lines_size(batch, records_data) == len(lines_of(oracle))


@pytest.mark.property
@given(batches_with_damaged_records())
def test_damaged_records_are_an_error_exactly_where_they_do_not_parse(data: bytes) -> None:
    try:
        batch = read(data)
        records_data = batch.records_data()
        expected = b"".join((record.value or b"") + b"\n" for record in batch.records())
    except (CorruptBatchError, StopIteration) as error:
        if isinstance(error, MalformedRecordsError):
            for look in (batch_lines, batch_lines_size):
                with pytest.raises(MalformedRecordsError) as raised:
                    look(batch, records_data)
                assert raised.value.position == batch.position
        return
    assert batch_lines(batch, records_data) == expected
    assert batch_lines_size(batch, records_data) == len(expected)


@pytest.mark.property
@given(logs(), st.booleans(), st.integers(0, 3), st.sampled_from([FAR, 0, 1000, 2**31]))
def test_a_run_goes_as_far_as_nothing_needs_a_closer_look(
    units: tuple[OracleBatch | OracleEntry, ...], with_transactions: bool, cut: int, end_offset: int
) -> None:
    data = b"".join(encoded(unit) for unit in units)
    end = len(data) - cut
    at = 0
    while at < end:
        first = next(read_batches(data, start=at, origin=0), None)
        if not isinstance(first, RecordBatch):
            break
        passed, last_at, lines = run_lines(first, end, end_offset, with_transactions)
        assert run_size(first, end, end_offset, with_transactions) == (passed, last_at, len(lines))
        expected, reached, last = b"", at, at
        for batch in read_batches(data, start=at, end=end):
            if (
                not isinstance(batch, RecordBatch)
                or batch.codec is not Codec.NONE
                or batch.base_offset >= end_offset
                or (batch.is_transactional and not with_transactions)
            ):
                break
            if not batch.is_control:
                expected += b"".join((record.value or b"") + b"\n" for record in batch.records())
            last, reached = batch.position, batch.position + batch.size_bytes
        assert (passed, last_at, lines) == (reached - at, last - at, expected)
        at += passed or first.size_bytes


def test_a_run_ends_before_what_is_damaged() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"one"), OracleRecord(1, 6, None, None)]))
    for position in (8, 16, 17, 30, 57, 63, len(good) - 1):
        bad = bytearray(good)
        bad[position] ^= 0x41
        data = good + good + bytes(bad) + good
        assert run_lines(read(data), FAR, FAR, True) == (2 * len(good), len(good), b"one\n\none\n\n")
        assert run_size(read(data), FAR, FAR, True) == (2 * len(good), len(good), 10)


def test_a_run_ends_with_the_memory_and_at_the_position() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v" * 500)]))
    assert run_size(read(good + good[:-1]), FAR, FAR, True)[0] == len(good)
    assert run_size(read(good + good), 2 * len(good) - 1, FAR, True)[0] == len(good)
    assert run_lines(read(good), len(good) - 1, FAR, True) == (0, 0, b"")
    assert run_lines(read(good), 0, FAR, True) == (0, 0, b"")


@pytest.mark.parametrize("change", [-3, -1, 1, 2**31 - 2])
def test_a_count_that_is_not_the_records_is_damage(change: int) -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v"), OracleRecord(1, 6, None, b"v")])))
    data[57:61] = (2 + change & 0xFFFFFFFF).to_bytes(4, "big")
    batch = read(bytes(data))
    assert run_lines(batch, FAR, FAR, True)[0] == 0
    for look in (batch_lines, batch_lines_size):
        with pytest.raises(MalformedRecordsError, match="does not hold exactly"):
            look(batch, batch.records_data())


def test_of_a_batch_that_declares_no_records_nothing_is_looked_at() -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v")])))
    data[57:61] = bytes(4)
    batch = read(bytes(data))
    assert batch_lines(batch, b"anything") == b""
    assert batch_lines_size(batch, b"anything") == 0
