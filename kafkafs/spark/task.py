"""A task in Spark's Python worker: it reads splits, and returns their rows in the columns and types of the query."""

from __future__ import annotations

import gc
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from kafkafs.allocation import keep_freed_memory
from kafkafs.spark.errors import OptionError
from kafkafs.spark.left_out import LeftOut
from kafkafs.spark.opened_store import report_loss
from kafkafs.spark.sight import explained
from storage.clock import Clock
from storage.files import Files
from storage.split import SplitReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kafkafs.spark.options import StoreOptions
    from kafkafs.spark.sight import Sighted
    from storage.split import Split

_OF_PLACE: Final = ("topic", "partition")  # the same for all records of a split
_NARROWEST: Final = "offset"


@cache
def settle() -> None:
    """Keep freed memory, and leave what this process has loaded so far out of later garbage collections.

    Spark collects garbage in a worker after each task. With the objects of all modules that takes 50 ms, in which a
    task reads a hundred megabytes.
    """
    keep_freed_memory()
    gc.collect()
    gc.freeze()


def read_splits(pack: Sighted[Sequence[Split]], schema: StructType, options: StoreOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of splits, one after another; raises `SeenLessError` unless this task sees their logs."""
    settle()
    rows = SparkRows(schema)
    reader = SplitReader(
        Files(),
        Clock(),
        columns=rows.columns,
        on_loss=explained(partial(report_loss, fails=options.fails_on_data_loss)),
        on_damage=LeftOut(options.damage_directory).add if options.skips_damage else None,
    )
    with pack.sight.agreed():
        for split in pack.piece:
            for batch in reader.read(split):
                yield rows.of(batch, split.place.topic, split.place.partition)


class SparkRows:
    """Turns record batches into those of a query with this schema; Spark has nothing left to convert."""

    def __init__(self, schema: StructType) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        wanted = [name for name in self.schema.names if name not in _OF_PLACE]
        self.columns = wanted or [_NARROWEST]
        """The columns of the record batches; if none are wanted, one that counts the rows."""

    def of(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """Return the rows of a record batch of one partition."""
        arrays = [self._array(field, batch, topic, partition) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, field: pa.Field[Any], batch: pa.RecordBatch, topic: str, partition: int) -> pa.Array[Any]:
        match field.name:
            case "topic":
                return pa.repeat(topic, batch.num_rows)
            case "partition":
                return pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
            case "timestamp":
                return _microseconds(batch.column(field.name), field.type)
            case "headers":
                return _headers(batch.column(field.name), field.type)
            case _:
                return batch.column(field.name)


def _microseconds(times: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    try:
        return times.cast(kind)
    except pa.ArrowInvalid:
        raise OptionError(
            "a record has a timestamp that is beyond what Spark can hold; leave the column out: "
            '.schema("key binary, value binary, topic string, partition int, offset long")'
        ) from None


def _headers(headers: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return the same with null for records without headers, as in Spark's own source."""
    assert isinstance(headers, pa.ListArray)
    assert isinstance(kind, pa.ListType)
    is_empty = pc.equal(pc.list_value_length(headers), pa.scalar(0, pa.int32()))
    entries, entry = headers.values, kind.value_type
    assert isinstance(entries, pa.StructArray)
    struct = pa.StructArray.from_arrays([entries.field(0), entries.field(1)], fields=[entry.field(0), entry.field(1)])
    return pa.ListArray.from_arrays(headers.offsets, struct, type=kind, mask=is_empty)
