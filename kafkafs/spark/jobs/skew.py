"""`skew`: how evenly records are spread over the partitions of topics, and which keys have most of them.

Workers count records, and keys in bounded memory; Spark adds the counts up. Only the keys with most records of a topic
come together in one task.
"""

from __future__ import annotations

from base64 import b64encode
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from kafkafs.spark.errors import OptionError, SeenLessError
from kafkafs.spark.jobs.hot_keys import HotKeys
from kafkafs.spark.jobs.stores import opened, refuse
from kafkafs.spark.jobs.tasks import batch_of, frame_of, in_tasks, plain_schema, task_bytes
from storage.clock import Clock
from storage.files import Files
from storage.split import DEFAULT_SPLIT_BYTES, SplitReader, packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.split import Split

SCHEMA: Final = plain_schema(
    "kind string, topic string, partition int, key string, key_base64 string, records long, recordsOver long, "
    "bytes long, dataBytes long, share double, dataShare double, ratio double, bytesRatio double"
)
_PLACES: Final = ("topic", "partition", "is_key", "key", "lacks")
_SUMS: Final = ("records", "data_bytes", "log_bytes", "above", "floor")
_COUNTS: Final = plain_schema(
    "topic string, partition int, is_key boolean, key binary, lacks string, "
    "records long, data_bytes long, log_bytes long, above long, floor long"
)


class _Count(NamedTuple):
    """A task's count: of the records of a partition or of a key, or a topic's `floor`.

    `above` is by how much the key may occur more often than a key that was not kept. `lacks` is what a task does not
    see, which is then its only count.
    """

    topic: str
    partition: int | None = None
    is_key: bool = False
    key: bytes | None = None
    lacks: str | None = None
    records: int = 0
    data_bytes: int = 0
    log_bytes: int = 0
    above: int = 0
    floor: int = 0


class PartitionLoad(NamedTuple):
    """The load of a partition: `data_bytes` are those of keys and values, `log_bytes` those of batches on disk."""

    partition: int
    records: int
    data_bytes: int
    log_bytes: int


class KeyLoad(NamedTuple):
    """A key that occurs in `records` records, or in up to `over` less."""

    key: bytes | None
    records: int
    over: int
    data_bytes: int


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
        splits = planning.splits(ranges, DEFAULT_SPLIT_BYTES)
        packs = planning.sighted(packed(splits, task_bytes(spark, sum(split.size_bytes for split in splits))))
    known = frame_of(spark, [_Count(*each, log_bytes=size) for each, size in sorted(sizes.items())], _COUNTS)
    counts = known.unionAll(in_tasks(spark, packs, _counted, _COUNTS, telling=_lacking))
    sums = counts.groupBy(*_PLACES).agg(*(sql.sum(name).alias(name) for name in _SUMS))
    # One row of each partition, of each floor, and the first ones of the keys.
    rank = sql.row_number().over(
        Window.partitionBy("topic", "is_key", "partition").orderBy(sql.desc("above"), sql.asc("key"))
    )
    first = sums.withColumn("rank", rank).where(sql.col("rank") <= top).select(*_COUNTS.names)
    by_topic = first.repartition("topic").sortWithinPartitions(
        "topic", "is_key", "partition", sql.desc("above"), sql.asc("key")
    )
    return by_topic.mapInArrow(_weighed, SCHEMA)


def _lacking(error: SeenLessError) -> pa.RecordBatch:
    return batch_of([_Count("", lacks=str(error))], _COUNTS)


