"""What must hold for every run of batches: the package and the oracle read the same from it, or both refuse it.

Checksums are compared first and then put right, so that the records after a wrong one are compared as well.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from fuzzing import differences
from fuzzing.column_check import check_columns
from fuzzing.compaction_check import check_compaction
from fuzzing.envelope_check import check_envelopes
from fuzzing.findings import Finding
from fuzzing.header_check import check_checksum, check_header
from fuzzing.limits import OUTPUT_BYTES_MAX, within_limits
from fuzzing.match_check import check_matches
from fuzzing.reading import read_log
from fuzzing.rewrite_check import check_rewriting
from fuzzing.value_check import check_values
from storage.errors import DecompressedTooLargeError, StorageError
from storage.record import EndTransactionMarker, LegacyBatch, RecordBatch, decode_control, read_batches
from storage.testing.batch_codec import BATCH_HEADER, HEADER_FIELDS
from storage.testing.codec import (
    ABORT,
    CODEC_MASK,
    COMMIT,
    OracleBatch,
    batch_spans,
    decode_batch,
    decode_control_key,
    decode_end_transaction,
    decompress,
    read_varint32,
    resealed,
    seal_batch,
)

if TYPE_CHECKING:
    from fuzzing.reading import BatchReading, Row

GENEROUS_BYTES_MAX = 1 << 27
REWRITTEN_SHARE = 4


def check_batches(data: bytes) -> Counter[str]:
    """Read the data in every way, and return what it turned out to be. Raises `Finding`."""
    log = within_limits(lambda: read_log(data))
    spans, is_unframed = _oracle_spans(data)
    seen = Counter(
        _check_batch(data[start:end], start, reading) for (start, end), reading in zip(spans, log.batches, strict=False)
    )
    position = spans[-1][1] if spans else 0
    if len(log.batches) < len(spans):
        # The oracle frames by lengths alone, and learns of a wrong magic only when it decodes.
        position, end = spans[len(log.batches)]
        is_unframed = isinstance(_oracle_rows(data[position:end]), StorageError)
    if (log.position, log.error is not None) != (position, is_unframed):
        raise Finding(
            "the package and the oracle do not stop alike", f"{log.position} {log.error}, {position} {is_unframed}"
        )
    seen["then unframed to both" if is_unframed else "framed to the end by both"] += 1
    check_columns(data, log)
    check_values(data, log)
    check_matches(data, log)
    check_envelopes(log)
    return seen


def _oracle_spans(data: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Where the oracle finds batches, and whether it finds an error after them."""
    spans: list[tuple[int, int]] = []
    try:
        spans.extend(batch_spans(data))
    except StorageError:
        return spans, True
    return spans, False


def _check_batch(unit: bytes, position: int, reading: BatchReading) -> str:
    batch, error = reading.batch, reading.error
    check_header(unit, position, batch)
    sealed = resealed(unit)
    check_checksum(batch, matches=sealed == unit)
    if isinstance(error, DecompressedTooLargeError):
        _check_size(batch)
        return "too large"
    rows = _oracle_rows(differences.with_inner_checksums(sealed))
    if isinstance(rows, StorageError):
        if error is None:
            return differences.only_oracle_refuses(sealed, rows)
        if reading.rows and isinstance(batch, RecordBatch):
            _check_first_rows(sealed, reading.rows)
        return f"refused by both: {type(error).__name__}"
    if error is not None:
        return differences.only_package_refuses(sealed, error)
    _compare_rows(reading.rows, rows)
    if isinstance(batch, RecordBatch):
        if batch.is_control:
            for _, _, _, key, value, _ in rows:
                _check_control(key, value)
        if batch.crc % REWRITTEN_SHARE == 0:
            _check_rewriting(sealed)
    return "read alike"


def _oracle_rows(unit: bytes) -> list[Row] | StorageError:
    try:
        records = decode_batch(unit).records
    except StorageError as error:
        return error
    return [(r.offset, r.timestamp, r.sequence, r.key, r.value, r.headers) for r in records]


def _compare_rows(seen: list[Row], expected: list[Row] | StorageError) -> None:
    if seen != expected:
        raise Finding("records are read wrongly", f"{seen}, not {expected}")


def _check_rewriting(sealed: bytes) -> None:
    """What has been read can be written again, unless it is declined as what no broker would write."""
    original = decode_batch(sealed)
    (batch,) = read_batches(sealed)
    assert isinstance(original, OracleBatch)
    assert isinstance(batch, RecordBatch)
    with suppress(StorageError):
        check_rewriting(batch, original)
    with suppress(StorageError):
        check_compaction(batch, original)


def _check_size(batch: RecordBatch | LegacyBatch) -> None:
    """A batch that is called too large is so, or a reader without limits finds it damaged."""
    try:
        if isinstance(batch, RecordBatch):
            small = memoryview(batch.records_data(limit_bytes=GENEROUS_BYTES_MAX)).nbytes <= OUTPUT_BYTES_MAX
        else:
            small = sum(1 for _ in batch.records(limit_bytes=GENEROUS_BYTES_MAX)) > 0
    except StorageError:
        return
    if small:
        raise Finding("a section is called too large that is not", f"the batch at {batch.position}")


def _check_first_rows(sealed: bytes, rows: list[Row]) -> None:
    """The records before the damage are those of the same batch, if only it ended there."""
    fields = dict(zip(HEADER_FIELDS, BATCH_HEADER.unpack_from(sealed), strict=True))
    try:
        records_data = decompress(fields["attributes"] & CODEC_MASK, sealed[BATCH_HEADER.size :])
    except StorageError:
        return  # the package gave records, so why the oracle refuses is another story
    end = 0
    for _ in rows:
        size, end = read_varint32(records_data, end)
        end += size
    fields |= {"attributes": fields["attributes"] & ~CODEC_MASK, "record_count": len(rows)}
    _compare_rows(rows, _oracle_rows(seal_batch(OracleBatch(**fields, records=()), records_data[:end])))


def _check_control(key: bytes | None, value: bytes | None) -> None:
    """Control records are decoded or refused; the markers of transactions as the oracle decodes them."""
    try:
        control = decode_control(key, value)
    except StorageError:
        control = None
    try:
        _, control_type = decode_control_key(key)
        if control_type not in (ABORT, COMMIT):
            return
        version, epoch = decode_end_transaction(value)
        expected = EndTransactionMarker(control_type == COMMIT, epoch, version)
    except StorageError:
        expected = None
    if control != expected:
        raise Finding("a control record is read wrongly", f"{key!r} {value!r} as {control}, not {expected}")
