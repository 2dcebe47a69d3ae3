"""Streaming queries over a store that grows: every record once, through failures between and within batches."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GrowingStore
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

errors = pytest.importorskip("pyspark.errors", reason="not run: PySpark is not installed")

TIME_S_MAX = 120


class Collected:
    """What a query has written: a file for each batch by its number, so that a repeated one counts once."""

    def __init__(self, spark: SparkSession, growing: GrowingStore, root: Path) -> None:
        self.checkpoint = root / "checkpoint"
        self._spark = spark
        self._store = growing
        self._rows = root / "rows"
        self._rows.mkdir()

    def run(self, **options: object) -> list[dict[str, object]]:
        """Read all there is by now, and return what the query said of its batches."""
        query = self.start(**options)
        try:
            assert query.awaitTermination(TIME_S_MAX)
        finally:
            query.stop()
        if (error := query.exception()) is not None:
            raise error
        return [json.loads(progress.json) for progress in query.recentProgress]

    def start(self, **options: object) -> StreamingQuery:
        frame = self._spark.readStream.format("kafkafs").options(**{"startingOffsets": "earliest", **options})
        writer = frame.load(str(self._store.path)).writeStream.foreachBatch(self._keep())
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def _keep(self) -> Callable[[DataFrame, int], None]:
        rows = self._rows

        def keep(frame: DataFrame, number: int) -> None:
            values = [row.value.decode() for row in frame.select("value").collect()]
            (rows / str(number)).write_text("\n".join(values))

        return keep

    def batches(self) -> list[list[str]]:
        paths = sorted(self._rows.iterdir(), key=lambda path: int(path.name))
        return [path.read_text().splitlines() for path in paths]

    def values(self) -> list[str]:
        return sorted(value for batch in self.batches() for value in batch)

    def forget_commit(self, number: int) -> None:
        """Have it look as if Spark had died before it noted that a batch was done."""
        (self.checkpoint / "commits" / str(number)).unlink()
        (self.checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)


@pytest.fixture
def collected(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> Collected:
    growing.create("orders", 2)
    growing.append("orders", 0, 60)
    growing.append("orders", 1, 20)
    return Collected(spark, growing, tmp_path)


def test_batches_are_limited_and_a_restart_goes_on(collected: Collected, growing: GrowingStore) -> None:
    told = collected.run(maxOffsetsPerTrigger=40)
    assert [len(batch) for batch in collected.batches()] == [40, 40]
    assert collected.values() == growing.values()
    (source,) = told[0]["sources"]
    assert source["endOffset"]["orders"] == {"0": 30, "1": 10}
    growing.append("orders", 1, 7)
    growing.create("later")
    growing.append("later", 0, 3)
    growing.store.topics.add_partition("orders")
    growing.append("orders", 2, 4)
    collected.run()
    assert collected.values() == growing.values()
    before = collected.batches()
    collected.run()
    assert [batch for batch in collected.batches() if batch] == [batch for batch in before if batch]


def test_a_batch_that_was_not_noted_is_read_again_the_same(collected: Collected, growing: GrowingStore) -> None:
    collected.run(maxOffsetsPerTrigger=40)
    before = collected.batches()
    growing.append("orders", 0, 30)
    collected.forget_commit(1)
    collected.run()
    assert collected.batches()[:2] == before
    assert collected.values() == growing.values()


def test_the_first_batch_begins_where_it_began(collected: Collected, growing: GrowingStore) -> None:
    """Asked for its start a second time, the source would find that the log goes further by now."""
    start = json.dumps({"orders": {"0": 55, "1": -2}})
    collected.run(startingOffsets=start)
    before = collected.batches()
    assert len(before[0]) == 25
    growing.append("orders", 0, 5)
    collected.forget_commit(0)
    collected.run(startingOffsets="latest")
    assert collected.batches()[0] == before[0]
    assert len(collected.values()) == 30


def test_segments_that_are_retired_fail_a_query_unless_they_may_be_lost(
    collected: Collected, growing: GrowingStore
) -> None:
    collected.run()
    growing.append("orders", 0, 200)
    begins = growing.retire("orders", 0, keep=2)
    assert begins > 60
    with pytest.raises(errors.StreamingQueryException, match=r"(?s)orders-0 are gone: offsets 60 to .*failOnDataLoss"):
        collected.run()
    collected.run(failOnDataLoss="false")
    assert collected.values() == sorted({*growing.values(), *(f"orders-0-{offset}" for offset in range(60))})


def test_a_topic_that_is_gone_fails_a_query(collected: Collected, growing: GrowingStore) -> None:
    growing.create("short")
    growing.append("short", 0, 3)
    collected.run()
    for doomed in growing.store.topics.delete("short"):
        shutil.rmtree(doomed.path)
    with pytest.raises(errors.StreamingQueryException, match=r"short-0 are gone\. Some data may have been missed"):
        collected.run()


def test_what_only_a_batch_query_has_is_refused(collected: Collected) -> None:
    with pytest.raises(Exception, match="ending offset not valid in streaming queries"):
        collected.run(endingOffsets="latest")
