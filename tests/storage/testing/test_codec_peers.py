"""The oracle and two clients that others wrote, kafka-python and aiokafka, read what each other write."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import aiokafka.record.default_records as aiokafka_default
import aiokafka.record.legacy_records as aiokafka_legacy
import aiokafka.record.memory_records as aiokafka_memory
import pytest
from hypothesis import given, settings

from storage.testing import strategies
from storage.testing.codec import (
    CODECS,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    OracleBatch,
    OracleEntry,
    OracleRecord,
    decode_batches,
    encode_batch,
    encode_entry,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importing kafka-python calls what Python has deprecated
    import kafka.record.default_records as kafka_python_default
    import kafka.record.legacy_records as kafka_python_legacy
    import kafka.record.memory_records as kafka_python_memory

if TYPE_CHECKING:
    from types import ModuleType

pytestmark = pytest.mark.property
deterministic = settings(derandomize=True, deadline=None, max_examples=50)

BATCH_BYTES_MAX = 1 << 24

MEMORY = {"kafka-python": kafka_python_memory, "aiokafka": aiokafka_memory}
DEFAULT = {"kafka-python": kafka_python_default, "aiokafka": aiokafka_default}
LEGACY = {"kafka-python": kafka_python_legacy, "aiokafka": aiokafka_legacy}
PEERS = sorted(MEMORY)

LEGACY_CASES = [
    (peer, magic, codec)
    for peer, magic, codec in product(PEERS, (0, 1), (NONE, GZIP, SNAPPY, LZ4))
    if (peer, magic, codec) != ("aiokafka", 0, LZ4)  # which aiokafka refuses
]

usual = strategies.usual_timestamps
# aiokafka's builder takes a first timestamp of -1 for none seen yet, and counts later deltas from another base.
written_by_peers = usual.filter(lambda timestamp: timestamp != -1)


def seen_by(memory: ModuleType, data: bytes) -> list[Any]:
    """The peer's batches, each found to have a valid checksum."""
    records = memory.MemoryRecords(data)
    batches = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        batches.append(batch)
    return batches


def as_peers_see(record: Any) -> OracleRecord:
    """A peer's record as ours; neither knows of a record's sequence."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    headers = tuple((key, value) for key, value in record.headers)
    return OracleRecord(record.offset, timestamp, record.key, record.value, headers)


def built(builder: Any, records: tuple[OracleRecord, ...], *, with_headers: bool) -> bytes:
    """What the peer's builder makes of the records at offsets 0, 1, 2, …"""
    for offset, record in enumerate(records):
        headers = [list(record.headers)] if with_headers else []
        assert builder.append(offset, record.timestamp, record.key, record.value, *headers) is not None
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("peer", PEERS)
def test_peers_read_our_batches(peer: str, codec: int) -> None:
    @deterministic
    @given(strategies.batches(timestamps=usual, codecs=[codec]))
    def check(batch: OracleBatch) -> None:
        (seen,) = seen_by(MEMORY[peer], encode_batch(batch))
        assert [as_peers_see(record) for record in seen] == [replace(record, sequence=-1) for record in batch.records]
        assert seen.base_offset == batch.base_offset
        assert seen.next_offset == batch.last_offset + 1
        assert (seen.producer_id, seen.producer_epoch, seen.base_sequence) == (
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )
        assert (seen.is_transactional, seen.is_control_batch) == (batch.is_transactional, batch.is_control)
        assert (seen.first_timestamp, seen.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)

    check()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("peer", PEERS)
def test_we_read_peers_batches(peer: str, codec: int) -> None:
    @deterministic
    @given(strategies.records(timestamps=written_by_peers))
    def check(records: tuple[OracleRecord, ...]) -> None:
        builder = DEFAULT[peer].DefaultRecordBatchBuilder(2, codec, 1, 9, 2, 40, BATCH_BYTES_MAX)
        (batch,) = decode_batches(built(builder, records, with_headers=True))
        assert isinstance(batch, OracleBatch)
        assert batch.records == tuple(
            replace(record, offset=offset, sequence=40 + offset) for offset, record in enumerate(records)
        )
        assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (9, 2, True)
        assert batch.max_timestamp == max(record.timestamp for record in records)
        assert batch.codec in {codec, NONE}  # both leave alone what compression would not shrink

    check()


@pytest.mark.parametrize(("peer", "magic", "codec"), LEGACY_CASES)
def test_peers_read_our_message_sets(peer: str, magic: int, codec: int) -> None:
    @deterministic
    @given(strategies.entries(timestamps=usual, magics=[magic], codecs=[codec], mixed_magics=False))
    def check(entry: OracleEntry) -> None:
        (seen,) = seen_by(MEMORY[peer], encode_entry(entry))
        assert [as_peers_see(record) for record in seen] == list(entry.records)

    check()


@pytest.mark.parametrize(("peer", "magic", "codec"), LEGACY_CASES)
def test_we_read_peers_message_sets(peer: str, magic: int, codec: int) -> None:
    @deterministic
    @given(strategies.records(timestamps=usual, with_headers=False))
    def check(records: tuple[OracleRecord, ...]) -> None:
        builder = LEGACY[peer].LegacyRecordBatchBuilder(magic, codec, BATCH_BYTES_MAX)
        entries = decode_batches(built(builder, records, with_headers=False))
        assert [record for entry in entries for record in entry.records] == [
            replace(record, offset=offset, timestamp=record.timestamp if magic > 0 else -1)
            for offset, record in enumerate(records)
        ]

    check()
