"""`ingest_from_kafka`: topics of a live cluster appended to a store, by way of Spark's own connector and the sink."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.growth import ends_of, growth
from kafkafs.spark.jobs.log_dirs import log_dirs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.log_dirs import StorePath

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def ingest_from_kafka(
    spark: SparkSession,
    bootstrap: str,
    topics: Collection[str],
    store: StorePath,
    checkpoint: str | PathLike[str],
    *,
    topic: str | None = None,
    by_key: bool = False,
    codec: str = "none",
    options: Mapping[str, str] = _NONE,
) -> DataFrame:
    """Append what topics of a live cluster have, and have not been asked for yet, by way of Spark's own connector.

    How far that is stands in the directory `checkpoint`: each record is appended once, however often this is run and
    wherever it is killed. `options` are those of Spark's Kafka source, such as `kafka.security.protocol`. Partitions,
    topics and the rows that this gives are as `ingest` has them. Raises `JobError` if Spark has no connector.
    """
    directories = log_dirs(store)
    reader = spark.readStream.format("kafka").options(
        **{"startingOffsets": "earliest", **options, "includeHeaders": "true", "kafka.bootstrap.servers": bootstrap}
    )
    try:
        stream = reader.option("subscribe", ",".join(topics)).load()
    except Exception as error:
        if "kafka" in str(error) and "ind data source" in str(error).replace("the ", ""):
            raise JobError(
                "reading Kafka needs Spark's own connector: give --conf "
                f"spark.jars.packages={CONNECTOR}:{spark.version}, or its jars with --conf spark.jars=PATH,…"
            ) from None
        raise
    stream = stream.drop(*(["partition"] if by_key else []), *(["topic"] if topic is not None else []))
    before = ends_of(directories)
    writer = stream.writeStream.format("kafkafs").option("checkpointLocation", str(Path(checkpoint).absolute()))
    writer = writer.option("kafka.compression.type", codec).trigger(availableNow=True)
    query = (writer if topic is None else writer.option("topic", topic)).start(",".join(directories))
    query.awaitTermination()
    return growth(spark, before, ends_of(directories))
