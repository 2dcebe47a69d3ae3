"""The kernel and the plain-Python codec read every log that a broker can write alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from storage.record import LegacyBatch, RecordBatch, TimestampType, read_batches
from storage.testing import strategies
from storage.testing.codec import OracleBatch, OracleEntry, OracleRecord, decode_batches

if TYPE_CHECKING:
    from storage.record import Batch, Record

pytestmark = pytest.mark.property


def as_oracle(record: Record) -> OracleRecord:
    return OracleRecord(record.offset, record.timestamp, record.key, record.value, record.headers, record.sequence)


def assert_same(batch: Batch, oracle: OracleBatch | OracleEntry) -> None:
    assert batch.magic == oracle.magic
    assert batch.size_bytes == oracle.size_bytes
    assert batch.crc == oracle.crc
    assert batch.crc_matches
    assert batch.codec == oracle.codec
    assert batch.last_offset == oracle.last_offset
    assert batch.max_timestamp == oracle.max_timestamp
    assert (batch.timestamp_type is TimestampType.LOG_APPEND_TIME) == oracle.is_log_append_time
    assert [as_oracle(record) for record in batch.records()] == list(oracle.records)
    if isinstance(oracle, OracleBatch):
        assert isinstance(batch, RecordBatch)
        assert_same_header(batch, oracle)
    else:
        assert isinstance(batch, LegacyBatch)
        assert all(entry.crc_matches for entry in batch.entries())


def assert_same_header(batch: RecordBatch, oracle: OracleBatch) -> None:
    assert batch.base_offset == oracle.base_offset
    assert batch.leader_epoch == oracle.partition_leader_epoch
    assert batch.attributes == oracle.attributes
    assert batch.last_offset_delta == oracle.last_offset_delta
    assert batch.base_timestamp == oracle.base_timestamp
    assert batch.producer_id == oracle.producer_id
    assert batch.producer_epoch == oracle.producer_epoch
    assert batch.base_sequence == oracle.base_sequence
    assert batch.last_sequence == oracle.last_sequence
    assert batch.count == oracle.record_count
    assert batch.is_transactional == oracle.is_transactional
    assert batch.is_control == oracle.is_control
    assert batch.delete_horizon_ms == oracle.delete_horizon_ms


@given(strategies.logs())
def test_whole_logs(units: tuple[OracleBatch | OracleEntry, ...]) -> None:
    log = b"".join(strategies.encoded(unit) for unit in units)
    walk = read_batches(log, origin=1000)
    batches = list(walk)
    assert walk.position == 1000 + len(log)
    assert walk.missing_bytes == 0
    assert len(batches) == len(units)
    for batch, oracle in zip(batches, decode_batches(log), strict=True):
        assert_same(batch, oracle)


@given(strategies.logs())
def test_records_outlive_everything(units: tuple[OracleBatch | OracleEntry, ...]) -> None:
    records = [
        record
        for batch in read_batches(bytearray(b"".join(strategies.encoded(unit) for unit in units)))
        for record in batch.records()
    ]
    assert [as_oracle(record) for record in records] == [record for unit in units for record in unit.records]
