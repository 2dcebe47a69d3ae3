"""What must hold for everything that is written: the oracle reads from it what was handed over, and so do we."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fuzzing.findings import Finding
from fuzzing.limits import within_limits
from fuzzing.reading import read_log
from fuzzing.rewrite_check import check_rewriting
from storage.errors import InvalidRecordError, RecordTooLargeError
from storage.record import (
    Codec,
    RecordBatch,
    TimestampType,
    batches_of_lines,
    batches_of_rows,
    encode_entries,
    encode_wrapper,
    read_batches,
)
from storage.testing.codec import (
    OracleBatch,
    OracleRecord,
    batch_of,
    decode_batch,
    decode_batches,
    encode_batch,
    entry_of,
    wrapper_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuzzing.row_inputs import RowsInput
    from storage.record import EncodedBatch

LEGACY_CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
SEQUENCES = 2**31
APPEND_TIME = 1_800_000_000_000
ROOM_BYTES = 1000


def check_rows(given: RowsInput) -> Counter[str]:
    """Write the rows in every way there is, and return how that went."""
    batches, error = within_limits(lambda: _taken(batches_of_rows(given.rows, **_options(given))))
    records = [record for batch in batches for record in _read_back(batch, given)]
    expected = list(_expected_records(given, given.rows[: len(records)]))
    _compare("rows are written wrongly", records, expected)
    _check_error(given, len(records), error)
    for data in batches:
        (batch,) = read_batches(data)
        original = decode_batch(data)
        assert isinstance(batch, RecordBatch)
        assert isinstance(original, OracleBatch)
        check_rewriting(batch, original)
    _check_lines(given)
    if expected and given.form.append_time_ms is None:
        _check_message_sets([replace(record, headers=(), sequence=-1) for record in expected])
    return Counter({"written" if error is None else f"refused: {type(error).__name__}": 1})


def _options(given: RowsInput) -> dict[str, Any]:
    return {"base_offset": given.base_offset, "max_bytes": given.max_bytes, "form": given.form}


def _taken(batches: Iterator[EncodedBatch]) -> tuple[list[bytes], InvalidRecordError | None]:
    taken: list[bytes] = []
    try:
        taken.extend(batch.data for batch in batches)
    except InvalidRecordError as error:
        return taken, error
    return taken, None


def _read_back(data: bytes, given: RowsInput) -> tuple[OracleRecord, ...]:
    """The records of one new batch, the same to the oracle and to us; its header agrees with them."""
    if len(data) > given.max_bytes:
        raise Finding("a batch is larger than allowed", f"{len(data)}, not {given.max_bytes}")
    batch = decode_batch(data)
    if not isinstance(batch, OracleBatch):
        raise Finding("what was written is no v2 batch", data.hex())
    rows = [(r.offset, r.timestamp, r.sequence, r.key, r.value, r.headers) for r in batch.records]
    _compare("a new batch is read wrongly", [row for reading in read_log(data).batches for row in reading.rows], rows)
    form = given.form
    derived = batch_of(
        batch.records,
        partition_leader_epoch=form.leader_epoch,
        attributes=form.attributes,
        base_timestamp=batch.base_timestamp,
        producer_id=form.producer_id,
        producer_epoch=form.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    _compare("a header does not agree with its records", batch, derived)
    return batch.records


def _expected_records(given: RowsInput, rows: list[Any]) -> Iterator[OracleRecord]:
    form = given.form
    for index, (timestamp, key, value, headers) in enumerate(rows):
        yield OracleRecord(
            offset=given.base_offset + index,
            timestamp=timestamp if form.append_time_ms is None else form.append_time_ms,
            key=_bytes(key),
            value=_bytes(value),
            headers=tuple((name, _bytes(data)) for name, data in headers),
            sequence=-1 if form.base_sequence < 0 else (form.base_sequence + index) % SEQUENCES,
        )


def _bytes(data: bytes | bytearray | memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)


def _compare(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise Finding(what, f"{seen}, not {expected}")


def _check_error(given: RowsInput, written: int, error: InvalidRecordError | None) -> None:
    if error is None:
        if not given.is_possible or written < len(given.rows):
            raise Finding("rows are lost, or impossible ones accepted", f"{written} of {len(given.rows)}")
    elif not isinstance(error, RecordTooLargeError):
        if given.is_possible:
            raise Finding("a possible row is refused", error) from error
    elif given.form.codec is Codec.NONE:
        record = next(_expected_records(given, given.rows[written : written + 1]))
        if len(encode_batch(batch_of([record]))) <= given.max_bytes:
            raise Finding("a row is called too large that is not", error) from error


def _check_lines(given: RowsInput) -> None:
    options = _options(given) | {"max_bytes": max(given.max_bytes, ROOM_BYTES)}
    lines = given.lines.split(b"\n")
    if not lines[-1]:
        lines.pop()
    batches = list(batches_of_lines(given.lines, timestamp_ms=APPEND_TIME, **options))
    values = [record.value for batch in batches for record in decode_batch(batch.data).records]
    _compare("lines are written wrongly", values, lines)


def _check_message_sets(records: Sequence[OracleRecord]) -> None:
    codec = LEGACY_CODECS[len(records) % len(LEGACY_CODECS)]
    for magic, timestamp_type in (
        (0, TimestampType.CREATE_TIME),
        (1, TimestampType.CREATE_TIME),
        (1, TimestampType.LOG_APPEND_TIME),
    ):
        appended = magic > 0 and timestamp_type is TimestampType.LOG_APPEND_TIME
        entries = encode_entries(records, magic, timestamp_type=timestamp_type)
        plain = [entry_of(record, magic, log_append_time=appended) for record in records]
        _compare("entries are written wrongly", list(decode_batches(entries)), plain)
        wrapper = decode_batch(encode_wrapper(records, magic, codec, timestamp_type=timestamp_type))
        expected = wrapper_of(records, magic, codec, log_append_time=appended)
        _compare("a wrapper is written wrongly", wrapper.records, expected.records)
        _compare("a wrapper ends at another offset", wrapper.last_offset, expected.last_offset)
