"""The job `lag`, against groups that a test has committed and records counted one by one."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker_clients import create_topic
from click.testing import CliRunner
from group_stores import commit, end, write

from kafkafs.cli import main
from kafkafs.spark import jobs, read
from kafkafs.spark.errors import MissingGroupError, MissingTopicError, OptionError
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.record import batches_of_rows
from storage.record.compression import Codec
from storage.record.encoding import BatchForm
from storage.segment.names import Kind
from storage.split.splits import packed
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from click.testing import Result
    from conftest import GrowingStore
    from pyspark.sql import SparkSession
    from real_brokers import Broker, RealKafka

TIME_MS = 1_700_000_000_000
SPLIT_BYTES = 4_000
PACK_BYTES = 20_000


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tasks do little, so that there are many, and logs are cut."""
    module = import_module("kafkafs.spark.jobs.records_from")
    monkeypatch.setattr(module, "DEFAULT_SPLIT_BYTES", SPLIT_BYTES)
    monkeypatch.setattr(module, "packed", lambda pieces, *_: packed(pieces, PACK_BYTES))


def rows_of(found: Any) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row.group, row.topic, row.partition): row.asDict() for row in found.collect()}


def of(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["spark", "lag", *map(str, arguments)])
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def consumed(growing: GrowingStore) -> GrowingStore:
    """Make a store of two partitions in which three groups have different positions."""
    growing.create("orders", 2)
    growing.store.topics.create(offsets.TOPIC, 2)
    for partition, count in ((0, 100), (1, 40)):
        growing.append("orders", partition, count)
    for offset in (0, 37, 100):
        commit(growing.store, f"at-{offset}", "orders", 0, offset, at=offset % 2)
    commit(growing.store, "at-37", "orders", 1, 39, at=1)
    commit(growing.store, "at-0", "elsewhere", 5, 7)
    commit(growing.store, "left", "orders", 0, 1)
    commit(growing.store, "left", "orders", 0, None)
    return growing


# Against its own logs


def test_what_groups_have_not_consumed(spark: SparkSession, consumed: GrowingStore) -> None:
    before_ms = Clock().now_ms()
    found = rows_of(jobs.lag(spark, consumed.path))
    names = ("committedOffset", "startOffset", "endOffset", "lag", "records", "firstTimestamp")
    assert {key: of(row, *names) for key, row in found.items()} == {
        ("at-0", "elsewhere", 5): (7, None, None, None, None, None),
        ("at-0", "orders", 0): (0, 0, 100, 100, 100, TIME_MS),
        ("at-100", "orders", 0): (100, 0, 100, 0, 0, None),
        ("at-37", "orders", 0): (37, 0, 100, 63, 63, TIME_MS + 37),
        ("at-37", "orders", 1): (39, 0, 40, 1, 1, TIME_MS + 39),
    }
    assert list(found) == sorted(found)
    for row in found.values():
        assert row["committedTimestamp"] == TIME_MS
        since_s = row["behindSeconds"]
        assert (since_s is None) == (row["firstTimestamp"] is None)
        if since_s is not None:  # whole seconds
            then_ms = row["firstTimestamp"] + since_s * 1000
            assert then_ms <= Clock().now_ms()
            assert before_ms < then_ms + 1000
        assert {row[name] for name in ("otherStartOffset", "otherLag", "missingRecords", "timeOffset")} == {None}


def test_some_groups(spark: SparkSession, consumed: GrowingStore) -> None:
    assert {group for group, _, _ in rows_of(jobs.lag(spark, consumed.path, ["at-37", "at-100"]))} == {
        "at-37",
        "at-100",
    }
    with pytest.raises(MissingGroupError, match="no group 'left'"):
        jobs.lag(spark, consumed.path, ["at-37", "left"])


def test_committed_offsets_that_the_log_does_not_have(spark: SparkSession, consumed: GrowingStore) -> None:
    """Records that are gone are not counted, and an offset beyond the end has a lag below 0."""
    start = consumed.retire("orders", 0, keep=2)
    commit(consumed.store, "beyond", "orders", 1, 45)
    found = rows_of(jobs.lag(spark, consumed.path))
    names = ("startOffset", "lag", "records", "firstTimestamp")
    assert 37 < start < 100
    for offset in (0, 37):
        row = found[f"at-{offset}", "orders", 0]
        assert of(row, *names) == (start, 100 - offset, 100 - start, TIME_MS + start)
    assert of(found["beyond", "orders", 1], *names) == (0, -5, 0, None)


def test_records_are_those_that_consumers_see(spark: SparkSession, growing: GrowingStore) -> None:
    """Markers are none, and what was aborted is one, as for a consumer that reads uncommitted records."""
    growing.create("orders")
    growing.store.topics.create(offsets.TOPIC, 1)
    growing.append("orders", 0, 5)
    for committed in (True, False):
        write(growing.store, "orders", b"k", b"v", producer_id=7)
        end(growing.store, "orders", 0, 7, committed=committed)
    commit(growing.store, "all", "orders", 0, 0)
    commit(growing.store, "rest", "orders", 0, 6)  # at the first marker
    found = rows_of(jobs.lag(spark, growing.path))
    assert of(found["all", "orders", 0], "lag", "records") == (9, 7)
    assert of(found["rest", "orders", 0], "lag", "records") == (3, 1)


