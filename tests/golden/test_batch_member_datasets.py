"""What `offset/<n>.json` says of a batch, beside what the real tool printed for the same batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkafs.locator.offsets import parse_offset_name
from kafkafs.locator.paths import OffsetPath, PartitionPath, TopicPath
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.record_file import RecordFile
from kafkafs.tree.rights import Rights
from storage.clock import Clock
from storage.config import TopicConfig
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log_dir.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.golden

SETS: Final = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-killed/kafka-3.9-killed",
    "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "kafka-3.9-compaction/kafka-3.9-compaction-after",
    "kafka-3.9-recovery/kafka-3.9-recovery/after",
)
TIMES: Final = "CreateTime|LogAppendTime|NoTimestampType"
BATCH: Final = re.compile(
    r"baseOffset: (?P<baseOffset>\d+) lastOffset: (?P<lastOffset>\d+) count: (?P<count>\d+)"
    r" baseSequence: (?P<baseSequence>-?\d+) lastSequence: (?P<lastSequence>-?\d+) producerId: (?P<producerId>-?\d+)"
    r" producerEpoch: (?P<producerEpoch>-?\d+) partitionLeaderEpoch: (?P<partitionLeaderEpoch>-?\d+)"
    r" isTransactional: (?P<isTransactional>\w+) isControl: (?P<isControl>\w+)"
    r" deleteHorizonMs: (?:OptionalLong.empty|OptionalLong\[(?P<deleteHorizonMs>\d+)\])"
    rf" position: (?P<position>\d+) (?P<timestampType>{TIMES}): (?P<maxTimestamp>-?\d+) size: (?P<size>\d+)"
    r" magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
MESSAGE_SET: Final = re.compile(
    rf"offset: (?P<lastOffset>\d+) position: (?P<position>\d+) (?P<timestampType>{TIMES}): (?P<maxTimestamp>-?\d+)"
    r" size: (?P<size>\d+) magic: (?P<magic>\d+) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
RECORD: Final = re.compile(
    rf"\| offset: (?P<offset>\d+) (?:{TIMES}): \S+ .*?(?:sequence: (?P<sequence>-?\d+)|isValid: )"
)
MARKER: Final = re.compile(r" endTxnMarker: (COMMIT|ABORT) ")
TEXTS: Final = {"timestampType", "codec"}
ENDS: Final = {"COMMIT": "committed", "ABORT": "aborted"}
NONE: Final = dict.fromkeys(
    ("baseSequence", "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch"), -1
) | {"isTransactional": False, "isControl": False, "deleteHorizonMs": None}


class Printed(NamedTuple):
    """A batch as the real tool prints it, and the offsets and sequences of its records."""

    fields: dict[str, object]
    records: list[tuple[int, int]]
    marker: str | None


def test_each_batch_is_told_as_by_the_real_tool(datasets: Callable[[str], Path]) -> None:
    stats: Counter[object] = Counter()
    for name in SETS:
        data_set, _, rest = name.partition("/")
        root = datasets(data_set) / rest
        for directory in sorted({log.parent for log in root.rglob("*.log") if log.stem.isdigit()}):
            texts = datasets(data_set).joinpath(
                *(
                    f"{part}.dump" if part == root.name else part
                    for part in directory.relative_to(datasets(data_set)).parts
                )
            )
            check_partition(directory, texts, stats)
    print(dict(stats))
    assert stats["batches"] > 5000
    assert all(stats[kind] > 20 for kind in (0, 1, 2, "committed", "aborted"))
    assert stats["open"] > 0
    assert stats["unknown"] == 0


def check_partition(directory: Path, texts: Path, stats: Counter[object]) -> None:
    printed = [
        batch for path in sorted(texts.glob("*.log.txt")) for batch in printed_batches(path, path.name[: -len(".txt")])
    ]
    source = followed(directory)
    start_offset = source.visible().start_offset
    ends: dict[object, str] = {}  # by producer, of what comes before the marker that was seen last
    for fields, records, marker in reversed(printed):
        if marker is not None:
            ends[fields["producerId"]] = ENDS[marker]
        if fields["isControl"]:
            continue
        fields["transaction"] = ends.get(fields["producerId"], "open") if fields["isTransactional"] else None
        for offset, sequence in (records[0], records[-1]) if records else ():
            if offset >= start_offset:
                assert batch_of(source, offset) == {**fields, "sequence": sequence}, (directory, offset)
        stats["batches"] += 1
        stats[fields["magic"]] += 1
        stats[fields["transaction"]] += 1


def printed_batches(text: Path, segment: str) -> Iterator[Printed]:
    batch: Printed | None = None
    for line in text.read_text(errors="surrogateescape").split("\n"):
        if found := BATCH.fullmatch(line) or MESSAGE_SET.fullmatch(line):
            if batch is not None:
                yield completed(batch)
            batch = Printed(fields_of(found, segment), [], None)
        elif batch is not None and (record := RECORD.match(line)):
            batch.records.append((int(record["offset"]), int(record["sequence"] or -1)))
            if batch.fields["isControl"] and (marker := MARKER.search(line)):
                batch = batch._replace(marker=marker[1])
    if batch is not None:
        yield completed(batch)


def fields_of(found: re.Match[str], segment: str) -> dict[str, object]:
    fields: dict[str, object] = {**NONE, "segment": segment}
    for name, text in found.groupdict().items():
        if text in {"true", "false"}:
            fields[name] = text == "true"
        elif text is not None:
            fields[name] = text if name in TEXTS else int(text)
    return fields


def completed(batch: Printed) -> Printed:
    """With what the real tool does not print of a message set: where it begins, and how many records it has."""
    if batch.fields["magic"] != 2 and batch.records:
        batch.fields.update(baseOffset=batch.records[0][0], count=len(batch.records))
    return batch


def batch_of(source: LogSource, offset: int) -> object:
    node = RecordFile(OffsetPath(source.path, parse_offset_name(f"{offset}.json")), source, 0)
    return json.loads(bytes(node.open().read(0, 1 << 30)))["batch"]


def followed(directory: Path) -> LogSource:
    topic, _, partition = directory.name.rpartition("-")
    log_dir = LogDir(Files().directory(directory.parent))
    return LogSource(
        PartitionPath(TopicPath(topic), int(partition)),
        topic,
        int(partition),
        directory,
        FollowedLog(Clock(), Files().directory(directory), TopicConfig.resolve({}), producer_expiration_ms=10**9),
        TreeOptions(),
        files=Files(),
        log_dir=log_dir,
        identity=1,
        writable=None,
        rights=Rights([log_dir], is_shared=False),
    )
