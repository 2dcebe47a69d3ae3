"""Values and keys as lines, counted and written, against the records themselves and the plain-Python codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, DecompressionError
from storage.record import Codec, RecordBatch, read_batches
from storage.record.compression import decompressors
from storage.record.kernel.crc32c import crc32c
from storage.record.kernel.values import run_lines
from storage.testing.codec import OracleBatch, OracleEntry, OracleRecord, batch_of, encode_batch
from storage.testing.strategies import batches_with_damaged_records, data_batches, encoded, logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.record import Record

FAR = 2**63 - 1
TRANSACTIONAL, CONTROL = 16, 32
DECOMPRESSORS = decompressors()


def lines_of(records: Iterable[OracleRecord | Record], *, of_keys: bool = False) -> bytes:
    return b"".join(((record.key if of_keys else record.value) or b"") + b"\n" for record in records)


def read(data: bytes) -> RecordBatch:
    batch = next(read_batches(data))
    assert isinstance(batch, RecordBatch)
    return batch


def run_of(batch: RecordBatch, *, of_keys: bool = False) -> tuple[int, bytes]:
    """Return the bytes of the log that a run of the batch passes, and its lines, which are counted too."""
    log_bytes, last_at, lines = run_lines(batch, FAR, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS)
    counted = run_lines(batch, FAR, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS, only_size=True)
    assert counted == (log_bytes, last_at, len(lines))
    return log_bytes, lines


@pytest.mark.property
@given(data_batches(), st.booleans())
def test_a_batch_gives_its_values_or_its_keys(oracle: OracleBatch, of_keys: bool) -> None:
    data = encode_batch(oracle)
    assert run_of(read(data), of_keys=of_keys) == (len(data), lines_of(oracle.records, of_keys=of_keys))


@pytest.mark.property
@given(batches_with_damaged_records(), st.booleans())
def test_damaged_records_end_a_run_exactly_where_they_do_not_parse(data: bytes, of_keys: bool) -> None:
    try:
        batch = read(data)
        expected = lines_of(batch.records(), of_keys=of_keys)
    except StopIteration:
        return
    except CorruptBatchError:
        assert run_of(batch, of_keys=of_keys) == (0, b"")
        return
    assert run_of(batch, of_keys=of_keys) == (batch.size_bytes, expected)


@pytest.mark.property
@given(logs(), st.booleans(), st.booleans(), st.integers(0, 3), st.sampled_from([FAR, 0, 1000, 2**31]))
def test_a_run_goes_as_far_as_nothing_needs_a_closer_look(
    units: tuple[OracleBatch | OracleEntry, ...], of_keys: bool, with_transactions: bool, cut: int, end_offset: int
) -> None:
    data = b"".join(encoded(unit) for unit in units)
    end = len(data) - cut
    at = 0
    while at < end:
        first = next(read_batches(data, start=at, origin=0), None)
        if not isinstance(first, RecordBatch):
            break
        passed, last_at, lines = run_lines(first, end, end_offset, with_transactions, of_keys=of_keys)
        counted = run_lines(first, end, end_offset, with_transactions, of_keys=of_keys, only_size=True)
        assert counted == (passed, last_at, len(lines))
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
                expected += lines_of(batch.records(), of_keys=of_keys)
            last, reached = batch.position, batch.position + batch.size_bytes
        assert (passed, last_at, lines) == (reached - at, last - at, expected)
        at += passed or first.size_bytes


@pytest.mark.property
@given(logs(), st.booleans(), st.integers(0, 3), st.sampled_from([1, 20, FAR]))
def test_a_run_with_decompressors_has_compressed_batches_too(
    units: tuple[OracleBatch | OracleEntry, ...], of_keys: bool, cut: int, line_bytes_max: int
) -> None:
    data = b"".join(encoded(unit) for unit in units)
    end = len(data) - cut
    at = 0
    while at < end:
        first = next(read_batches(data, start=at, origin=0), None)
        if not isinstance(first, RecordBatch):
            break
        ends: dict[str, int] = {"line_bytes_max": line_bytes_max}
        found = run_lines(first, end, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS, **ends)
        counted = run_lines(first, end, FAR, True, of_keys=of_keys, decompressors=DECOMPRESSORS, only_size=True, **ends)
        expected, reached, last = b"", at, at
        for batch in read_batches(data, start=at, end=end):
            if not isinstance(batch, RecordBatch) or (expected and len(expected) >= line_bytes_max):
                break
            if not batch.is_control:
                expected += lines_of(batch.records(), of_keys=of_keys)
            last, reached = batch.position, batch.position + batch.size_bytes
        assert found == (reached - at, last - at, expected)
        assert counted == (*found[:2], len(expected))
        at += found[0] or first.size_bytes


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_run_of_compressed_batches_ends_before_what_is_damaged(codec: Codec) -> None:
    records = [OracleRecord(0, 5, b"k", b"one" * 40), OracleRecord(1, 6, None, None)]
    good = encode_batch(batch_of(records, attributes=codec))
    lines = b"one" * 40 + b"\n\n"
    for position in (8, 16, 17, 30, 57, 63, len(good) - 1):
        bad = bytearray(good)
        bad[position] ^= 0x41
        found = run_lines(read(good + good + bytes(bad) + good), FAR, FAR, True, decompressors=DECOMPRESSORS)
        assert found == (2 * len(good), len(good), 2 * lines)
    assert run_lines(read(good), FAR, FAR, True, decompressors=DECOMPRESSORS[:codec]) == (0, 0, b"")


@pytest.mark.parametrize("only_size", [False, True])
def test_a_run_ends_once_it_has_decompressed_much(*, only_size: bool) -> None:
    """A run of small batches that hold many bytes and few lines would take long, and a caller cannot stop it."""
    record = OracleRecord(0, 5, bytes(12 * 2**20), b"v")
    data = encode_batch(batch_of([record], attributes=Codec.ZSTD))
    found = run_lines(read(5 * data), FAR, FAR, True, decompressors=DECOMPRESSORS, only_size=only_size)
    assert found == (3 * len(data), 2 * len(data), 6 if only_size else b"v\n" * 3)


def test_a_run_ends_where_a_sound_checksum_covers_no_stream_and_no_records() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v")], attributes=Codec.LZ4))
    for refuse in (lambda _: b"", lambda _: b"x" * 100, _refused):
        assert run_lines(read(good), FAR, FAR, True, decompressors=(refuse,) * 5)[0] == 0
    with pytest.raises(ZeroDivisionError):
        run_lines(read(good), FAR, FAR, True, decompressors=(lambda _: 1 // 0,) * 5)


def _refused(_: memoryview) -> bytes:
    raise DecompressionError("as damaged streams are")


def test_a_run_ends_before_what_is_damaged() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"one"), OracleRecord(1, 6, None, None)]))
    for position in (8, 16, 17, 30, 57, 63, len(good) - 1):
        bad = bytearray(good)
        bad[position] ^= 0x41
        data = good + good + bytes(bad) + good
        assert run_lines(read(data), FAR, FAR, True) == (2 * len(good), len(good), b"one\n\none\n\n")
        assert run_lines(read(data), FAR, FAR, True, of_keys=True) == (2 * len(good), len(good), b"k\n\nk\n\n")
        assert run_lines(read(data), FAR, FAR, True, only_size=True) == (2 * len(good), len(good), 10)


def test_a_run_ends_with_the_memory_and_at_the_position() -> None:
    good = encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v" * 500)]))
    assert run_lines(read(good + good[:-1]), FAR, FAR, True, only_size=True)[0] == len(good)
    assert run_lines(read(good + good), 2 * len(good) - 1, FAR, True, only_size=True)[0] == len(good)
    assert run_lines(read(good), len(good) - 1, FAR, True) == (0, 0, b"")
    assert run_lines(read(good), 0, FAR, True) == (0, 0, b"")


@pytest.mark.parametrize("change", [-3, -1, 1, 2**31 - 2])
def test_a_count_that_is_not_the_records_is_damage(change: int) -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v"), OracleRecord(1, 6, None, b"v")])))
    data[57:61] = (2 + change & 0xFFFFFFFF).to_bytes(4, "big")
    assert run_of(read(bytes(data))) == (0, b"")


def test_of_a_batch_that_declares_no_records_nothing_is_looked_at() -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v")])))
    data[57:61] = bytes(4)
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert run_of(read(bytes(data))) == (len(data), b"")


def test_a_codec_that_does_not_exist_ends_a_run_also_where_no_records_are_declared() -> None:
    data = bytearray(encode_batch(batch_of([OracleRecord(0, 5, b"k", b"v")])))
    data[57:61] = bytes(4)
    data[22] |= 6
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    assert run_of(read(bytes(data))) == (0, b"")
