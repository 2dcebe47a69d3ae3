"""Runs work piece by piece in Spark's Python workers, and brings small results to the driver."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkafs.spark.jobs.tasks import in_tasks
from storage.split import DEFAULT_SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_MANY: Final = 1000
_TASKS_PER_CORE: Final = 3
_TASK_BYTES_MAX: Final = 512 * 1024 * 1024  # what is lost if one fails
_SCHEMA: Final = StructType([StructField("result", BinaryType())])


def results_of(spark: SparkSession, pieces: Sequence[Piece], work: Callable[[Piece], Result]) -> list[Result]:
    """Return the result of `work` for each piece, in order. Raises what Spark raises if a task fails."""

    def rows(piece: Piece) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(work(piece))], pa.binary())], ["result"])

    found: list[Any] = in_tasks(spark, pieces, rows, _SCHEMA).collect() if pieces else []
    return [pickle.loads(row.result) for row in found]  # noqa: S301 -- what a worker has pickled above


def cores(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time; a large number for Spark Connect, which does not tell."""
    context = getattr(spark, "sparkContext", None)
    return _MANY if context is None else int(context.defaultParallelism)


def task_bytes(spark: SparkSession, total_bytes: int) -> int:
    """Return how much a task should read at least, so that starting it costs little and no core waits long."""
    return min(max(DEFAULT_SPLIT_BYTES, total_bytes // (_TASKS_PER_CORE * cores(spark))), _TASK_BYTES_MAX)
