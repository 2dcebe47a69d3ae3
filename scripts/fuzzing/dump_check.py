"""What must hold for the dumps of a log: they show the records that were read from it, and tell of damage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from fuzzing.findings import Finding
from fuzzing.limits import OUTPUT_BYTES_MAX, each_within_limits, within_limits
from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import Bounds, LogDump, Selection
from kafkafs.dump.text import TextForm
from storage.errors import FramingError, StorageError
from storage.record import Codec, RecordBatch, decode_control
from storage.testing.codec import CODEC_MASK

if TYPE_CHECKING:
    from fuzzing.reading import BatchReading, LogReading, Row
    from storage.files import ReadableFile

BOUNDS = (
    Bounds(),
    Bounds(first_offset=1000),
    Bounds(first_offset=1, end_offset=2**40),
    Bounds(first_time=1_700_000_050_000),
    Bounds(first_time=0, end_time=1_700_000_050_000),
)
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
REPLACEMENT = "\ufffd".encode()


def check_dumps(file: ReadableFile, log: LogReading, choice: int) -> None:
    """Raise `Finding` unless dumps of everything show what was read; one of a part of it has only to come to an end."""
    _check_json(file, log)
    _check_text(file, log)
    within_limits(lambda: _dump_some(file, choice))


def is_damaged(reading: BatchReading) -> bool:
    """Whether a dump should find fault with a batch."""
    if not _has_codec(reading):
        return True  # also of a batch without records, in which a reader of records looks at nothing
    return not reading.checksums_match or reading.error is not None or _sound_rows(reading) < len(reading.rows)


def _check_json(file: ReadableFile, log: LogReading) -> None:
    dump = LogDump(file, JsonForm(), Selection(), limit_bytes=OUTPUT_BYTES_MAX)
    shown: list[tuple[str, int]] = []
    for run in each_within_limits(dump):
        for line in run:
            fields = json.loads(line)
            if fields["type"] == "batch":
                shown.append(("batch", fields["position"]))
            elif fields["type"] == "record":
                shown.append(("record", fields["offset"]))
    expected = []
    for reading in log.batches:
        if _has_codec(reading):
            expected.append(("batch", reading.batch.position))
        expected += [("record", row[0]) for row in _shown_rows(reading)]
    # After an error of framing a dump may find batches again.
    if shown != expected if log.error is None else shown[: len(expected)] != expected:
        raise Finding("a dump shows other than what was read", f"{shown}, not {expected}")
    damaged = log.error is not None or log.position < file.size_bytes() or any(map(is_damaged, log.batches))
    if dump.damaged != damaged:
        raise Finding("a dump is wrong about damage", f"{dump.damaged}, not {damaged}")


def _check_text(file: ReadableFile, log: LogReading) -> None:
    groups: list[list[bytes]] = []
    for run in each_within_limits(LogDump(file, TextForm(), Selection(), limit_bytes=OUTPUT_BYTES_MAX)):
        for line in run:
            if line.startswith((b"baseOffset: ", b"offset: ")):
                groups.append([])
            elif line.startswith(b"| "):
                groups[-1].append(line)
    if len(groups) < len(log.batches):
        raise Finding("a dump shows fewer batches than were read", f"{len(groups)}, not {len(log.batches)}")
    for group, reading in zip(groups, log.batches, strict=False):
        batch = reading.batch
        if not isinstance(batch, RecordBatch) or batch.is_control:
            continue
        expected = [_record_line(row, batch.timestamp_type.label) for row in _shown_rows(reading)]
        if group != expected:
            raise Finding("a dump's text is wrong", f"{group}, not {expected}")


def _dump_some(file: ReadableFile, choice: int) -> None:
    selection = Selection(
        bounds=BOUNDS[choice % len(BOUNDS)],
        with_records=bool(choice & 1),
        max_bytes=choice % 4096 if choice & 2 else None,
    )
    form = TextForm(with_data=bool(choice & 4)) if choice & 8 else JsonForm(with_data=bool(choice & 4))
    dump = LogDump(file, form, selection, limit_bytes=OUTPUT_BYTES_MAX)
    for _ in dump:
        pass
    for _ in dump.gaps.report():
        pass


def _has_codec(reading: BatchReading) -> bool:
    try:
        return reading.batch.codec in Codec
    except FramingError:
        return False


def _shown_rows(reading: BatchReading) -> list[Row]:
    """The records that a dump shows: of a damaged one those before the damage, but of a compressed v2 batch none."""
    batch = reading.batch
    if reading.error is not None and isinstance(batch, RecordBatch) and batch.attributes & CODEC_MASK:
        return []
    return reading.rows[: _sound_rows(reading)]


def _sound_rows(reading: BatchReading) -> int:
    """How many records there are before the first control record that makes no sense."""
    if isinstance(reading.batch, RecordBatch) and reading.batch.is_control:
        for index, (_, _, _, key, value, _) in enumerate(reading.rows):
            try:
                decode_control(key, value)
            except StorageError:
                return index
    return len(reading.rows)


def _record_line(row: Row, timestamp_type: str) -> bytes:
    offset, timestamp, sequence, key, value, headers = row
    names = b",".join(_as_java_prints(name.encode("utf-8", "surrogateescape")) for name, _ in headers)
    line = (
        f"| offset: {offset} {timestamp_type}: {timestamp} keySize: {-1 if key is None else len(key)}"
        f" valueSize: {-1 if value is None else len(value)} sequence: {sequence} headerKeys: ["
    ).encode() + names
    line += b"]"
    if key is not None:
        line += b" key: " + _as_java_prints(key)
    if value is not None:
        line += b" payload: " + _as_java_prints(value)
    return line


def _as_java_prints(data: bytes) -> bytes:
    # As Python, but that an encoded surrogate is one mistake and not a mistake for each byte.
    return SURROGATE.sub(REPLACEMENT, data).decode("utf-8", "replace").encode()
