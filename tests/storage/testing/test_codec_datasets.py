"""The oracle reads what real brokers wrote exactly as the real kafka-dump-log printed it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from storage.errors import ChecksumError, FramingError
from storage.testing.codec import OracleBatch, OracleRecord, decode_batches, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.testing.codec import OracleEntry

    Datasets = Callable[[str], Path]

pytestmark = pytest.mark.golden

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
FIELD = re.compile(r"(\w+): (\S+)")
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<type>\w+): (?P<timestamp>-?\d+)"
    r" keySize: (?P<key>-?\d+) valueSize: (?P<value>-?\d+)"
    r"(?: sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>.*?)\])?"
)


def dumped_logs(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each log under the directory that kafka-dump-log was run on, and what that printed."""
    for dump in sorted(root.rglob("*.log.txt")):
        top = next(parent for parent in dump.parents if parent.name.endswith(".dump"))
        log = top.with_suffix("") / dump.relative_to(top).with_suffix("")
        yield log, dump


def dumped_batches(dump: Path) -> list[tuple[str, list[str]]]:
    """The lines about batches, each with the lines about its records."""
    batches: list[tuple[str, list[str]]] = []
    for line in dump.read_bytes().decode(errors="replace").split("\n"):
        if line.startswith(("baseOffset: ", "offset: ")):
            batches.append((line, []))
        elif line.startswith("| offset: "):
            batches[-1][1].append(line)
    return batches


def timestamp_type(batch: OracleBatch | OracleEntry) -> str:
    if batch.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.is_log_append_time else "CreateTime"


def batch_fields(batch: OracleBatch | OracleEntry, position: int) -> dict[str, str]:
    """What kafka-dump-log prints of a batch."""
    fields: dict[str, object] = {
        "position": position,
        timestamp_type(batch): batch.max_timestamp,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": CODEC_NAMES[batch.codec],
        "crc": batch.crc,
        "isvalid": "true",
    }
    if isinstance(batch, OracleBatch):
        horizon = batch.delete_horizon_ms
        fields |= {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": batch.base_sequence,
            "lastSequence": batch.last_sequence,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.partition_leader_epoch,
            "isTransactional": str(batch.is_transactional).lower(),
            "isControl": str(batch.is_control).lower(),
            "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        }
    else:
        fields["offset"] = batch.last_offset
    return {name: str(value) for name, value in fields.items()}


def record_fields(record: OracleRecord, batch: OracleBatch | OracleEntry) -> dict[str, str | None]:
    """What kafka-dump-log prints of a record."""
    is_v2 = isinstance(batch, OracleBatch)
    return {
        "offset": str(record.offset),
        "type": timestamp_type(batch),
        "timestamp": str(record.timestamp),
        "key": str(-1 if record.key is None else len(record.key)),
        "value": str(-1 if record.value is None else len(record.value)),
        "sequence": str(record.sequence) if is_v2 else None,
        "headers": ",".join(key for key, _ in record.headers) if is_v2 else None,
    }


def check_payload(record: OracleRecord, line: str) -> None:
    """The dump ends in the value's text, which is proof enough where it is on one line."""
    value = None if record.value is None else record.value.decode(errors="replace")
    if " payload: " in line and value is not None and "\n" not in value:
        assert line.endswith(f" payload: {value}")


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_every_log_reads_as_kafka_dump_log_printed_it(datasets: Datasets, name: str) -> None:
    magics, codecs, logs = set(), set(), 0
    for log, dump in dumped_logs(datasets(name)):
        position = 0
        dumped = dumped_batches(dump)
        batches = list(decode_batches(log.read_bytes()))
        assert len(batches) == len(dumped), log
        for batch, (line, record_lines) in zip(batches, dumped, strict=True):
            assert dict(FIELD.findall(line)) == batch_fields(batch, position), log
            assert len(batch.records) == len(record_lines), log
            for record, record_line in zip(batch.records, record_lines, strict=True):
                match = RECORD.match(record_line)
                assert match is not None
                assert match.groupdict() == record_fields(record, batch), log
                if not log.parent.name.startswith("__"):
                    check_payload(record, record_line)
            magics.add(batch.magic)
            codecs.add(batch.codec)
            position += batch.size_bytes
        logs += 1
    assert logs == 77
    assert codecs == set(range(5))
    assert magics == ({0, 1, 2} if name == "kafka-2.2" else {2})


def test_uncompressed_batches_are_written_again_byte_for_byte(datasets: Datasets) -> None:
    rewritten = 0
    for log, _ in dumped_logs(datasets("kafka-3.9-compaction")):
        data = log.read_bytes()
        position = 0
        for batch in decode_batches(data):
            assert isinstance(batch, OracleBatch)
            end = position + batch.size_bytes
            if batch.codec == 0:
                assert encode_batch(batch) == data[position:end], log
                rewritten += 1
            position = end
    assert rewritten > 40


def test_damage_is_found_where_it_was_done(datasets: Datasets) -> None:
    found = {}
    for log, _ in dumped_logs(datasets("kafka-3.9-recovery")):
        if "before" in log.parts:
            try:
                list(decode_batches(log.read_bytes()))
            except (ChecksumError, FramingError) as error:
                found[f"{log.parent.name}/{int(log.stem)}"] = (type(error), error.position)
    assert found == {
        "t-snappy-0/1700": (FramingError, 11616),
        "t-v1-0/1650": (ChecksumError, 10590),
        "t-zstd-0/0": (ChecksumError, 31677),
        "t-lz4-0/1400": (ChecksumError, 26084),
    }
