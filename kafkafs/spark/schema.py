"""The columns of the source: those of Spark's own Kafka source, and which of them a query has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

_HEADERS: Final = "headers"
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    _HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def source_schema(*, has_headers: bool) -> StructType:
    """The columns of a query that does not choose any."""
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if has_headers or name != _HEADERS])


def check_schema(schema: StructType) -> None:
    """Raise `OptionError` unless the schema is made of some of the columns, in any order, with their types."""
    for field in schema.fields:
        kind = _TYPES.get(field.name)
        if kind is None:
            raise OptionError(f"there is no column {field.name!r}: choose from {', '.join(_TYPES)}")
        if field.dataType.simpleString() != kind.simpleString():
            raise OptionError(
                f"the column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}: cast it later"
            )
    if not schema.fields:
        raise OptionError(f"a schema has at least one of the columns {', '.join(_TYPES)}")
