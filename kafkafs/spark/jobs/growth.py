"""The records appended to a store, by the ends of its partitions before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkafs.spark.jobs.frames import frame_of
from storage.clock import Clock
from storage.files import Files
from storage.log_dir import are_vacant
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from storage.log_dir import Partition

SCHEMA: Final = "topic string, partition int, startOffset long, endOffset long, records long"


def ends_of(directories: Sequence[str]) -> dict[Partition, int]:
    """Return where the partitions of a store end now, without missing partitions."""
    files = Files()
    if are_vacant([files.directory(Path(each)) for each in directories]):
        return {}
    with Store.open(directories, mode=Mode.READ_ONLY, files=files, clock=Clock()) as opened:
        return {each: opened.log(*each).view.end_offset for each in opened.topics.inventory.partitions()}


def growth(spark: SparkSession, before: Mapping[Partition, int], after: Mapping[Partition, int]) -> DataFrame:
    """A row for each partition that has grown."""
    rows = []
    for (topic, partition), end in sorted(after.items()):
        start = before.get((topic, partition), 0)
        if end > start:
            rows.append((topic, partition, start, end, end - start))
    return frame_of(spark, rows, SCHEMA)
