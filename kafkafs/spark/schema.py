"""The columns of the source and of the sink: those of Spark's own for Kafka, with their error texts."""

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

    from kafkafs.spark.options import SinkOptions

_HEADERS: Final = "headers"
_HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    _HEADERS: _HEADERS_TYPE,
}
_SINK_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "topic": (StringType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    _HEADERS: (_HEADERS_TYPE,),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}


def source_schema(*, has_headers: bool) -> StructType:
    """Return the columns of a query that does not choose any."""
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if has_headers or name != _HEADERS])


def check_schema(schema: StructType) -> None:
    """Raise `OptionError` unless the schema has some of the source's columns, in any order, with their types."""
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


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise `OptionError` unless the rows can be records; columns that mean nothing to a record are ignored."""
    kinds = {field.name: field.dataType for field in schema.fields}
    if "topic" not in kinds and options.topic is None:
        raise OptionError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in kinds:
        raise OptionError("Required attribute 'value' not found")
    for name, allowed in _SINK_TYPES.items():
        kind = kinds[name].simpleString() if name in kinds else None
        texts = [each.simpleString() for each in allowed]
        if kind is not None and kind not in texts:
            raise OptionError(f"{name} attribute unsupported type {kind}. {name} must be a(n) {' or '.join(texts)}")
