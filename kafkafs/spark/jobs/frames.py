"""A job's result as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str | StructType) -> DataFrame:
    """A DataFrame of rows that the driver has.

    They go to Spark as Arrow, which makes a local relation: reading it needs no task.
    """
    parsed = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    fields = to_arrow_schema(parsed)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=fields))