def _counted(pack: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Yield the counts of splits, topic by topic."""
    reader = SplitReader(Files(), Clock(), columns=("key", "value"), on_loss=refuse)
    for topic, splits in groupby(pack, key=attrgetter("place.topic")):
        keys = HotKeys()
        for partition, parts in groupby(splits, key=attrgetter("place.partition")):
            records = data_bytes = 0
            for batch in (batch for split in parts for batch in reader.read(split)):
                sizes = pc.add(_sizes(batch.column("key")), _sizes(batch.column("value")))
                records += batch.num_rows
                data_bytes += pc.sum(sizes).as_py()
                keys.add(batch.column("key"), sizes)
            yield batch_of([_Count(topic, partition, records=records, data_bytes=data_bytes)], _COUNTS)
        yield from _counts_of_keys(topic, keys)


def _counts_of_keys(topic: str, keys: HotKeys) -> Iterator[pa.RecordBatch]:
    """Yield the counts of the keys that are kept, and the topic's floor."""
    counted = keys.counted()
    yield batch_of([_Count(topic, floor=keys.floor)], _COUNTS)
    most = pc.add(counted.column("records"), counted.column("over"))
    columns: dict[str, pa.Array[Any] | pa.ChunkedArray[Any]] = {
        "topic": pa.repeat(topic, counted.num_rows),
        "is_key": pa.repeat(True, counted.num_rows),
        "key": counted.column("key"),
        "records": counted.column("records"),
        "data_bytes": counted.column("data_bytes"),
        "log_bytes": pa.repeat(pa.scalar(0, pa.int64()), counted.num_rows),
        "above": pc.subtract(most, pa.scalar(keys.floor, pa.int64())),
        "floor": pa.repeat(pa.scalar(0, pa.int64()), counted.num_rows),
    }
    fields = to_arrow_schema(_COUNTS)
    arrays = [columns.get(field.name, pa.nulls(counted.num_rows, field.type)) for field in fields]
    yield from pa.Table.from_arrays(arrays, schema=fields).to_batches()


def _sizes(column: pa.Array[Any]) -> pa.Array[Any]:
    assert isinstance(column, pa.BinaryArray)
    return pc.binary_length(column).fill_null(0).cast(pa.int64())


def _weighed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of topics, from counts in order: the floor of a topic, its partitions, and its keys."""
    fields = to_arrow_schema(SCHEMA)
    counts = (_Count(**row) for batch in batches for row in batch.to_pylist())
    for topic, of_topic in groupby(counts, key=attrgetter("topic")):
        floor, partitions, keys = 0, [], []
        for each in of_topic:
            if each.lacks is not None:
                raise SeenLessError(each.lacks)
            if each.is_key:
                most = floor + each.above
                keys.append(KeyLoad(each.key, most, most - each.records, each.data_bytes))
            elif each.partition is None:
                floor = each.floor
            else:
                partitions.append(PartitionLoad(each.partition, each.records, each.data_bytes, each.log_bytes))
        yield pa.RecordBatch.from_pylist(list(balance_rows(topic, partitions, keys)), schema=fields)


def balance_rows(topic: str, partitions: Sequence[PartitionLoad], keys: Sequence[KeyLoad]) -> Iterator[dict[str, Any]]:
    """Yield the row of a topic, those of its partitions and those of the keys, with every column."""
    records = sum(each.records for each in partitions)
    data_bytes = sum(each.data_bytes for each in partitions)
    log_bytes = sum(each.log_bytes for each in partitions)
    mean_records, mean_bytes = records / len(partitions), log_bytes / len(partitions)
    nothing: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    yield nothing | {
        "kind": "topic",
        "topic": topic,
        "records": records,
        "bytes": log_bytes,
        "dataBytes": data_bytes,
        "ratio": _part(max(each.records for each in partitions), mean_records),
        "bytesRatio": _part(max(each.log_bytes for each in partitions), mean_bytes),
    }
    for each in partitions:
        yield nothing | {
            "kind": "partition",
            "topic": topic,
            "partition": each.partition,
            "records": each.records,
            "bytes": each.log_bytes,
            "dataBytes": each.data_bytes,
            "share": _part(each.records, records),
            "dataShare": _part(each.data_bytes, data_bytes),
            "ratio": _part(each.records, mean_records),
            "bytesRatio": _part(each.log_bytes, mean_bytes),
        }
    for key in keys:
        yield (
            nothing
            | _key_members(key.key)
            | {
                "kind": "key",
                "topic": topic,
                "records": key.records,
                "recordsOver": key.over,
                "dataBytes": key.data_bytes,
                "share": _part(key.records, records),
                "dataShare": _part(key.data_bytes, data_bytes),
            }
        )


def _key_members(key: bytes | None) -> dict[str, str | None]:
    """Return a key as the envelope has it: as text if it is UTF-8, else in base64."""
    if key is None:
        return {}
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_base64": b64encode(key).decode()}


def _part(some: float, whole: float) -> float | None:
    return some / whole if whole else None
