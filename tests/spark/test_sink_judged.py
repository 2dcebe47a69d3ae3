"""A real broker adopts a partition that Spark has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consuming import consumed

from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from real_brokers import RealKafka

ROWS = 3000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_broker_adopts_what_spark_wrote(
    codec: str, spark: SparkSession, real_kafka: RealKafka, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 2, {"segment.bytes": "65536", "index.interval.bytes": "512"})
    rows = spark.range(ROWS, numPartitions=3).selectExpr(
        "'t' as topic",
        "cast(id % 2 as int) as partition",
        "cast(id as string) as key",
        "if(id % 50 = 0, null, rpad(cast(id as string), 100, '.')) as value",
        "array(named_struct('key', 'id', 'value', cast(cast(id as string) as binary))) as headers",
    )
    for version in range(2):
        writer = rows.write.format("kafkafs").mode("append").option("kafka.compression.type", codec)
        writer.options(txnAppId="app", txnVersion=version).save(str(path))
    judged = real_kafka.judge_all([path / "t-0", path / "t-1"])
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        for partition in range(2):
            log, theirs = store.log("t", partition), judged[f"t-{partition}"]
            assert theirs.end_offset == log.view.end_offset == ROWS
            assert theirs.read_uncommitted == list(consumed(log, Isolation.UNCOMMITTED))
            assert theirs.read_committed == theirs.read_uncommitted