def test_many_offsets_within_batches_and_segments(spark: SparkSession, growing: GrowingStore) -> None:
    """What is counted from headers and one by one is what the source's rows are."""
    growing.create("orders", 2)
    growing.store.topics.create(offsets.TOPIC, 1)
    for number in range(60):
        rows = [(TIME_MS + number * 100 - at, b"k", b"v" * 30, ()) for at in range(1 + number % 9)]
        (batch,) = batches_of_rows(rows, form=BatchForm(codec=Codec(number % 5)))
        growing.store.log("orders", number % 2).append_as_leader(batch, leader_epoch=0)
    ends = {number: growing.store.log("orders", number).view.end_offset for number in (0, 1)}
    for number, last in ends.items():
        for offset in range(0, last, 3):
            commit(growing.store, f"group-{offset}", "orders", number, offset)
    time_ms = TIME_MS + 3_000
    found = rows_of(jobs.lag(spark, growing.path, time=time_ms))
    records = read(spark, growing.path, topics="orders", columns=["partition", "offset", "timestamp"]).collect()
    assert len(found) == sum(len(range(0, last, 3)) for last in ends.values())
    for (_, _, number), row in found.items():
        left = sorted((each.offset, each.timestamp) for each in records if each.partition == number)
        late = [offset for offset, time in left if time.timestamp() * 1000 >= time_ms]
        left = [each for each in left if each[0] >= row["committedOffset"]]
        assert (row["records"], row["lag"]) == (len(left), ends[number] - row["committedOffset"])
        assert row["firstTimestamp"] == round(left[0][1].timestamp() * 1000)
        assert row["timeOffset"] == late[0]
        assert row["recordsBefore"] == len([offset for offset, _ in left if offset < late[0]])


@pytest.mark.golden
def test_groups_of_a_real_broker(spark: SparkSession, datasets: Callable[[str], Path]) -> None:
    """Offsets and lag are those of `kafkafs groups`; records those that the source's rows have."""
    for name in ("kafka-2.2", "kafka-3.9"):
        store = [datasets(name) / name / each for each in ("d1", "d2")]
        found = rows_of(jobs.lag(spark, store))
        shown = json.loads(CliRunner().invoke(main, ["groups", ",".join(map(str, store)), "--json"]).stdout)
        expected = {(row["group"], row["topic"], row["partition"]): row for row in shown if row["topic"] is not None}
        assert found.keys() == expected.keys()
        assert len(found) >= 4
        records = read(spark, store, columns=["topic", "partition", "offset"]).collect()
        for key, row in found.items():
            assert of(row, "committedOffset", "endOffset", "lag") == of(
                expected[key], "committedOffset", "endOffset", "lag"
            )
            left = [each for each in records if (each.topic, each.partition) == key[1:]]
            assert row["records"] == len([each for each in left if each.offset >= row["committedOffset"]])


def test_a_running_broker(spark: SparkSession, real_kafka: RealKafka, tmp_path: Path) -> None:
    """Offsets and lag are what kafka-consumer-groups prints."""
    settings = {"offsets.topic.num.partitions": "3", "offsets.topic.replication.factor": "1"}
    with real_kafka.broker(tmp_path / "one", settings) as broker:
        asyncio.run(create_topic(broker.bootstrap, "orders", 2))
        asyncio.run(consume_some(broker))
        to = ("--bootstrap-server", broker.bootstrap)
        printed = real_kafka.tool("ConsumerGroupCommand", *to, "--describe", "--all-groups")
        told = [line.split()[:6] for line in printed.splitlines() if " orders " in line]
        found = rows_of(jobs.lag(spark, broker.log_dirs))
        columns = ("committedOffset", "endOffset", "lag")
        assert sorted(told) == [[*map(str, (*key, *of(row, *columns)))] for key, row in found.items()]
        assert {key: of(row, "records") for key, row in found.items()} == {
            ("one", "orders", 0): (6,),
            ("one", "orders", 1): (0,),
            ("two", "orders", 0): (10,),
        }


