"""Work done piece by piece in Spark's Python workers, a task for each piece; only its results cross into the JVM."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, TypeVar

from kafkafs.spark.worker import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Piece = TypeVar("Piece")


def in_tasks(
    spark: SparkSession,
    pieces: Sequence[Piece],
    work: Callable[[Piece], Iterable[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """The rows that `work` gives for each of the pieces.

    It is done whenever the DataFrame is asked for rows, and again by each further attempt of a task. Executors have to
    be able to import the module that `work` is of.
    """
    held = [pickle.dumps(piece) for piece in pieces]  # a task unpickles none but its own

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for batch in batches:
            for number in batch.column("id"):
                yield from work(pickle.loads(held[number.as_py()]))  # noqa: S301 -- what was pickled above

    return spark.range(0, len(held), 1, max(len(held), 1)).mapInArrow(run, schema)
