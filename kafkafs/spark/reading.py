"""The work of a task: it reads splits, and returns their rows to Spark."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from kafkafs.spark.opened_store import report_loss
from kafkafs.spark.rows import SparkRows
from kafkafs.spark.worker import settle
from storage.clock import Clock
from storage.files import Files
from storage.split import SplitReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkafs.spark.options import StoreOptions
    from storage.errors import CorruptBatchError
    from storage.split import Split

logger = logging.getLogger(__name__)


def read_splits(splits: Sequence[Split], schema: StructType, options: StoreOptions) -> Iterator[pa.RecordBatch]:
    """The rows of splits, one after another."""
    settle()
    rows = SparkRows(schema)
    reader = SplitReader(
        Files(),
        Clock(),
        columns=rows.columns,
        on_loss=partial(report_loss, fails=options.fails_on_data_loss),
        on_damage=_say if options.skips_damage else None,
    )
    for split in splits:
        for batch in reader.read(split):
            yield rows.of(batch, split.place.topic, split.place.partition)


def _say(damage: CorruptBatchError) -> None:
    logger.warning("left out: %s", damage)