async def consume_some(broker: Broker) -> None:
    """Have two groups commit offsets in two partitions of ten and of five records."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(15):
            await producer.send_and_wait("orders", b"%d" % number, partition=number // 10)
    first, second = (TopicPartition("orders", number) for number in (0, 1))
    for group, committed in (("one", {first: 4, second: 5}), ("two", {first: 0})):
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group) as consumer:
            consumer.assign(list(committed))
            await consumer.commit(committed)


# Against another store


def test_against_a_store_that_is_behind(spark: SparkSession, consumed: GrowingStore, tmp_path: Path) -> None:
    """A replica that has fewer records, begins later, or does not have a partition."""
    with Store.create([tmp_path / "other"], files=Files(), clock=Clock()) as other:
        other.topics.create("orders", 1)
        for offset in range(60):
            (batch,) = batches_of_rows([(TIME_MS + offset, b"key", b"v", ())])
            other.log("orders", 0).append_as_leader(batch, leader_epoch=0)
        other.log("orders", 0).advance_start(10)
    found = rows_of(jobs.lag(spark, consumed.path, other=tmp_path / "other"))
    names = ("otherStartOffset", "otherEndOffset", "otherLag", "otherRecords", "missingRecords")
    assert {key: of(row, *names) for key, row in found.items()} == {
        ("at-0", "elsewhere", 5): (None, None, None, None, None),
        ("at-0", "orders", 0): (10, 60, 60, 50, 50),
        ("at-100", "orders", 0): (10, 60, -40, 0, 0),
        ("at-37", "orders", 0): (10, 60, 23, 23, 40),
        ("at-37", "orders", 1): (None, None, None, None, 1),
    }
    assert {row["records"] for row in found.values()} == {None, 0, 1, 63, 100}


def test_partitions_that_only_the_other_store_has(spark: SparkSession, consumed: GrowingStore, tmp_path: Path) -> None:
    """Groups are told by the brokers that coordinate them, and their logs may be on others."""
    with Store.create([tmp_path / "other"], files=Files(), clock=Clock()) as other:
        other.topics.create("elsewhere", 6)
        for offset in range(9):
            (batch,) = batches_of_rows([(TIME_MS + offset, b"key", b"v", ())])
            other.log("elsewhere", 5).append_as_leader(batch, leader_epoch=0)
    row = rows_of(jobs.lag(spark, consumed.path, other=tmp_path / "other"))["at-0", "elsewhere", 5]
    assert of(row, "records", "otherStartOffset", "otherEndOffset", "otherLag", "otherRecords", "missingRecords") == (
        *(None, 0, 9, 2, 2),
        None,
    )


# Against a time


@pytest.mark.parametrize(
    "time", [TIME_MS + 50, str(TIME_MS + 50), "2023-11-14T22:13:20.050Z", datetime.fromtimestamp(1_700_000_000.05, UTC)]
)
def test_against_a_time(spark: SparkSession, consumed: GrowingStore, time: Any) -> None:
    found = rows_of(jobs.lag(spark, consumed.path, time=time))
    assert {key: of(row, "timeOffset", "recordsBefore") for key, row in found.items()} == {
        ("at-0", "elsewhere", 5): (None, None),
        ("at-0", "orders", 0): (50, 50),
        ("at-100", "orders", 0): (50, 0),
        ("at-37", "orders", 0): (50, 13),
        ("at-37", "orders", 1): (40, 1),
    }


@pytest.mark.parametrize("time", ["tomorrow", 1_700_000_000, datetime(2023, 11, 14)])
def test_what_is_no_time(spark: SparkSession, consumed: GrowingStore, time: Any) -> None:
    with pytest.raises(OptionError):
        jobs.lag(spark, consumed.path, time=time)


# What cannot be counted


def test_a_store_that_tells_of_no_groups(spark: SparkSession, growing: GrowingStore) -> None:
    growing.create("orders")
    with pytest.raises(MissingTopicError, match="no partition of __consumer_offsets"):
        jobs.lag(spark, growing.path)


@pytest.mark.parametrize("topic", ["orders", offsets.TOPIC])
def test_damage_ends_the_job(consumed: GrowingStore, topic: str) -> None:
    log = Path(consumed.store.log(topic, 0).view.segments[-1].path(Kind.LOG))
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    result = run(consumed.path)
    assert (result.exit_code, result.stdout) == (3, "")
    assert str(log) in result.stderr
    assert "CRC" in result.stderr


# The command


def test_the_command(consumed: GrowingStore, tmp_path: Path) -> None:
    result = run(consumed.path, "at-37", "--jsonl")
    assert result.exit_code == 0
    first, second = map(json.loads, result.stdout.splitlines())
    assert of(first, "topic", "partition", "records") == ("orders", 0, 63)
    assert of(second, "topic", "partition", "records") == ("orders", 1, 1)
    assert not {"otherLag", "timeOffset"} & first.keys()
    assert result.stderr.startswith("counted 1 groups, 2 partitions, 64 records to consume in ")

    result = run(consumed.path, "--against", consumed.path, "--at", TIME_MS + 50, "--csv")
    names, *lines = result.stdout.splitlines()
    assert names.endswith("otherLag,otherRecords,missingRecords,timeOffset,recordsBefore")
    assert [line.split(",")[-3:] for line in lines] == [
        *(["", "", ""], ["0", "50", "50"], ["0", "50", "0"]),
        *(["0", "50", "13"], ["0", "40", "1"]),
    ]
    result = run(consumed.path, "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no group 'nobody'" in result.stderr
    assert run(consumed.path, "--at", "tomorrow").exit_code == 2
    assert run(consumed.path, "--against", tmp_path / "nowhere").exit_code == 2
