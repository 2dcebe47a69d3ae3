"""What the driver logs of a scan, which no filter makes shorter."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark.options import BatchOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

reports = pytest.importorskip("kafkafs.spark.reports", reason="not run: PySpark is not installed")
schemas = pytest.importorskip("kafkafs.spark.schema", reason="not run: PySpark is not installed")
PATH = {"path": "/store"}


def test_a_scan_says_what_it_reads_and_what_would_read_less(caplog: pytest.LogCaptureFixture) -> None:
    schema: StructType = schemas.source_schema(has_headers=False)
    whole = BatchOptions.parse(PATH)
    reports.say_scan(whole, schema, 7, 2)
    reports.say_scan(whole, schema, (1 << 30) + 1, 40)
    small, large = caplog.records
    assert (small.levelno, large.levelno) == (logging.INFO, logging.WARNING)
    assert small.getMessage() == (
        "the query reads 7 bytes of the log in 2 tasks; no filter makes it less, but these do: subscribe or assign, "
        "startingOffsets or startingTimestamp, endingOffsets or endingTimestamp, a schema of fewer columns"
    )
    bounded = {**PATH, "subscribe": "t", "startingTimestamp": "-1h", "endingTimestamp": "now"}
    assert reports.shorter_by(BatchOptions.parse(bounded), schema) == ["a schema of fewer columns"]
    assert reports.shorter_by(BatchOptions.parse(bounded), type(schema)(schema.fields[:1])) == []
