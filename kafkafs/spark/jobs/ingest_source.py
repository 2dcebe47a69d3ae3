"""The input of `ingest` as rows for the sink: Parquet, CSV or lines of JSON, whose columns may have any names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.export_days import INVALID_TIMESTAMP
from kafkafs.spark.jobs.json_lines import SCHEMA, envelope_batches, object_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyarrow import RecordBatch
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp", "offset")
"""The columns of a row; the offset, that of the source, only gives the order."""

PARQUET: Final = "parquet"
ENVELOPES: Final = "envelopes"
JSON: Final = "json"
CSV: Final = "csv"
FORMS: Final = (PARQUET, ENVELOPES, JSON, CSV)
_SUFFIXES: Final = {"parquet": PARQUET, "csv": CSV, "jsonl": ENVELOPES, "ndjson": ENVELOPES, "json": ENVELOPES}
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".snappy", ".lz4")
_HEADERS: Final = "array<struct<key: string, value: binary>>"
_TEXT_HEADERS: Final = "array<struct<key: string, value: string>>"


@dataclass(frozen=True, slots=True)
class IngestSource:
    """Files or directories, their form, and the columns that make a record.

    Without a form, the names of the files decide; lines of JSON are envelopes unless columns are named. With
    `whole_row` the value is the whole row as JSON.
    """

    paths: tuple[str, ...]
    form: str | None
    columns: Mapping[str, str]
    whole_row: bool

    def __post_init__(self) -> None:
        if self.form is not None and self.form not in FORMS:
            raise OptionError(f"the form is one of {', '.join(FORMS)}, not {self.form!r}")
        unknown = next((name for name in self.columns if name not in COLUMNS), None)
        if unknown is not None:
            raise OptionError(f"a record has no {unknown!r}; it has {', '.join(COLUMNS)}")
        if self.whole_row and "value" in self.columns:
            raise OptionError("the value is either a column or the whole row")
        if self.form == ENVELOPES and (self.columns or self.whole_row):
            raise OptionError("envelopes have no columns to be named; the form of other lines of JSON is json")

    def files(self, spark: SparkSession) -> list[str]:
        """Return the files as Spark finds them."""
        return sorted(spark.read.format("binaryFile").load(list(self.paths)).inputFiles())

    def rows(self, spark: SparkSession, files: Sequence[str]) -> DataFrame:
        """Return the rows for the sink, in the order of offsets if those are known."""
        form = self.form or self._guessed(files)
        if form == PARQUET:
            frame = self._named(_parquet(spark, self.paths))
        elif form == CSV:
            reader = spark.read.options(
                header=True, mode="FAILFAST", enforceSchema=False, multiLine=True, escape='"', inferSchema=False
            )
            frame = self._named(reader.csv(list(self.paths)))
        else:
            lines = spark.read.option("lineSep", "\n").text(list(self.paths)).select("value")
            frame = lines.mapInArrow(self._reading(form), SCHEMA)
        if {"partition", "offset"} <= set(frame.columns):
            return frame.orderBy(*(name for name in ("topic", "partition", "offset") if name in frame.columns))
        return frame

    def _guessed(self, files: Sequence[str]) -> str:
        forms = {_SUFFIXES.get(_suffix(file)) for file in files}
        form = forms.pop() if len(forms) == 1 else None
        if form is None:
            raise OptionError(
                f"the names of the files do not say what is in them: give a form, which is one of {', '.join(FORMS)}"
            )
        return JSON if form == ENVELOPES and (self.columns or self.whole_row) else form

    def _reading(self, form: str) -> Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]:
        if form == ENVELOPES:
            return envelope_batches
        columns = {name: name for name in COLUMNS} | dict(self.columns)
        if self.whole_row:
            del columns["value"]
        return object_batches(columns)

    def _named(self, frame: DataFrame) -> DataFrame:
        """Return the columns of a record, made from those of the files."""
        kinds = {field.name: field.dataType for field in frame.schema.fields}
        missing = next((column for column in self.columns.values() if column not in kinds), None)
        if missing is not None:
            raise OptionError(f"there is no column {missing!r}; there are {', '.join(kinds)}")
        made = []
        for name in COLUMNS:
            column = self.columns.get(name, name)
            if name == "value" and self.whole_row:
                made.append(sql.to_json(sql.struct(*map(_column, kinds)), {"ignoreNullFields": "false"}).alias(name))
            elif column in kinds:
                converted = _converted(name, _column(column), kinds[column])
                if name == "timestamp" and INVALID_TIMESTAMP.name in kinds:  # as `export` has it
                    converted = sql.coalesce(converted, sql.timestamp_millis(_column(INVALID_TIMESTAMP.name)))
                made.append(converted.alias(name))
        return frame.select(*made)


def _suffix(file: str) -> str:
    for suffix in _COMPRESSED:
        file = file.removesuffix(suffix)
    return file.rpartition(".")[2].lower()


def _parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the rows of Parquet files; topics in directories' names are texts even if they look like numbers."""
    frame = spark.read.parquet(*paths)
    if "topic" not in frame.columns or frame.schema["topic"].dataType == StringType():
        return frame
    fields = [StructField("topic", StringType()) if field.name == "topic" else field for field in frame.schema.fields]
    return spark.read.schema(StructType(fields)).parquet(*paths)


def _column(name: str) -> Column:
    return sql.col("`{}`".format(name.replace("`", "``")))


def _converted(name: str, column: Column, kind: DataType) -> Column:
    match name:
        case "key" | "value":
            if isinstance(kind, StructType | ArrayType | MapType):
                return sql.to_json(column, {"ignoreNullFields": "false"})
            return column if isinstance(kind, BinaryType) else column.cast("string")
        case "headers":
            if isinstance(kind, StringType):
                column = sql.from_json(column, _TEXT_HEADERS, {"mode": "FAILFAST"})
            return column.cast(_HEADERS)
        case "timestamp":
            return _time(column, kind)
        case "topic":
            return column.cast("string")
        case "partition":
            return column.cast("int")
        case _:
            return column.cast("long")


def _time(column: Column, kind: DataType) -> Column:
    """Convert to a timestamp; a number, or a text that is one, is milliseconds since 1970."""
    if isinstance(kind, NumericType):
        return sql.timestamp_millis(column.cast("long"))
    if isinstance(kind, StringType):
        is_number = column.rlike("^-?[0-9]+$")
        # Each branch would fail on a value for the other.
        number = sql.when(is_number, column).cast("long")
        return sql.coalesce(sql.timestamp_millis(number), sql.when(~is_number, column).cast("timestamp"))
    return column.cast("timestamp") if isinstance(kind, DateType | TimestampNTZType) else column
