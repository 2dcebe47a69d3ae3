"""Batch queries: what the options of Spark's own Kafka source choose, and what is said of those that cannot be."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark import read
from kafkafs.spark.errors import OptionError
from kafkafs.spark.java_patterns import compile_pattern

if TYPE_CHECKING:
    from conftest import GrowingStore
    from pyspark.sql import DataFrame, SparkSession

PySparkException = pytest.importorskip("pyspark.errors", reason="not run: PySpark is not installed").PySparkException

PIECES = [
    *("a", "b", "o", "r", "d", "1", "_", "-", ".", "^", "$", "|", "*", "+", "?", "{2}", "{1,}", "*?", "++", "(", ")"),
    *("(?:a|ab)", "(?=r", "(?!r", "(?<=o)", "(?<!o)", "(?>a+)", "(?i)", "(?i:A)", "(a|b)+", "()", "[a-c]", "[^a]"),
    *("[\\w-]", "[]a]", "[a[bc]]", "[a&&b]", "[[:alpha:]]", "\\.", "\\-", "\\_", "\\d", "\\w", "\\W", "\\b"),
    *("\\B", "\\A", "\\Z", "\\z", "\\x61", "\\u0061", "\\0141", "\\p{Lower}", "\\Qa.\\E", "\\v", "\\R", "\\1"),
]
"""Of regular expressions; some are only Java's, some only Python's, and some mean something else in each."""


def values(frame: DataFrame) -> list[str]:
    return sorted(row.value.decode() for row in frame.select("value").collect())


def loaded(spark: SparkSession, growing: GrowingStore, **options: object) -> DataFrame:
    return spark.read.format("kafkafs").options(**options).load(str(growing.path))


@pytest.fixture
def store(growing: GrowingStore) -> GrowingStore:
    growing.create("orders", 2)
    growing.create("other")
    growing.append("orders", 0, 40)
    growing.append("orders", 1, 10)
    growing.append("other", 0, 5)
    return growing


def test_offsets_are_exact(spark: SparkSession, store: GrowingStore) -> None:
    starting = json.dumps({"orders": {"0": 7, "1": -2}})
    ending = json.dumps({"orders": {"0": 23, "1": -1}})
    frame = loaded(spark, store, subscribe="orders", startingOffsets=starting, endingOffsets=ending)
    expected = [f"orders-0-{offset}" for offset in range(7, 23)] + [f"orders-1-{offset}" for offset in range(10)]
    assert values(frame) == sorted(expected)
    assert values(loaded(spark, store, assign='{"orders":[1]}')) == [f"orders-1-{offset}" for offset in range(10)]
    assert values(loaded(spark, store, subscribePattern="the?")) == [f"other-0-{offset}" for offset in range(5)]


def test_times_are_exact(spark: SparkSession, store: GrowingStore) -> None:
    base = 1_700_000_000_000
    frame = read(spark, store.path, topics="orders", start=str(base + 3), end=str(base + 5), columns=["value"])
    assert values(frame) == ["orders-0-3", "orders-0-4", "orders-1-3", "orders-1-4"]
    by_time = json.dumps({"orders": {"0": base + 38, "1": base + 9}})
    frame = loaded(spark, store, subscribe="orders", startingOffsetsByTimestamp=by_time)
    assert values(frame) == ["orders-0-38", "orders-0-39", "orders-1-9"]
    late = loaded(
        spark, store, subscribe="orders", startingTimestamp=base + 35, startingOffsetsByTimestampStrategy="latest"
    )
    assert values(late) == [f"orders-0-{offset}" for offset in range(35, 40)]
    with pytest.raises(PySparkException, match="No offset matched from request of topic-partition orders-1"):
        loaded(spark, store, subscribe="orders", startingTimestamp=base + 35).collect()


def test_columns_are_chosen_by_the_schema(spark: SparkSession, store: GrowingStore) -> None:
    reader = spark.read.format("kafkafs").schema("offset long, topic string")
    frame = reader.option("subscribe", "other").load(str(store.path))
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [(offset, "other") for offset in range(5)]
    only_place = spark.read.format("kafkafs").schema("topic string, partition int").load(str(store.path))
    counts = {
        (row.topic, row.partition): row["count"] for row in only_place.groupBy("topic", "partition").count().collect()
    }
    assert counts == {("orders", 0): 40, ("orders", 1): 10, ("other", 0): 5}
    for schema, said in (("offset int", "the column offset is bigint, not int"), ("size int", "no column 'size'")):
        with pytest.raises(PySparkException, match=said):
            spark.read.format("kafkafs").schema(schema).load(str(store.path)).collect()


def test_tasks_are_few_unless_more_are_asked_for(spark: SparkSession, store: GrowingStore) -> None:
    store.append("orders", 0, 400)
    assert loaded(spark, store).rdd.getNumPartitions() == 1
    frame = loaded(spark, store, minPartitions=4)
    assert frame.rdd.getNumPartitions() >= 4
    assert values(frame) == store.values()


def test_a_task_has_no_more_records_than_it_may_have(spark: SparkSession, store: GrowingStore) -> None:
    store.append("orders", 0, 163)
    frame = loaded(spark, store, maxRecordsPerPartition=20)
    sizes = frame.rdd.mapPartitions(lambda rows: [sum(1 for _ in rows)]).collect()
    assert max(sizes) <= 20
    assert sum(sizes) == 218
    assert len(sizes) == 12, "203 of one partition in 11 parts, 10 of another, and 5 of a third with these"
    assert values(frame) == store.values()
    few = loaded(spark, store, maxRecordsPerPartition=1000, minPartitions=3)
    assert few.rdd.getNumPartitions() >= 3


def test_lost_data_fails_a_query_unless_it_may_be_lost(spark: SparkSession, store: GrowingStore) -> None:
    store.append("orders", 0, 200)
    starting = json.dumps({"orders": {"0": 0, "1": 0}})
    begins = store.retire("orders", 0, keep=2)
    assert begins > 0
    strict = loaded(spark, store, subscribe="orders", startingOffsets=starting)
    with pytest.raises(PySparkException, match=r"(?s)orders-0 are gone: offsets 0 to .*failOnDataLoss"):
        strict.collect()
    lenient = loaded(spark, store, subscribe="orders", startingOffsets=starting, failOnDataLoss="false")
    assert values(lenient) == [value for value in store.values() if value.startswith("orders")]


def test_damage_fails_a_query_unless_it_is_to_be_skipped(spark: SparkSession, store: GrowingStore) -> None:
    log = store.store.log("other", 0)
    victim = list(log.view.batches(0))[2]
    path = Path(log.view.segments[0].path(".log"))
    with path.open("r+b") as file:
        file.seek(victim.position + victim.size_bytes - 1)
        file.write(b"\xff")
    with pytest.raises(PySparkException, match=rf"(?s){path}, position {victim.position}, offset 2"):
        loaded(spark, store, subscribe="other").collect()
    skipping = loaded(spark, store, subscribe="other", damage="skip")
    assert values(skipping) == [f"other-0-{offset}" for offset in (0, 1, 3, 4)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "orders", "assign": "{}"}, "Only one of the following options can be specified"),
        ({"subscribe": "none"}, "there is no topic 'none' in the store; its topics are: orders, other"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"orders":{"0":1}}'}, "(?s)you must specify all TopicPartitions.*Assigned: orders-0"),
        (
            {"subscribe": "other", "startingOffsets": '{"other":{"0":6}}', "failOnDataLoss": "false"},
            "The resolved start offset 6 is greater than the resolved end offset 5 for topic other partition 0",
        ),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, str], said: str, spark: SparkSession, store: GrowingStore) -> None:
    with pytest.raises(PySparkException, match=said):
        loaded(spark, store, **options).collect()


def test_patterns_find_the_topics_that_they_find_in_java(spark: SparkSession) -> None:
    """Expressions made up of pieces: each is refused, or finds just the names that Spark's own JVM finds."""
    rng = random.Random(17)
    names = ["orders", "orders-2", "a.b", "a_b", "A", "1", "aab"]
    javas = spark._jvm.java.util.regex.Pattern
    taken = 0
    for _ in range(250):
        pattern = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
        try:
            ours = compile_pattern(pattern)
        except OptionError:
            continue
        taken += 1
        theirs = javas.compile(pattern)
        found = [name for name in names if theirs.matcher(name).find()]
        assert [name for name in names if ours.search(name)] == found, pattern
    assert taken > 50
