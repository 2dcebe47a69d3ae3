"""`skew`: how evenly records lie in the partitions of topics, and which keys have most of them.

Records are counted in the workers, keys in bounded memory, and the counts added up by Spark; of a topic only the keys
with most records come together in one place.
"""

from __future__ import annotations

from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.balance import KeyLoad, PartitionLoad, balance_rows
from kafkafs.spark.jobs.frames import frame_of
from kafkafs.spark.jobs.hot_keys import HotKeys
from kafkafs.spark.jobs.selected import opened, refuse
from kafkafs.spark.jobs.tasks import in_tasks
from storage.clock import Clock
from storage.files import Files
from storage.split import DEFAULT_SPLIT_BYTES, SplitReader, packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.hot_keys import CountedKey
    from kafkafs.spark.jobs.log_dirs import StorePath
    from storage.split import Split

SCHEMA: Final = StructType(
    [
        StructField("kind", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", StringType()),
        StructField("key_base64", StringType()),
        StructField("records", LongType()),
        StructField("recordsOver", LongType()),
        StructField("bytes", LongType()),
        StructField("dataBytes", LongType()),
        StructField("share", DoubleType()),
        StructField("dataShare", DoubleType()),
        StructField("ratio", DoubleType()),
        StructField("bytesRatio", DoubleType()),
    ]
)
_SUMS: Final = ("records", "data_bytes", "log_bytes", "above", "floor")
_COUNTS: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("is_key", BooleanType()),
        StructField("key", BinaryType()),
        *(StructField(name, LongType()) for name in _SUMS),
    ]
)


class _Count(NamedTuple):
    """A task's count: of the records of a partition or of a key, or a topic's `floor`.

    `above` is by how much the key may occur more often than a key that was not kept.
    """

    topic: str
    partition: int | None = None
    is_key: bool = False
    key: bytes | None = None
    records: int = 0
    data_bytes: int = 0
    log_bytes: int = 0
    above: int = 0
    floor: int = 0


def skew(spark: SparkSession, store: StorePath, topics: Collection[str] | None = None, top: int = 10) -> DataFrame:
    """Weigh the partitions of each topic, or of some, and find the `top` keys with most records.

    `kind` is `topic`, `partition` or `key`. `bytes` is what batches take on disk, `dataBytes` what keys and values
    would uncompressed; `share` is the part of the topic's records, `dataShare` that of its data. A partition's `ratio`
    is that of its records to the mean of the topic's partitions, a topic's that of its largest one; `bytesRatio` is the
    same of `bytes`.

    A key occurs in `records` records, or in up to `recordsOver` less: 0 where it was counted exactly, as it is where a
    task meets no more than some thousand keys of a topic; else `dataBytes` are those of some of its records. No other
    key has more records than the last one that is given. Control records are not counted. The store is read whenever
    the DataFrame is asked for rows.
    """
    if top < 1:
        raise OptionError(f"the number of keys is 1 or more, not {top}")
    with closing(opened(store, topics)) as planning:
        partitions = planning.partitions(must_exist=True)
        starts, ends = planning.earliest(partitions), planning.latest(partitions)
        sizes = planning.log_bytes(partitions)
        ranges = {each: (starts[each], ends[each]) for each in starts.keys() & ends.keys()}
        packs = packed(planning.splits(ranges, DEFAULT_SPLIT_BYTES))
    known = frame_of(spark, [_Count(*each, log_bytes=size) for each, size in sorted(sizes.items())], _COUNTS)
    counts = known.unionAll(in_tasks(spark, packs, _counted, _COUNTS))
    places = [name for name in _COUNTS.names if name not in _SUMS]
    sums = counts.groupBy(*places).agg(*(sql.sum(name).alias(name) for name in _SUMS))
    # One row of each partition, of each floor, and the first ones of the keys.
    rank = sql.row_number().over(
        Window.partitionBy("topic", "is_key", "partition").orderBy(sql.desc("above"), sql.asc("key"))
    )
    first = sums.withColumn("rank", rank).where(sql.col("rank") <= top).select(*_COUNTS.names)
    by_topic = first.repartition("topic").sortWithinPartitions(
        "topic", "is_key", "partition", sql.desc("above"), sql.asc("key")
    )
    return by_topic.mapInArrow(_weighed, SCHEMA)


def _counted(pack: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """The counts of splits, which come topic by topic."""
    reader = SplitReader(Files(), Clock(), columns=("key", "value"), on_loss=refuse)
    for topic, splits in groupby(pack, key=attrgetter("place.topic")):
        keys = HotKeys()
        for partition, parts in groupby(splits, key=attrgetter("place.partition")):
            records = data_bytes = 0
            for batch in (batch for split in parts for batch in reader.read(split)):
                sizes = pc.add(_sizes(batch.column("key")), _sizes(batch.column("value")))
                records += batch.num_rows
                data_bytes += pc.sum(sizes).as_py()
                by_key = pa.table({"key": batch.column("key"), "size": sizes}).group_by("key", use_threads=False)
                found = by_key.aggregate([("size", "count"), ("size", "sum")]).select(["key", "size_count", "size_sum"])
                for key, count, key_bytes in zip(*(column.to_pylist() for column in found.columns), strict=True):
                    keys.add(key, count, key_bytes)
            yield _batch([_Count(topic, partition, records=records, data_bytes=data_bytes)])
        yield _batch([_Count(topic, floor=keys.floor)])
        yield _batch([_count_of(topic, each, keys.floor) for each in keys.counted()])


def _count_of(topic: str, key: CountedKey, floor: int) -> _Count:
    above = key.records + key.over - floor
    return _Count(topic, is_key=True, key=key.key, records=key.records, data_bytes=key.data_bytes, above=above)


def _sizes(column: pa.Array[Any]) -> pa.Array[Any]:
    assert isinstance(column, pa.BinaryArray)
    return pc.binary_length(column).fill_null(0).cast(pa.int64())


def _weighed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of topics, whose counts come together: a topic's floor first, its partitions, and its keys."""
    fields = to_arrow_schema(SCHEMA)
    counts = (_Count(**row) for batch in batches for row in batch.to_pylist())
    for topic, of_topic in groupby(counts, key=attrgetter("topic")):
        floor, partitions, keys = 0, [], []
        for each in of_topic:
            if each.is_key:
                most = floor + each.above
                keys.append(KeyLoad(each.key, most, most - each.records, each.data_bytes))
            elif each.partition is None:
                floor = each.floor
            else:
                partitions.append(PartitionLoad(each.partition, each.records, each.data_bytes, each.log_bytes))
        yield pa.RecordBatch.from_pylist(list(balance_rows(topic, partitions, keys)), schema=fields)


def _batch(counts: Sequence[_Count]) -> pa.RecordBatch:
    fields = to_arrow_schema(_COUNTS)
    return pa.RecordBatch.from_pylist([each._asdict() for each in counts], schema=fields)
