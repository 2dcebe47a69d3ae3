"""The lines of runs of batches as JSON, counted at once, against those of each batch and the runs of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.record import RecordBatch, envelope_lines, envelope_run_size, read_batches, run_lines
from storage.testing.codec import LOG_APPEND_TIME, OracleRecord, batch_of, encode_batch
from storage.testing.strategies import encoded, logs

if TYPE_CHECKING:
    from storage.testing.codec import OracleBatch, OracleEntry

BEGINNING = b'{"topic":"orders","partition":3,'
FAR = 2**63 - 1


def read(data: bytes, at: int = 0) -> RecordBatch:
    batch = next(read_batches(data, start=at, origin=0))
    assert isinstance(batch, RecordBatch)
    return batch


def lines_of(data: bytes, start: int, end: int) -> bytes:
    batches = read_batches(data, start=start, end=end)
    shown = (batch for batch in batches if isinstance(batch, RecordBatch) and not batch.is_control)
    return b"".join(envelope_lines(batch, batch.records_data(), BEGINNING) for batch in shown)


@pytest.mark.property
@given(logs(), st.booleans(), st.integers(0, 3), st.sampled_from([FAR, 0, 1000, 2**31]))
def test_a_run_goes_as_far_as_one_of_values(
    units: tuple[OracleBatch | OracleEntry, ...], with_transactions: bool, cut: int, end_offset: int
) -> None:
    data = b"".join(encoded(unit) for unit in units)
    end, at = len(data) - cut, 0
    while at < end:
        first = next(read_batches(data, start=at, origin=0), None)
        if not isinstance(first, RecordBatch):
            break
        passed, last_at, _ = run_lines(first, end, end_offset, with_transactions)
        found = envelope_run_size(first, end, end_offset, with_transactions, BEGINNING)
        assert found == (passed, last_at, len(lines_of(data, at, at + passed)))
        at += passed or first.size_bytes


@pytest.mark.parametrize("attributes", [0, LOG_APPEND_TIME])
def test_a_run_ends_before_what_is_damaged(attributes: int) -> None:
    records = [OracleRecord(9, 10**15, b"k", b"one\n", (("h", b"\xff"),)), OracleRecord(10, 6, None, None)]
    good = encode_batch(batch_of(records, attributes=attributes))
    for position in (8, 16, 17, 30, 57, 63, len(good) - 1):
        bad = bytearray(good)
        bad[position] ^= 0x41
        data = good + good + bytes(bad) + good
        size = len(lines_of(data, 0, 2 * len(good)))
        assert envelope_run_size(read(data), FAR, FAR, True, BEGINNING) == (2 * len(good), len(good), size)


def test_a_run_ends_with_the_lines_that_it_may_have() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v" * 500)]))
    data, size = good * 9, len(lines_of(good, 0, len(good)))
    for count in (1, 2, 9):
        found = envelope_run_size(read(data), FAR, FAR, True, BEGINNING, line_bytes_max=(count - 1) * size + 1)
        assert found == (count * len(good), (count - 1) * len(good), count * size)
    assert envelope_run_size(read(data), len(good) - 1, FAR, True, BEGINNING) == (0, 0, 0)
