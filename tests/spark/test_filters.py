"""Why the source takes no filters: the defect of Spark that would make queries wrong, so that its end shows here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

datasource = pytest.importorskip("pyspark.sql.datasource", reason="not run: PySpark is not installed")
SETTING = "spark.sql.python.filterPushdown.enabled"


class PruningReader(datasource.DataSourceReader):
    """Four partitions of one row; reads the one that a filter asks for, which Spark still applies to its row."""

    def __init__(self) -> None:
        self._wanted = [0, 1, 2, 3]

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 -- Spark's name
        for each in filters:
            if isinstance(each, datasource.EqualTo):
                self._wanted = [each.value]
            yield each

    def partitions(self) -> list[Any]:
        return [datasource.InputPartition(number) for number in self._wanted]

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        yield (partition.value,)


class Pruning(datasource.DataSource):
    """A source that prunes by filters."""

    @classmethod
    def name(cls) -> str:
        return "pruning"

    def schema(self) -> str:
        return "p int"

    def reader(self, schema: Any) -> PruningReader:  # noqa: ARG002
        return PruningReader()


@contextmanager
def pushing(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(SETTING, "true")
    try:
        yield
    finally:
        spark.conf.unset(SETTING)


def test_filters_that_are_pushed_stick_to_a_data_frame(spark: SparkSession) -> None:
    """When this fails Spark is mended, and the source may take filters."""
    spark.dataSource.register(Pruning)
    with pushing(spark):
        frame = spark.read.format("pruning").load()
        assert frame.where("p = 1").count() == 1
        assert frame.count() == 1, "there are 4"
        assert spark.read.format("pruning").load().count() == 4
