"""Record batches of a store's records as Spark takes them: its columns, in its types, with nothing left to convert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OF_PLACE: Final = ("topic", "partition")  # what every record of a split has in common
_NARROWEST: Final = "offset"


class SparkRows:
    """Turns record batches into those of a query with this schema."""

    def __init__(self, schema: StructType) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        wanted = [name for name in self.schema.names if name not in _OF_PLACE]
        self.columns = wanted or [_NARROWEST]
        """The columns of the record batches; if none are wanted, one that counts the rows."""

    def of(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.RecordBatch:
        """The rows of a record batch of one partition."""
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
