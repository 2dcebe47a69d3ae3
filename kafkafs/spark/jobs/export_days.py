"""The days of records, by which exported files are partitioned, and records in the order of their days.

A day is a date from 0001-01-01 to 9999-12-31, in UTC. Spark, Delta Lake, Iceberg and DuckDB read no other dates, and
one that they cannot read makes all of a table unreadable. A record with a timestamp beyond that, as when microseconds
were taken for milliseconds, has no day and no `timestamp`; its number is in `invalidTimestamp`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kafkafs.spark.task import SparkRows

NO_DAY: Final = np.iinfo(np.int64).max
"""The number of the records without a day, which come last."""

INVALID_TIMESTAMP: Final = pa.field("invalidTimestamp", pa.int64())
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
_LAST_MS: Final = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


class DatedRows(NamedTuple):
    """Rows of one partition, and the number of each row's day since 1970."""

    rows: pa.RecordBatch
    days: NDArray[np.int64]


def dated(batch: pa.RecordBatch, spark_rows: SparkRows, topic: str, partition: int) -> DatedRows:
    """Return the rows of a record batch, with the column `invalidTimestamp` at the end."""
    times = np.asarray(batch.column("timestamp").cast(pa.int64()))
    is_invalid = (times < _FIRST_MS) | (times > _LAST_MS)
    days = times // _DAY_MS
    invalid = pa.nulls(batch.num_rows, INVALID_TIMESTAMP.type)
    if is_invalid.any():
        days[is_invalid] = NO_DAY
        number = batch.schema.get_field_index("timestamp")
        valid_times = pa.array(times, batch.schema.field(number).type, mask=is_invalid)
        batch = batch.set_column(number, batch.schema.field(number), valid_times)
        invalid = pa.array(times, INVALID_TIMESTAMP.type, mask=~is_invalid)
    return DatedRows(spark_rows.of(batch, topic, partition).append_column(INVALID_TIMESTAMP, invalid), days)


def date_text(day: int) -> str | None:
    """Return a day as a date; None for that of records without one."""
    return None if day == NO_DAY else str(np.datetime64(day, "D"))


def by_day(dated_rows: list[DatedRows]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each day, the days and the rows of each in their order."""
    table = pa.Table.from_batches([each.rows for each in dated_rows])
    days = np.concatenate([each.days for each in dated_rows])
    if (days[1:] < days[:-1]).any():
        order = np.argsort(days, kind="stable")
        table, days = table.take(pa.array(order, pa.int64())), days[order]
    starts: list[int] = np.flatnonzero(np.concatenate([[True], days[1:] != days[:-1]])).tolist()
    for start, end in pairwise([*starts, len(days)]):
        yield int(days[start]), table.slice(start, end - start)
