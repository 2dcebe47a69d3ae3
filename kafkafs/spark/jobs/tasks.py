"""The work of a job in Spark's Python workers, and its way back: as a DataFrame, or as results for the driver.

Executors must be able to import the module that a piece of work is defined in. Each piece comes with what the driver
saw of its logs. A task that sees less returns that as its result: Spark would repeat a task that fails on another host,
and the result would not name the host that lacks the store.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar, cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from kafkafs.spark.errors import SeenLessError
from kafkafs.spark.jobs.announcing import announce
from kafkafs.spark.task import settle
from storage.split import DEFAULT_SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.sight import Sighted

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_CORES_OF_CONNECT: Final = 1000
_TASKS_PER_CORE: Final = 3
_TASK_BYTES_MAX: Final = 512 * 1024 * 1024  # what a failed task has to read again
_PLAIN_TYPES: Final = {
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "int": IntegerType(),
    "long": LongType(),
    "short": ShortType(),
    "string": StringType(),
}


def plain_schema(columns: str) -> StructType:
    """Return the schema of columns with plain types; Spark's own parser needs a session, which workers do not have."""
    named = (column.split() for column in columns.split(", "))
    return StructType([StructField(name, _PLAIN_TYPES[kind]) for name, kind in named])


_RESULT: Final = plain_schema("result binary")


class Answer(NamedTuple, Generic[Result]):
    """The result of a task, and how many segments each directory lacks because its log has dropped them since."""

    result: Result
    dropped: Mapping[str, int]


def in_tasks(
    spark: SparkSession,
    pieces: Sequence[Sighted[Piece]],
    work: Callable[[Piece], Iterable[pa.RecordBatch]],
    schema: StructType,
    *,
    telling: Callable[[SeenLessError], pa.RecordBatch],
) -> DataFrame:
    """Return the rows that `work` gives for each piece, a task for each.

    A task that sees less than the driver gives the rows of `telling`; to raise the error is left to a later stage. The
    work is done whenever rows of the DataFrame are asked for, and again by each further attempt of a task.
    """

    def rows(sighted: Sighted[Piece]) -> Iterator[pa.RecordBatch]:
        try:
            with sighted.sight.agreed():
                yield from work(sighted.piece)
        except SeenLessError as error:
            yield telling(error)

    announce([sighted.piece for sighted in pieces])
    return _in_tasks(spark, pieces, rows, schema)


def answers_of(
    spark: SparkSession, pieces: Sequence[Sighted[Piece]], work: Callable[[Piece], Result]
) -> list[Answer[Result]]:
    """Return the answer of `work` for each piece, in order; only these small results cross into the JVM.

    Raises `SeenLessError` if a task sees less than the driver, and what Spark raises if a task fails.
    """

    def rows(sighted: Sighted[Piece]) -> Iterator[pa.RecordBatch]:
        found: Answer[Result] | SeenLessError
        try:
            with sighted.sight.agreed() as dropped:
                result = work(sighted.piece)
            found = Answer(result, dropped)
        except SeenLessError as error:
            found = error
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)], pa.binary())], ["result"])

    announce([sighted.piece for sighted in pieces])
    collected: list[Any] = _in_tasks(spark, pieces, rows, _RESULT).collect() if pieces else []
    answers: list[Answer[Result]] = []
    for row in collected:
        found = pickle.loads(row.result)  # noqa: S301 -- pickled by a worker above
        if isinstance(found, SeenLessError):
            raise found
        answers.append(found)
    return answers


def results_of(spark: SparkSession, pieces: Sequence[Sighted[Piece]], work: Callable[[Piece], Result]) -> list[Result]:
    """Return the result of `work` for each piece, in order; raises as `answers_of` does."""
    return [answer.result for answer in answers_of(spark, pieces, work)]


def _in_tasks(
    spark: SparkSession,
    pieces: Sequence[Piece],
    work: Callable[[Piece], Iterable[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    held = [pickle.dumps(piece) for piece in pieces]  # a task unpickles only its own

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for number in batch.column("id"):
                yield from work(pickle.loads(held[number.as_py()]))  # noqa: S301 -- pickled above

    return spark.range(0, len(held), 1, max(len(held), 1)).mapInArrow(run, schema)


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], schema: str | StructType) -> DataFrame:
    """Return rows that the driver has as a DataFrame.

    They go to Spark as Arrow, which makes a local relation: reading it needs no task.
    """
    parsed = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    return spark.createDataFrame(pa.Table.from_batches([batch_of(rows, parsed)]))


def batch_of(rows: Iterable[Sequence[Any]], schema: StructType) -> pa.RecordBatch:
    """Return rows as a record batch."""
    fields = to_arrow_schema(schema)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def cores(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time; a large number for Spark Connect, which does not tell."""
    context = getattr(spark, "sparkContext", None)
    return _CORES_OF_CONNECT if context is None else int(context.defaultParallelism)


def task_bytes(spark: SparkSession, total_bytes: int) -> int:
    """Return how much a task should read at least, so that starting it costs little and no core waits long."""
    return min(max(DEFAULT_SPLIT_BYTES, total_bytes // (_TASKS_PER_CORE * cores(spark))), _TASK_BYTES_MAX)
