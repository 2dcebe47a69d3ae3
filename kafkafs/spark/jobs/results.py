"""What work gives that is done piece by piece in Spark's Python workers, brought to the driver: small values only."""

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
    """What `work` gives for each of the pieces, in their order. Raises what Spark raises if a task fails."""

    def rows(piece: Piece) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(work(piece))], pa.binary())], ["result"])

    found: list[Any] = in_tasks(spark, pieces, rows, _SCHEMA).collect() if pieces else []
    return [pickle.loads(row.result) for row in found]  # noqa: S301 -- what a worker has pickled above


def cores(spark: SparkSession) -> int:
    """How many tasks Spark does at a time; for a session through Spark Connect, which does not tell, many."""
    context = getattr(spark, "sparkContext", None)
    return _MANY if context is None else int(context.defaultParallelism)


def task_bytes(spark: SparkSession, total_bytes: int) -> int:
    """How much a task should read at least: so much that beginning it does not matter, and yet no core waits long."""
    return min(max(DEFAULT_SPLIT_BYTES, total_bytes // (_TASKS_PER_CORE * cores(spark))), _TASK_BYTES_MAX)
