"""Sealing and placing: golden vectors, what two other clients read, and every field's bounds."""

from __future__ import annotations

import struct
import warnings
from typing import TYPE_CHECKING, Any

import aiokafka.record.memory_records as aiokafka_memory
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidRecordError
from storage.record import RecordBatch, read_batches
from storage.record.kernel.encode import encode_rows
from storage.record.kernel.lines import encode_lines
from storage.record.kernel.records_data import RecordsData, patch_offset, seal
from storage.testing import strategies
from storage.testing.codec import encode_batch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importing kafka-python calls what Python has deprecated
    import kafka.record.memory_records as kafka_python_memory

if TYPE_CHECKING:
    from types import ModuleType

    from storage.record.encoding import Row
    from storage.testing.codec import OracleBatch

T = 1_700_000_000_000

TWO_RECORDS = bytes.fromhex(
    "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000210000000026b02760018000a02046b32010202680278"
)
COMMIT = bytes.fromhex(
    "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe568000000000000000009"
    "0002ffffffff000000012000000008000000010c00000000000300"
)

NO_FIELDS: dict[str, int] = {
    "base_offset": 0,
    "leader_epoch": 0,
    "attributes": 0,
    "last_offset_delta": 0,
    "base_timestamp": -1,
    "max_timestamp": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "count": 0,
}


def fields_of(records_data: RecordsData) -> dict[str, int]:
    """Those fields of a plain batch at offset 0 that follow from its records."""
    return NO_FIELDS | {
        "last_offset_delta": records_data.count - 1,
        "base_timestamp": records_data.base_timestamp,
        "max_timestamp": records_data.max_timestamp,
        "count": records_data.count,
    }


def test_golden_data_batch() -> None:
    rows: list[Row] = [(T, b"k", b"v", ()), (T + 5, b"k2", None, [("h", b"x")])]
    records_data = encode_rows(rows, max_bytes=len(TWO_RECORDS))
    assert seal(records_data, **fields_of(records_data)) == TWO_RECORDS
    assert encode_rows(rows, max_bytes=len(TWO_RECORDS) - 1).count == 1


def test_golden_commit_marker() -> None:
    records_data = encode_rows([(T, bytes.fromhex("00000001"), bytes.fromhex("000000000003"), ())], max_bytes=1000)
    marker = {"base_offset": 7, "attributes": 0x30, "producer_id": 9, "producer_epoch": 2}
    assert seal(records_data, **fields_of(records_data) | marker) == COMMIT


@pytest.mark.golden
@pytest.mark.property
@pytest.mark.parametrize("memory", [aiokafka_memory, kafka_python_memory], ids=["aiokafka", "kafka-python"])
def test_other_clients_read_the_same(memory: ModuleType) -> None:
    @given(
        st.lists(
            st.tuples(strategies.usual_timestamps, strategies.keys, strategies.values, strategies.headers), min_size=1
        )
    )
    def check(rows: list[Row]) -> None:
        records_data = encode_rows(rows, max_bytes=1 << 20)
        batch = memory.MemoryRecords(
            seal(records_data, **fields_of(records_data) | {"base_offset": 2**40})
        ).next_batch()
        assert batch.validate_crc()
        seen = [
            (
                record.offset,
                -1 if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
                tuple(map(tuple, record.headers)),
            )
            for record in batch
        ]
        assert seen == [
            (2**40 + index, timestamp, key, value, tuple(headers))
            for index, (timestamp, key, value, headers) in enumerate(rows)
        ]

    check()


@pytest.mark.property
@given(strategies.batches())
def test_any_section_is_sealed_as_the_oracle_does(batch: OracleBatch) -> None:
    whole = encode_batch(batch)
    for records_data in (whole[61:], bytearray(whole[61:]), memoryview(whole)[61:]):
        assert whole == seal(
            records_data,
            base_offset=batch.base_offset,
            leader_epoch=batch.partition_leader_epoch,
            attributes=batch.attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=batch.base_timestamp,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            count=batch.record_count,
        )


