"""What must hold for every log file: a scan finds the batches that lie in its bytes."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING

from fuzzing.dump_check import check_dumps, is_damaged
from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX, within_limits
from fuzzing.reading import read_log
from storage.errors import FramingError
from storage.files import Files
from storage.record import read_batches
from storage.segment import LogScan

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import ReadableFile

Span = tuple[int, int]


def check_file(path: Path, data: bytes) -> Counter[str]:
    """Write the data to the path, read it as a log in every way, and return what it turned out to be."""
    path.write_bytes(data)
    choice = zlib.crc32(data)
    with Files().open_reading(path) as file:
        _check_scan(file, data, choice)
        log = read_log(data)
        check_dumps(file, log, choice >> 1)
    if log.error is not None:
        return Counter({"unframed": 1})
    if log.position < len(data):
        return Counter({"cut short": 1})
    return Counter({"damaged within" if any(map(is_damaged, log.batches)) else "undamaged": 1})


def _check_scan(file: ReadableFile, data: bytes, choice: int) -> None:
    spans, _ = _walk(data, 0, len(data))
    start = spans[choice % len(spans)][0] if spans else 0
    end = len(data) if choice & 1 else start + choice % (len(data) - start + 1)
    spans, must_fail = _walk(data, start, end)
    scanned, error = within_limits(lambda: _scan(file, data, start, end))
    if scanned != spans or (error is not None) != must_fail:
        raise Finding("a scan differs from a walk", f"{start}..{end}: {scanned} {error}, not {spans} {must_fail}")


def _walk(data: bytes, start: int, end: int) -> tuple[list[Span], bool]:
    """The batches in a part of the data, up to one that is larger than a scan may load; and if an error ends them."""
    spans: list[Span] = []
    try:
        for batch in read_batches(data, start=start, end=end):
            if batch.size_bytes > OUTPUT_BYTES_MAX:
                return spans, True
            spans.append((batch.position, batch.size_bytes))
    except FramingError:
        return spans, True
    return spans, False


def _scan(file: ReadableFile, data: bytes, start: int, end: int) -> tuple[list[Span], FramingError | None]:
    scan = LogScan(file, start=start, end=end, limit_bytes=OUTPUT_BYTES_MAX)
    spans: list[Span] = []
    try:
        for batch in scan:
            spans.append((batch.position, batch.size_bytes))
            if batch.view(0, batch.size_bytes) != data[batch.position : scan.position]:
                raise Finding("a scan gives other bytes than the file's", spans[-1])
    except FramingError as error:
        if error.position != scan.position or error.path != file.path:
            raise Finding("an error of a scan is misplaced", f"{error}, the scan is at {scan.position}") from error
        return spans, error
    if scan.position + scan.trailing_bytes != end:
        raise Finding("a scan ends wrongly", f"at {scan.position} with {scan.trailing_bytes} to follow, not at {end}")
    return spans, None
