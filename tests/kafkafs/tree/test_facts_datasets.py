"""What `info`, `transactions`, `producers` and `leader-epochs` say of real logs, against dumps and brute force."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock

from kafkafs.locator.paths import PartitionFilePath, PartitionPath, TopicPath
from kafkafs.locator.views import View
from kafkafs.tree.epochs_file import EpochsFile
from kafkafs.tree.info_file import InfoFile
from kafkafs.tree.log_sources import LogSources
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.producers_file import ProducersFile
from kafkafs.tree.rights import Rights
from kafkafs.tree.transactions_file import TransactionsFile
from storage.files import Files
from storage.record.batch import RecordBatch
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import File

pytestmark = pytest.mark.golden

DATASETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed")
TABLES = {
    View.TRANSACTIONS: TransactionsFile,
    View.PRODUCERS: ProducersFile,
    View.LEADER_EPOCHS: EpochsFile,
}
DUMPED_SNAPSHOT = re.compile(
    r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) "
    r"lastTimestamp: (-?\d+) firstSequence: -?\d+ lastSequence: (-?\d+) lastOffset: (-?\d+) .*"
)
DUMPED_ABORTED = re.compile(r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: \d+")


def lines(node: File) -> list[str]:
    reading = node.open()
    assert reading.size_bytes() == node.attributes().size_bytes
    return bytes(reading.read(0, 1 << 20)).decode().splitlines()


def table(source: LogSource, file: View, clock: StandingClock) -> list[dict[str, str]]:
    names, *rows = (
        line.split("\t") for line in lines(TABLES[file](PartitionFilePath(source.path, file), source, clock))
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def info(source: LogSource, clock: StandingClock) -> dict[str, str]:
    said = lines(InfoFile(PartitionFilePath(source.path, View.INFO), source, clock))
    return dict(line.split("=", 1) for line in said)


def log_dirs(directory: Path) -> list[Path]:
    return [path for path in (directory / "d1", directory / "d2") if path.is_dir()]


def sources(store: Store, clock: StandingClock) -> Iterator[LogSource]:
    found = LogSources(store, TreeOptions(), clock=clock, rights=Rights(store.log_dirs, is_shared=False))
    for topic, partition in sorted(store.topics.inventory.partitions()):
        yield found.get(PartitionPath(TopicPath(topic), partition))


@pytest.fixture(params=DATASETS)
def dataset(request: pytest.FixtureRequest, datasets: Callable[[str], Path]) -> tuple[Path, Path]:
    """The log dirs of a set and the real tool's dumps of them."""
    name = request.param
    return datasets(name) / name, datasets(name) / f"{name}.dump"


@pytest.fixture
def store(dataset: tuple[Path, Path]) -> Iterator[Store]:
    clock = StandingClock(1_700_000_600_000)  # so that no producer of the sets has been silent for long
    with Store.open(log_dirs(dataset[0]), mode=Mode.READ_ONLY, files=Files(), clock=clock) as opened:
        yield opened


def checkpointed(directory: Path, name: str) -> dict[tuple[str, int], int]:
    path = directory / name
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {(topic, int(partition)): int(offset) for topic, partition, offset in map(str.split, lines)}


def test_info_is_what_the_files_say(store: Store) -> None:
    clock = StandingClock()
    for source in sources(store, clock):
        said, view, directory = info(source, clock), source.log.view, source.directory
        stamps = [
            record.timestamp
            for batch in view.batches(view.start_offset)
            for record in batch.records()
            if record.offset >= view.start_offset
        ]
        largest = max((batch.max_timestamp for segment in view.segments for batch in segment.batches()), default=-1)
        expected = {
            "topic": source.topic,
            "partition": str(source.partition),
            "directory": str(directory),
            "start.offset": str(view.start_offset),
            "end.offset": str(view.end_offset),
            "last.stable.offset": str(view.last_stable_offset),
            "segments": str(len(list(directory.glob("*.log")))),
            "active.segment": max(path.name for path in directory.glob("*.log")),
            "index.bytes": str(sum(p.stat().st_size for p in directory.iterdir() if p.suffix.endswith("index"))),
            "is.writable": "false",
            "is.poisoned": "false",
        }
        metadata = directory / "partition.metadata"
        if metadata.exists():
            expected["topic.id"] = metadata.read_text().split()[-1]
        partition = (source.topic, source.partition)
        marks = checkpointed(directory.parent, "replication-offset-checkpoint")
        if partition in marks:
            expected["high.watermark"] = str(marks[partition])
        if stamps and stamps[0] >= 0:
            expected["first.timestamp"] = str(stamps[0])
        if largest >= 0:
            expected["last.timestamp"] = str(largest)
        epochs = checkpointed_epochs(directory)
        if epochs:
            expected["leader.epoch"] = epochs[-1][0]
        written = sum(path.stat().st_size for path in directory.glob("*.log"))
        assert int(said.pop("size.bytes")) <= written
        times = {said.pop(key, None) is not None for key in ("first.time", "last.time")}
        assert times == {bool(stamps and stamps[0] >= 0), largest >= 0}
        assert said == expected