@pytest.mark.parametrize("size_bytes", [0, 10, 40_000, 3_000_000])
def test_a_section_stays_what_it_is_however_often_it_is_sealed(size_bytes: int) -> None:
    records_data = encode_lines(b"line\n" * (size_bytes // 5), timestamp=T, max_bytes=1 << 30)
    view, before = memoryview(records_data), bytes(records_data)
    fields = NO_FIELDS | {"count": records_data.count}
    first = seal(records_data, **fields)
    second = seal(records_data, **fields | {"base_offset": 5, "attributes": 8})
    third = seal(records_data, **fields)
    assert view == before == bytes(records_data) == first[61:] == second[61:]
    assert first == third
    for batch, base_offset in ((first, 0), (second, 5)):
        (frame,) = read_batches(batch)
        assert isinstance(frame, RecordBatch)
        assert (frame.base_offset, frame.crc_matches) == (base_offset, True)
        assert sum(1 for _ in frame.records()) == records_data.count
    assert hash(first) == hash(bytes(bytearray(first)))


def test_a_section_cannot_be_changed() -> None:
    records_data = encode_lines(b"a\nb\n", timestamp=T, max_bytes=1000)
    view = memoryview(records_data)
    assert view.readonly
    with pytest.raises(AttributeError):
        records_data.count = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        view[0] = 1
    assert bytes(RecordsData()) == b""


def test_a_batch_without_records_is_its_header() -> None:
    batch = seal(b"", **NO_FIELDS | {"last_offset_delta": 41, "producer_id": 9})
    assert len(batch) == 61
    assert batch == seal(RecordsData(), **NO_FIELDS | {"last_offset_delta": 41, "producer_id": 9})
    (frame,) = read_batches(batch)
    assert isinstance(frame, RecordBatch)
    assert frame.crc_matches
    assert (frame.last_offset, frame.count, list(frame.records())) == (41, 0, [])


BOUNDS = {
    "base_offset": (0, 2**63 - 1),
    "leader_epoch": (-(2**31), 2**31 - 1),
    "attributes": (-(2**15), 2**15 - 1),
    "last_offset_delta": (0, 2**31 - 1),
    "base_timestamp": (-(2**63), 2**63 - 1),
    "max_timestamp": (-(2**63), 2**63 - 1),
    "producer_id": (-(2**63), 2**63 - 1),
    "producer_epoch": (-(2**15), 2**15 - 1),
    "base_sequence": (-(2**31), 2**31 - 1),
    "count": (0, 2**31 - 1),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_fields_fill_their_width_and_no_more(name: str) -> None:
    smallest, largest = BOUNDS[name]
    for value in (smallest, largest):
        (frame,) = read_batches(seal(b"", **NO_FIELDS | {name: value}))
        assert getattr(frame, name) == value
        assert frame.crc_matches
    records_data = encode_lines(b"a\n", timestamp=T, max_bytes=1000)
    wrong: list[Any] = [smallest - 1, largest + 1, 10**5000, -(10**5000), None, 1.0, "1"]
    for value in wrong:
        with pytest.raises(InvalidRecordError, match=name):
            seal(records_data, **NO_FIELDS | {name: value})
    assert seal(records_data, **NO_FIELDS) == seal(bytes(records_data), **NO_FIELDS)


def test_what_is_no_section() -> None:
    wrong: list[Any] = [None, "text", 5, memoryview(b"abcd")[::2]]
    for records_data in wrong:
        with pytest.raises((TypeError, BufferError)):
            seal(records_data, **NO_FIELDS)


def test_placing_changes_the_place_alone() -> None:
    target = bytearray(TWO_RECORDS + b"after")
    patch_offset(target, 2**63 - 2, 77)
    placed = struct.pack(">q", 2**63 - 2) + TWO_RECORDS[8:12] + struct.pack(">i", 77) + TWO_RECORDS[16:]
    assert target == placed + b"after"
    (frame,) = read_batches(target, end=len(placed))
    assert isinstance(frame, RecordBatch)
    assert (frame.base_offset, frame.leader_epoch, frame.crc_matches) == (2**63 - 2, 77, True)


@pytest.mark.parametrize(("base_offset", "leader_epoch"), [(-1, 0), (2**63, 0), (0, 2**31), (0, None)])
def test_placing_what_is_not_there_changes_nothing(base_offset: int, leader_epoch: Any) -> None:
    target = bytearray(TWO_RECORDS)
    with pytest.raises(InvalidRecordError):
        patch_offset(target, base_offset, leader_epoch)
    assert target == TWO_RECORDS
    target[16] = 1
    for none in (target, TWO_RECORDS[1:], TWO_RECORDS[:60], b""):
        with pytest.raises(InvalidRecordError, match="no v2 batch begins there"):
            patch_offset(bytearray(none), 0, 0)


def test_placing_needs_memory_that_can_be_written() -> None:
    for target in (TWO_RECORDS, memoryview(TWO_RECORDS), memoryview(bytearray(TWO_RECORDS * 2))[::2]):
        with pytest.raises(BufferError):
            patch_offset(target, 0, 0)
