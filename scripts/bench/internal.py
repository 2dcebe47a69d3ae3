"""Reading internal topics beside the real kafka-dump-log with its decoders: median wall times of whole processes.

Ours reads each record of the file into its fields; the real tool also prints them, into a file. And the time from
opening a broker's store of many topics to the first topic's settings, against a second.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import UUID

from timing import Scoreboard

from storage.clock import Clock
from storage.files import Files
from storage.ids import format_id
from storage.internal import Message, metadata, offsets
from storage.record import batches_of_rows, read_batches
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segments import Row

CHECKOUT = Path(__file__).resolve().parents[2]
METADATA_RECORDS = 1_000_000
GROUP_OFFSETS = 100_000
TIME = 1_700_000_000_000
ROUNDS = 5
TARGET = 5.0
ROWS_AT_ONCE = 50_000
TOPICS = 10_000
FIRST_CONFIG_S_MAX = 1.0


def metadata_rows() -> Iterator[Row]:
    """Topics with their settings and partitions, whose leaders change again and again."""
    rng = random.Random(1)
    directories = [UUID(int=rng.getrandbits(128)) for _ in range(3)]
    number = 0
    while True:
        topic_id = UUID(int=rng.getrandbits(128))
        name = f"orders-{number}"
        number += 1
        values = [metadata.encode(2, 0, {"name": name, "topicId": topic_id})]
        setting = {"resourceType": 2, "resourceName": name, "name": "retention.ms", "value": "604800000"}
        values.append(metadata.encode(4, 0, setting))
        for partition in range(6):
            where = {"partitionId": partition, "topicId": topic_id}
            made = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
            values.append(metadata.encode(3, 1, where | made | {"directories": directories}))
            changes = ({"isr": [leader, 3], "leader": leader} for leader in (2, 1))
            values += [metadata.encode(5, 1, where | change) for change in changes]
        yield from ((TIME, None, value, ()) for value in values)


def offset_rows() -> Iterator[Row]:
    """What groups of ten topics with ten partitions each commit."""
    for number in range(GROUP_OFFSETS):
        group, topic = number // 100, number // 10 % 10
        key = {"group": f"payments-{group}", "topic": f"orders-{topic}", "partition": number % 10}
        value = {"offset": number * 17, "leaderEpoch": 3, "commitTimestamp": TIME}
        yield TIME, offsets.encode_key(1, key), offsets.encode_value(1, 3, value), ()


def write_log(rows: Iterator[Row], path: Path) -> None:
    offset = 0
    with path.open("wb") as file:
        while some := list(islice(rows, ROWS_AT_ONCE)):
            file.writelines(batches_of_rows(some, base_offset=offset, max_bytes=1 << 20))
            offset += len(some)


def read_log(path: Path) -> int:
    """How many records of a log are messages."""
    known = 0
    is_metadata = path.parent.name.startswith(metadata.TOPIC)
    for batch in read_batches(path.read_bytes()):
        batch.check_crc()
        for record in batch.records():
            said = metadata.decode(record.value) if is_metadata else offsets.decode(record.key, record.value).value
            known += isinstance(said, Message)
    return known


def write_store(path: Path) -> None:
    """Make the log dir of a broker with many topics, each with an id and settings of its own."""
    path.mkdir()
    (path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n")
    values = []
    for number in range(TOPICS):
        name, topic_id = f"orders-{number}", UUID(int=number + 1 << 64)
        (path / f"{name}-0").mkdir()
        (path / f"{name}-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(topic_id)}")
        (path / f"{name}-0" / f"{0:020d}.log").touch()
        values.append(metadata.encode(2, 0, {"name": name, "topicId": topic_id}))
        where = {"partitionId": 0, "topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1}
        values.append(metadata.encode(3, 0, where | {"leaderEpoch": 0, "partitionEpoch": 0}))
        for key, value in (("retention.ms", "86400000"), ("segment.bytes", "104857600")):
            fields = {"resourceType": 2, "resourceName": name, "name": key, "value": value}
            values.append(metadata.encode(4, 0, fields))
    (path / f"{metadata.TOPIC}-0").mkdir()
    # A batch for each topic, as a controller writes them when topics are made one after the other.
    with (path / f"{metadata.TOPIC}-0" / f"{0:020d}.log").open("wb") as file:
        for first in range(0, len(values), 4):
            rows = [(TIME, None, value, ()) for value in values[first : first + 4]]
            file.writelines(batches_of_rows(rows, base_offset=first))


def first_config(board: Scoreboard, path: Path) -> None:
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
            assert store.topics.config(f"orders-{TOPICS // 2}").retention_ms == 86_400_000
        took.append(time.perf_counter() - start)
    figures = f"{median(took):.2f} s, of {FIRST_CONFIG_S_MAX:.2f} s"
    board.line(f"first settings of {TOPICS:,} topics", figures, FIRST_CONFIG_S_MAX / median(took), 1.0)


def seconds(command: list[str], output: Path) -> float:
    with output.open("wb") as sink:
        start = time.perf_counter()
        subprocess.run(command, stdout=sink, check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def compare(board: Scoreboard, log: Path, count: int, decoder: str) -> None:
    ours, real = [], []
    printed = log.with_suffix(".txt")
    for _ in range(ROUNDS):
        ours.append(seconds([sys.executable, __file__, str(log)], printed))
        assert printed.read_text() == f"{count}\n"
        real.append(seconds([str(CHECKOUT / "scripts" / "kafka"), "dump", str(log), "--", decoder], printed))
        assert printed.read_text().count("\n| offset: ") == count
    figures = f"ours {median(ours):.2f} s, kafka-dump-log {median(real):.2f} s"
    board.line(f"{count:,} records of {log.parent.name}", figures, median(real) / median(ours), TARGET)


def main() -> int:
    board = Scoreboard()
    metadata_log = islice(metadata_rows(), METADATA_RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        for topic, rows, count, decoder in (
            (metadata.TOPIC, metadata_log, METADATA_RECORDS, "--cluster-metadata-decoder"),
            (offsets.TOPIC, offset_rows(), GROUP_OFFSETS, "--offsets-decoder"),
        ):
            log = Path(folder) / f"{topic}-0" / "00000000000000000000.log"
            log.parent.mkdir()
            write_log(rows, log)
            compare(board, log, count, decoder)
        write_store(Path(folder) / "broker")
        first_config(board, Path(folder) / "broker")
    return 1 if board.missed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(read_log(Path(sys.argv[1])))
    else:
        sys.exit(main())