def checkpointed_epochs(directory: Path) -> list[list[str]]:
    path = directory / "leader-epoch-checkpoint"
    return [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []


def test_leader_epochs_are_those_of_the_checkpoint(store: Store) -> None:
    clock = StandingClock()
    for source in sources(store, clock):
        rows = table(source, View.LEADER_EPOCHS, clock)
        assert [[row["epoch"], row["startOffset"]] for row in rows] == checkpointed_epochs(source.directory)


def test_producers_are_those_that_the_real_tool_prints_of_the_last_snapshot(
    store: Store, dataset: tuple[Path, Path]
) -> None:
    clock = StandingClock(1_700_000_600_000)
    compared = 0
    for source in sources(store, clock):
        end_offset = source.log.view.end_offset
        dump = dataset[1] / source.directory.relative_to(dataset[0]) / f"{end_offset:020d}.snapshot.txt"
        if not dump.exists():
            continue
        printed = [DUMPED_SNAPSHOT.fullmatch(line) for line in dump.read_text().splitlines()]
        assert all(printed)
        expected = []
        for producer, epoch, coordinator, transaction, timestamp, sequence, offset in (
            match.groups() for match in printed if match
        ):
            number = re.sub(r"\D", "", transaction)
            expected.append([producer, epoch, coordinator, sequence, offset, timestamp, number])
        rows = table(source, View.PRODUCERS, clock)
        names = ("producerId", "producerEpoch", "coordinatorEpoch", "lastSequence", "lastOffset", "lastTimestamp")
        said = [[*(row[name] for name in names), row["transactionFirstOffset"]] for row in rows]
        assert said == [[value if value not in {"-1", ""} else "-" for value in row] for row in sorted(expected)]
        compared += len(expected)
    assert compared or "killed" in str(dataset[0])


def test_aborted_transactions_are_those_that_the_real_tool_prints(store: Store, dataset: tuple[Path, Path]) -> None:
    clock = StandingClock()
    compared = 0
    for source in sources(store, clock):
        dumps = dataset[1] / source.directory.relative_to(dataset[0])
        matches = [
            DUMPED_ABORTED.fullmatch(line)
            for path in sorted(dumps.glob("*.txnindex.txt"))
            for line in path.read_text().splitlines()
        ]
        assert all(matches)
        expected = [list(match.groups()) for match in matches if match]
        rows = [row for row in table(source, View.TRANSACTIONS, clock) if row["state"] == "aborted"]
        said = [[row["producerId"], row["firstOffset"], row["lastOffset"]] for row in rows]
        start_offset = source.log.view.start_offset
        assert said == [row for row in reversed(expected) if int(row[2]) >= start_offset]
        compared += len(said)
    assert compared


def test_open_transactions_are_those_without_a_marker(store: Store) -> None:
    clock = StandingClock()
    compared = 0
    for source in sources(store, clock):
        unended: dict[int, str] = {}
        view = source.log.view
        for segment in view.segments:
            for batch in segment.batches():
                if isinstance(batch, RecordBatch) and batch.is_transactional:
                    if batch.is_control:
                        unended.pop(batch.producer_id, None)  # what it ended may be compacted away
                    else:
                        unended.setdefault(batch.producer_id, str(batch.base_offset))
        rows = [row for row in table(source, View.TRANSACTIONS, clock) if row["state"] == "open"]
        assert {int(row["producerId"]): row["firstOffset"] for row in rows} == unended
        compared += len(rows)
    assert compared


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_a_writer_sees_the_same(name: str, datasets: Callable[[str], Path], tmp_path: Path) -> None:
    clock = StandingClock(1_700_000_600_000)
    original = datasets(name) / name
    for topic in ("t-txn-0", "t-txn-open-0", "t-upgrade-0", "t-idem-0"):
        (found,) = [path for directory in log_dirs(original) for path in [directory / topic] if path.exists()]
        shutil.copytree(found, tmp_path / found.parent.name / topic)
        for file in ("meta.properties", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
            shutil.copy(found.parent / file, tmp_path / found.parent.name)
    said = []
    for mode in (Mode.READ_ONLY, Mode.READ_WRITE):
        with Store.open(log_dirs(tmp_path), mode=mode, files=Files(), clock=clock) as opened:
            said.append([_all_facts(source, clock) for source in sources(opened, clock)])
    assert len(said[0]) == 4
    for (followed_info, *followed, followed_epochs), (written_info, *written, written_epochs) in zip(
        *said, strict=True
    ):
        assert followed == written
        # As brokers do, a writer forgets the epoch of a leader that has not written anything.
        end_offset = int(written_info["end.offset"])
        assert [row for row in followed_epochs if int(row["startOffset"]) < end_offset] == written_epochs
        different = {key for key in followed_info if followed_info[key] != written_info[key]}
        # The indexes of the active segment are made long again for a writer.
        assert different - {"leader.epoch"} == {"is.writable", "index.bytes"}
        assert written_info["leader.epoch"] == written_epochs[-1]["epoch"]


def _all_facts(source: LogSource, clock: StandingClock) -> list[dict[str, str] | list[dict[str, str]]]:
    return [info(source, clock), *(table(source, file, clock) for file in TABLES)]
