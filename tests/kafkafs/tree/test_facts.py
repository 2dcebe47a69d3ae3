"""`info`, `transactions`, `producers` and `leader-epochs` of logs with known contents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, PRODUCER_EXPIRATION_MS, LogOnMemory, StandingClock, sent

from kafkafs.locator.paths import PartitionFilePath, PartitionPath, TopicPath
from kafkafs.locator.views import View
from kafkafs.tree import info_file, log_fact
from kafkafs.tree.epochs_file import EpochsFile
from kafkafs.tree.info_file import InfoFile
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.producers_file import ProducersFile
from kafkafs.tree.rights import Rights
from kafkafs.tree.transactions_file import ABORTED_MAX, TransactionsFile
from storage.budget import MEMORY
from storage.errors import MemoryBudgetError, NulFilledCheckpointError
from storage.log.followed_log import FollowedLog
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.log_dir import LogDir
from storage.record.encoding import BatchForm

if TYPE_CHECKING:
    from storage.log.log import Log

FACTS = {
    View.INFO: InfoFile,
    View.TRANSACTIONS: TransactionsFile,
    View.PRODUCERS: ProducersFile,
    View.LEADER_EPOCHS: EpochsFile,
}


def fact(file: View, source: LogSource, clock: StandingClock) -> InfoFile | TransactionsFile:
    return FACTS[file](PartitionFilePath(source.path, file), source, clock)


def read(node: InfoFile | TransactionsFile) -> bytes:
    reading = node.open()
    assert reading.size_bytes() == node.attributes().size_bytes
    return bytes(reading.read(0, 1 << 20))


def table(source: LogSource, file: View, clock: StandingClock) -> list[dict[str, str]]:
    names, *rows = (line.split("\t") for line in read(fact(file, source, clock)).decode().splitlines())
    return [dict(zip(names, row, strict=True)) for row in rows]


def info(source: LogSource, clock: StandingClock) -> dict[str, str]:
    lines = read(fact(View.INFO, source, clock)).decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


class Memory(LogOnMemory):
    """A log in memory, and the sources of its views."""

    def source(self, options: TreeOptions = TreeOptions()) -> LogSource:  # noqa: B008 -- frozen
        return self._source(self.log, options, writable=self.log)

    def followed(self, options: TreeOptions = TreeOptions()) -> LogSource:  # noqa: B008 -- frozen
        log = FollowedLog(
            self.clock, self.files.directory(DIRECTORY), self.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
        )
        return self._source(log, options, writable=None)

    def _source(self, log: Log | FollowedLog, options: TreeOptions, *, writable: Log | None) -> LogSource:
        path = PartitionPath(TopicPath("topic"), 0)
        log_dir = LogDir(self.files.directory("/"))
        directory = Path(DIRECTORY)
        return LogSource(
            path,
            "topic",
            0,
            directory,
            log,
            options,
            files=self.files,
            log_dir=log_dir,
            identity=1,
            writable=writable,
            rights=Rights([log_dir], is_shared=False),
        )


@pytest.fixture
def memory() -> Memory:
    return Memory()


# A log with known contents


def test_info_adds_up_the_indexes_of_few_segments_and_of_many(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        memory.produce(b"a" * 100, number, producer_id=1)
        memory.log.roll()
    directory = memory.files.directory(DIRECTORY)
    sizes = [status.size_bytes for name, status in directory.statuses().items() if name.endswith("index")]
    assert len(sizes) >= 6
    for source in (memory.source(), memory.followed()):
        assert info(source, memory.clock)["index.bytes"] == str(sum(sizes))
        with monkeypatch.context() as patch:
            patch.setattr(info_file, "LOOKED_AT_MAX", 2)
            assert info(source, memory.clock)["index.bytes"] == str(sum(sizes))


def test_transactions_tells_the_open_ones_first_and_the_latest_abort_next(memory: Memory) -> None:
    memory.produce(b"a", 0, producer_id=1, transactional=True)
    memory.produce(b"b", 0, producer_id=2, transactional=True)
    memory.end_transaction(1, committed=False)
    memory.produce(b"c", 0, producer_id=3, transactional=True)
    memory.end_transaction(2, committed=True)
    memory.produce(b"d", 1, producer_id=1, transactional=True)
    memory.end_transaction(1, committed=False)
    memory.produce(b"e", 2, producer_id=1, transactional=True)
    memory.clock.ms += 65_999
    expected = (
        "state\tproducerId\tproducerEpoch\tcoordinatorEpoch\tfirstOffset\tlastOffset\tlastTimestamp\tageSeconds\n"
        f"open\t3\t0\t-\t3\t3\t{NOW_MS}\t65\n"
        f"open\t1\t0\t0\t7\t7\t{NOW_MS}\t65\n"
        f"aborted\t1\t0\t0\t5\t6\t{NOW_MS}\t65\n"
        f"aborted\t1\t0\t0\t0\t2\t{NOW_MS}\t65\n"
    )
    for source in (memory.source(), memory.followed()):
        assert read(fact(View.TRANSACTIONS, source, memory.clock)).decode() == expected


def test_producers_expire(memory: Memory) -> None:
    """Also while a log is followed, and before the log itself forgets them."""
    memory.produce(b"a", 0, producer_id=1)
    memory.produce(b"b", 0, producer_id=2, transactional=True)
    memory.log.append_as_leader(
        sent([(NOW_MS + 5000, b"c")], BatchForm(producer_id=3, producer_epoch=0, base_sequence=0))
    )
    sources = memory.source(), memory.followed()
    for passed_ms, producers in [
        (0, ["1", "2", "3"]),
        (PRODUCER_EXPIRATION_MS - 1, ["1", "2", "3"]),
        (1, ["2", "3"]),
        (4999, ["2", "3"]),
        (1, ["2"]),  # its transaction is open
    ]:
        memory.clock.ms += passed_ms
        for source in (*sources, memory.followed()):
            rows = table(source, View.PRODUCERS, memory.clock)
            assert [row["producerId"] for row in rows] == producers
    assert len(memory.log.producers.states()) == 3
    memory.log.expire_producers()
    assert [state.producer_id for state in memory.log.producers.states()] == [2]


def test_the_high_watermark_is_never_beyond_the_end(memory: Memory) -> None:
    """A broker writes it down every five seconds; a truncation by its leader comes in between."""
    for _ in range(5):
        memory.log.append_as_leader(sent(b"value"))
    source = memory.followed()
    for written, shown in [(3, "3"), (5, "5")]:
        source.log_dir.write_offsets(OffsetCheckpoint.HIGH_WATERMARK, {("topic", 0): written})
        assert info(source, memory.clock)["high.watermark"] == shown
    memory.log.truncate_to(2)
    memory.clock.ms += 1000
    said = info(source, memory.clock)
    assert (said["end.offset"], said["high.watermark"]) == ("2", "2")


def test_a_log_without_transactions_has_the_names_alone(memory: Memory) -> None:
    for source in (memory.source(), memory.followed()):
        for file in (View.TRANSACTIONS, View.PRODUCERS, View.LEADER_EPOCHS):
            assert table(source, file, memory.clock) == []
            assert read(fact(file, source, memory.clock)).count(b"\n") == 1


def test_only_the_latest_of_many_aborted_transactions_are_told(memory: Memory) -> None:
    markers = []
    for sequence in range(ABORTED_MAX + 40):
        memory.produce(b"value", sequence, transactional=True)
        markers.append(memory.end_transaction(committed=False))
    memory.run_tasks()
    assert len(memory.log.view.segments) > 20
    for source in (memory.source(), memory.followed()):
        rows = table(source, View.TRANSACTIONS, memory.clock)
        assert [int(row["lastOffset"]) for row in rows] == markers[: -ABORTED_MAX - 1 : -1]


def test_aborted_transactions_before_the_start_are_not_told(memory: Memory) -> None:
    for sequence in range(100):
        memory.produce(b"value", sequence, transactional=True)
        memory.end_transaction(committed=False)
    memory.run_tasks()
    memory.log.advance_start(101)
    rows = table(memory.source(), View.TRANSACTIONS, memory.clock)
    assert [int(row["firstOffset"]) for row in rows] == list(range(198, 98, -2))


def test_an_aborted_transaction_is_told_without_its_marker(memory: Memory) -> None:
    memory.produce(b"value", 0, transactional=True)
    memory.end_transaction(committed=False)
    path = f"{DIRECTORY}/00000000000000000000.log"
    second = memory.log.view.find(1)
    assert second is not None
    with memory.files.open_writing(path) as file:
        file.write_at(second.position + 43, [b"\0\0\0\0\0\0\0\x09"])  # the marker is another producer's
    (row,) = table(memory.source(), View.TRANSACTIONS, memory.clock)
    assert list(row.values()) == ["aborted", "7", "-", "-", "0", "1", "-", "-"]


def test_producers_are_told_until_they_expire(memory: Memory) -> None:
    memory.produce(b"a", 0, producer_id=12)
    memory.produce(b"b", 5, producer_id=9, transactional=True)
    memory.produce(b"c", 1, producer_id=12)
    memory.clock.ms += 2000
    expected = (
        "producerId\tproducerEpoch\tcoordinatorEpoch\tlastSequence\tlastOffset\tlastTimestamp\tageSeconds"
        "\ttransactionFirstOffset\n"
        f"9\t0\t-\t5\t1\t{NOW_MS}\t2\t1\n"
        f"12\t0\t-\t1\t2\t{NOW_MS}\t2\t-\n"
    )
    for source in (memory.source(), memory.followed()):
        assert read(fact(View.PRODUCERS, source, memory.clock)).decode() == expected
    memory.clock.ms += PRODUCER_EXPIRATION_MS
    memory.log.expire_producers()
    assert [row["producerId"] for row in table(memory.source(), View.PRODUCERS, memory.clock)] == ["9"]


def test_info_of_an_empty_log(memory: Memory) -> None:
    assert read(fact(View.INFO, memory.source(), memory.clock)).decode() == (
        "topic=topic\npartition=0\ndirectory=/topic-0\nstart.offset=0\nend.offset=0\nlast.stable.offset=0\nsegments=1\n"
        "active.segment=00000000000000000000.log\nsize.bytes=0\nindex.bytes=2400\nis.writable=true\nis.poisoned=false\n"
    )


def test_info_of_a_directory_without_segments(memory: Memory) -> None:
    memory.log.close()
    for name in memory.files.names(DIRECTORY):
        memory.files.remove(f"{DIRECTORY}/{name}")
    said = info(memory.followed(), memory.clock)
    assert said["segments"] == "0"
    assert said["end.offset"] == "0"
    assert "active.segment" not in said


def test_times_are_of_the_first_record_and_the_largest(memory: Memory) -> None:
    append = memory.log.append_as_leader
    append(sent([(NOW_MS + 5, b"a"), (NOW_MS + 1, b"b")]), leader_epoch=4)
    append(sent([(NOW_MS + 9, b"c")]), leader_epoch=5)
    append(sent([(NOW_MS + 7, b"d")]), leader_epoch=5)
    said = info(memory.source(), memory.clock)
    assert said["first.timestamp"] == str(NOW_MS + 5)
    assert said["first.time"] == "2023-11-14T22:13:20.005Z"
    assert said["last.timestamp"] == str(NOW_MS + 9)
    assert said["last.time"] == "2023-11-14T22:13:20.009Z"
    assert said["leader.epoch"] == "5"
    memory.log.advance_start(1)
    assert info(memory.source(), memory.clock)["first.timestamp"] == str(NOW_MS + 1)


def test_info_leaves_out_what_is_damaged(memory: Memory) -> None:
    memory.produce(b"value", 0)
    with memory.files.open_writing(f"{DIRECTORY}/leader-epoch-checkpoint", create=True) as file:
        file.truncate(0)
        file.write_at(0, [b"\0" * 8])
    with memory.files.open_writing(f"{DIRECTORY}/partition.metadata", create=True) as file:
        file.write_at(0, [b"nothing of the kind"])
    source = memory.followed()
    said = info(source, memory.clock)
    assert "leader.epoch" not in said
    assert "topic.id" not in said
    assert said["end.offset"] == "1"
    with pytest.raises(NulFilledCheckpointError):
        read(fact(View.LEADER_EPOCHS, source, memory.clock))


# What costs much, and what is kept


def test_what_takes_long_has_no_size_until_somebody_has_read_it(memory: Memory) -> None:
    memory.produce(b"value", 0, transactional=True)
    source = memory.followed(TreeOptions(counted_bytes_max=0))
    for file in (View.TRANSACTIONS, View.PRODUCERS):
        assert fact(file, source, memory.clock).attributes().size_bytes is None
    assert "last.stable.offset" not in info(source, memory.clock)
    assert fact(View.TRANSACTIONS, source, memory.clock).open().read(0, 1000)
    for file in (View.TRANSACTIONS, View.PRODUCERS):
        assert read(fact(file, source, memory.clock))
    assert info(source, memory.clock)["last.stable.offset"] == "0"
    memory.produce(b"value", 1, transactional=True)
    assert fact(View.PRODUCERS, source, memory.clock).attributes().size_bytes is None


def test_very_many_producers_have_no_size(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for sequence in range(3):
        memory.produce(b"value", sequence)
    memory.log.roll()
    memory.run_tasks()
    source = memory.followed()
    monkeypatch.setattr(log_fact, "_PRODUCERS_MAX", 0)
    assert "last.stable.offset" not in info(source, memory.clock)
    for _ in range(2):  # before and after they are known
        for file in (View.TRANSACTIONS, View.PRODUCERS):
            assert fact(file, source, memory.clock).attributes().size_bytes is None
        assert bytes(fact(View.PRODUCERS, source, memory.clock).open().read(0, 1000)).count(b"\n") == 2
    assert info(source, memory.clock)["last.stable.offset"] == "3"
    assert fact(View.PRODUCERS, memory.source(), memory.clock).attributes().size_bytes is None


@pytest.mark.usefixtures("settled_memory")
def test_few_producers_are_told_while_others_have_all_memory(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.produce(b"value", 0)
    source = memory.followed()
    lease = MEMORY.lease(MEMORY.left_bytes)
    try:
        for file in (View.TRANSACTIONS, View.PRODUCERS):
            assert read(fact(file, source, memory.clock))
        monkeypatch.setattr(log_fact, "_PRODUCERS_MAX", 0)
        with pytest.raises(MemoryBudgetError, match="the rows of 1 producers"):
            fact(View.PRODUCERS, source, memory.clock).open()
    finally:
        lease.end()


def test_what_lies_before_the_newest_snapshot_needs_no_reading(memory: Memory) -> None:
    for sequence in range(100):
        memory.produce(b"value", sequence)
    memory.log.roll()
    memory.run_tasks()
    followed = memory.followed().log
    assert isinstance(followed, FollowedLog)
    assert followed.unread_bytes == 0
    memory.produce(b"value", 100)
    assert followed.unread_bytes == followed.view.end_position


def test_a_stat_and_the_open_after_it_agree(memory: Memory) -> None:
    node = fact(View.INFO, memory.source(), memory.clock)
    size_bytes = node.attributes().size_bytes
    memory.log.append_as_leader(sent(b"value"))
    memory.clock.ms += 999
    reading = node.open()
    assert reading.size_bytes() == size_bytes
    assert b"end.offset=0\n" in bytes(reading.read(0, 1000))
    memory.clock.ms += 1
    assert b"end.offset=1\n" in bytes(node.open().read(0, 1000))
    assert b"end.offset=0\n" in bytes(reading.read(0, 1000))


def test_a_fact_is_as_old_as_the_log(memory: Memory) -> None:
    memory.produce(b"value", 0)
    status = memory.files.status(f"{DIRECTORY}/00000000000000000000.log")
    assert status is not None
    source = memory.source()
    found = fact(View.INFO, source, memory.clock).attributes()
    assert found.modified_ms == status.modified_ms
    assert found.access == source.access()
    assert not found.is_writable
    assert not found.is_lasting
