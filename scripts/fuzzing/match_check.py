"""What must hold when the same bytes are searched: the places found are those of the records that match."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX
from fuzzing.reading import in_exact_memory
from storage.record import CODEC_MASK, Criteria, RecordBatch, decompressors, read_batches, run_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuzzing.reading import BatchReading, LogReading, Row

FAR = 2**63 - 1
DECOMPRESSORS = decompressors(limit_bytes=OUTPUT_BYTES_MAX)
PLACE = Struct("=qq")


class Search(NamedTuple):
    """What is searched for, and the same in Python for one record."""

    criteria: Criteria
    matches: Callable[[Row], bool]


def check_matches(data: bytes, log: LogReading) -> None:
    """Raise `Finding` unless searches find what has been read from the same data, and nothing in what is damaged."""
    for reading, batch in zip(log.batches, read_batches(in_exact_memory(data)), strict=False):
        if isinstance(batch, RecordBatch) and not batch.is_control:
            for search in _searches(batch, reading):
                _check_search(batch, reading, search)


def _check_search(batch: RecordBatch, reading: BatchReading, search: Search) -> None:
    end = batch.position + batch.size_bytes
    passed_bytes, _, found = run_lines(batch, end, FAR, True, decompressors=DECOMPRESSORS, criteria=search.criteria)
    counted_bytes, _, size = run_lines(
        batch, end, FAR, True, decompressors=DECOMPRESSORS, criteria=search.criteria, only_size=True
    )
    if (counted_bytes, size) != (passed_bytes, len(found)):
        raise Finding("matches are counted wrongly", f"{counted_bytes}, {size}, not {passed_bytes}, {len(found)}")
    is_readable = reading.checksums_match and reading.error is None and batch.count >= 0 and batch.base_offset < FAR
    if not is_readable or batch.attributes & CODEC_MASK >= len(DECOMPRESSORS):
        if found or (passed_bytes and not reading.checksums_match):
            raise Finding("records of a damaged batch match", f"{found!r}, {reading.error}")
        return
    expected = b"".join(PLACE.pack(batch.position, row[0]) for row in reading.rows if search.matches(row))
    if (passed_bytes, found) != (batch.size_bytes, expected):
        raise Finding("matches differ from records", f"{found!r} of {passed_bytes}, not {expected!r}, {reading.rows}")


def _searches(batch: RecordBatch, reading: BatchReading) -> Iterator[Search]:
    """Yield searches for a record of the batch by each criterion, which others may match too."""
    row: Row = (batch.base_offset, 0, 0, b"key", None, (("name", None),))
    if reading.rows:
        row = reading.rows[batch.crc % len(reading.rows)]
    offset, _, _, key, value, headers = row
    yield Search(Criteria(key=(key,)), lambda each: each[3] == key)
    size = -1 if value is None else len(value)
    yield Search(Criteria(value_bytes_min=size), lambda each: _size(each) >= size)
    yield Search(Criteria(value_bytes_max=size, key=(key,)), lambda each: _size(each) <= size and each[3] == key)
    if batch.base_offset <= offset <= batch.last_offset < FAR:  # others are not looked for in this batch
        yield Search(Criteria(offset, offset + 1), lambda each: each[0] == offset)
    for name, wanted in headers[:2]:
        header_name = name.encode(errors="surrogateescape")
        yield Search(
            Criteria(header_name=header_name), lambda each, name=name: any(name == other for other, _ in each[5])
        )
        yield Search(
            Criteria(header_name=header_name, header_value=(wanted,)),
            lambda each, header=(name, wanted): header in each[5],
        )
    own = batch.producer_id
    yield Search(Criteria(producer_id=own), lambda _: True)
    yield Search(Criteria(producer_id=own ^ 1), lambda _: False)
    yield Search(Criteria(of_transactions=True), lambda _: batch.is_transactional)


def _size(row: Row) -> int:
    return -1 if row[4] is None else len(row[4])
