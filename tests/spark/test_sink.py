"""DataFrames appended to a store: what Spark's own Kafka sink would take, once, by Spark itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


WATCHER = """
import sys
from select import select
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

with Store.open([sys.argv[1]], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
    logs = [store.log("t", partition) for partition in range(3)]
    print("watching", flush=True)
    seen, is_stopped = set(), False
    while not is_stopped:
        is_stopped = bool(select([sys.stdin], [], [], 0)[0])
        seen.update(log.view.end_offset for log in logs)
    print(*seen)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "sunk"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 3)
    return path


def records(path: Path) -> dict[tuple[str, int], list]:
    """All records by their partitions; offsets have no gaps, and nothing that was staged is left."""
    found = {}
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        for partition in sorted(opened.topics.inventory.partitions()):
            view = opened.log(*partition).view
            found[partition] = [record for batch in view.batches(0) for record in batch.records()]
            assert [record.offset for record in found[partition]] == list(range(view.end_offset))
    return found


def values(path: Path) -> list[bytes]:
    return sorted(record.value for found in records(path).values() for record in found)


def numbers(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


def staged(path: Path) -> list[str]:
    return [each.name for each in path.iterdir() if each.name.startswith("kafkafs-staged")]


def test_columns_become_records(spark: SparkSession, store: Path) -> None:
    rows = spark.sql(
        """
        select * from values
          ('k', binary('v'), array(named_struct('key', 'h', 'value', binary('1')),
                                   named_struct('key', 'h', 'value', cast(null as binary))),
           't', 2, timestamp_millis(1700000000123)),
          (null, null, null, 't', 1, null)
        as rows(key, value, headers, topic, partition, timestamp)
        """
    )
    rows.write.format("kafkafs").mode("append").save(str(store))
    found = records(store)
    (full,) = found["t", 2]
    assert (full.key, full.value, full.timestamp) == (b"k", b"v", 1700000000123)
    assert list(full.headers) == [("h", b"1"), ("h", None)]
    (empty,) = found["t", 1]
    assert (empty.key, empty.value, list(empty.headers)) == (None, None, [])
    assert abs(empty.timestamp - Clock().now_ms()) < 600_000
    assert staged(store) == []


def test_keys_go_where_kafka_sends_them_and_missing_topics_are_made(spark: SparkSession, store: Path) -> None:
    murmur2 = pytest.importorskip("kafka.partitioner.default").murmur2
    rows = spark.range(200).selectExpr("cast(id as string) as key", "cast(id as string) as value", "'other' as topic")
    rows.write.format("kafkafs").mode("append").option("topic", "t").save(str(store))
    for (_, partition), found in records(store).items():
        assert all((murmur2(record.key) & 0x7FFFFFFF) % 3 == partition for record in found)
    assert values(store) == numbers(200)
    rows.write.format("kafkafs").mode("append").save(str(store))
    assert len(records(store)["other", 0]) == 200


def test_a_write_is_done_once_though_tasks_fail_and_it_is_repeated(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    flag = str(tmp_path / "failed")

    def fails_once(batches):
        for batch in batches:
            yield batch
            if not Path(flag).exists():
                Path(flag).touch()
                raise RuntimeError("the first attempt fails")

    rows = spark.range(1000, numPartitions=2).selectExpr("cast(id as string) as value", "'t' as topic")
    for _ in range(2):
        failing = rows.mapInArrow(fails_once, rows.schema)
        failing.write.format("kafkafs").mode("append").options(txnAppId="app", txnVersion="1").save(str(store))
        assert values(store) == numbers(1000)
    assert Path(flag).exists()
    assert staged(store) == []


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        (
            ["id as value"],
            {"topic": "t"},
            "value attribute unsupported type bigint. value must be a(n) string or binary",
        ),
        (["'v' as value"], {}, "topic option required when no 'topic' attribute is present. Use the topic option"),
        (["'k' as key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["'v' as value", "cast(null as string) as topic"], {}, "null topic present in the data. Use the topic option"),
        (["'v' as value"], {"topic": "missing", "createTopics": "false"}, "there is no topic 'missing'"),
        (["'v' as value", "9 as partition"], {"topic": "t"}, "the topic t has no partition 9"),
    ],
)
def test_what_cannot_be_written_is_told(spark: SparkSession, store: Path, columns, options, text: str) -> None:
    rows = spark.range(1).selectExpr(*columns)
    with pytest.raises(Exception, match=re.escape(text)):
        rows.write.format("kafkafs").mode("append").options(**options).save(str(store))
    assert values(store) == []
    assert staged(store) == []


def test_a_streaming_query_writes_each_batch_once(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    def run() -> None:
        stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(source))
        query = (
            stream.writeStream.format("kafkafs")
            .option("checkpointLocation", str(checkpoint))
            .option("topic", "t")
            .trigger(availableNow=True)
            .start(str(store))
        )
        query.awaitTermination()

    for number in range(3):
        (source / f"{number}.txt").write_text(f"{number}\n")
    run()
    assert values(store) == numbers(3)
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    run()
    assert values(store) == numbers(3), "the batch whose commit was forgotten is replayed, and is there once"
    (source / "3.txt").write_text("3\n")
    run()
    assert values(store) == numbers(4)


def test_topics_have_their_own_versions_and_queries_their_checkpoints(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()

    def run(checkpoint: str) -> None:
        stream = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(source))
        writer = stream.writeStream.format("kafkafs").options(txnAppId="app", topic="t")
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start(str(store)).awaitTermination()

    for number in range(2):
        (source / f"{number}.txt").write_text(f"{number}\n")
        run("checkpoint")
    with pytest.raises(Exception, match=r"t has batches up to 1 of the application 'app'.* go on with that checkpoint"):
        run("another")
    assert values(store) == numbers(2)
    rows = spark.range(1).selectExpr("'other' as value")
    for _ in range(2):
        writer = rows.write.format("kafkafs").mode("append")
        writer.options(txnAppId="app", txnVersion=0, topic="other").save(str(store))
    assert values(store) == sorted([*numbers(2), b"other"])
    assert staged(store) == []


def test_a_batch_that_dies_between_two_topics_goes_on_with_the_second(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    """Each topic has the batch once, whose number and name are those of both writes."""
    died: list[int] = []

    def sort(frame: DataFrame, number: int) -> None:
        for topic, rest in (("even", 0), ("odd", 1)):
            rows = frame.where(f"cast(value as int) % 2 = {rest}")
            writer = rows.write.format("kafkafs").mode("append").options(txnAppId="sort", txnVersion=number)
            writer.option("topic", topic).save(str(store))
            if not died:
                died.append(number)
                raise RuntimeError("between the topics")

    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "numbers.txt").write_text("".join(f"{number}\n" for number in range(10)))
    stream = spark.readStream.schema("value string").text(str(tmp_path / "source"))
    writer = stream.writeStream.foreachBatch(sort).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="between the topics"):
        writer.trigger(availableNow=True).start().awaitTermination()
    assert [record.value for record in records(store)["even", 0]] == [b"0", b"2", b"4", b"6", b"8"]
    writer.trigger(availableNow=True).start().awaitTermination()
    assert values(store) == numbers(10)


def test_who_reads_during_writes_sees_whole_ones(spark: SparkSession, store: Path) -> None:
    """Each write puts as many records into each partition; another process counts them all the while."""
    watching = subprocess.Popen(
        [sys.executable, "-c", WATCHER, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    assert watching.stdout.readline() == "watching\n"
    rows = spark.range(30_000, numPartitions=2).selectExpr(
        "repeat('x', 1000) as value", "'t' as topic", "cast(id % 3 as int) as partition"
    )
    for _ in range(2):
        rows.write.format("kafkafs").mode("append").save(str(store))
    seen, _ = watching.communicate("stop\n")
    assert set(seen.split()) <= {"0", "10000", "20000"}
    assert "20000" in seen.split()


def test_a_store_that_somebody_holds_is_told_plainly(spark: SparkSession, store: Path) -> None:
    rows = spark.range(1).selectExpr("'v' as value", "'t' as topic")
    writer = rows.write.format("kafkafs").mode("append").option("lockTimeoutMs", 200)
    with (
        Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()),
        pytest.raises(Exception, match="has the store open for writing; stop that, or open it read-only"),
    ):
        writer.save(str(store))
    assert values(store) == []
    assert staged(store) == [], "though the store is still held when Spark takes back the write"
