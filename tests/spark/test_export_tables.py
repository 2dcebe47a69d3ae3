"""Tables of exported files, read by the libraries of Delta Lake, Iceberg and DuckDB, whatever times records have."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pyiceberg.catalog import load_catalog
from pyiceberg.types import StringType
from pyiceberg.utils.config import Config

from kafkafs.cli import main
from kafkafs.spark import jobs
from kafkafs.spark.errors import JobError, OptionError
from kafkafs.spark.jobs.export_target import NO_DATE
from storage.clock import Clock
from storage.files import Files
from storage.record.encoding import batches_of_rows
from storage.store.store import Mode, Store
from storage.testing.batch_codec import CRC_COVERS_FROM, CRC_POSITION
from storage.testing.checksums import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GrowingStore
    from pyspark.sql import SparkSession

    Export = Callable[[str], list[Any]]

BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 27, 35
DAY_MS = 86_400_000
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
NOW_MS = 1_700_000_000_000
VALID = [NOW_MS, -1, 0, -2, FIRST_MS, LAST_MS, 253_402_300_799_000, -DAY_MS - 1]
INVALID = [NOW_MS * 1000, NOW_MS * 10**6, FIRST_MS - 1, LAST_MS + 1, 2**63 - 1, -(2**63), -(2**55)]


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a catalog of Iceberg."""
    for name, value in (
        ("TYPE", "sql"),
        ("URI", f"sqlite:///{tmp_path}/catalog.db"),
        ("WAREHOUSE", f"file://{tmp_path}/warehouse"),
    ):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__EXPORTED__{name}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read when the package was loaded
    return "exported"


@pytest.fixture
def export(spark: SparkSession, growing: GrowingStore, tmp_path: Path, catalog: str) -> Export:
    """Return what exports what is new into a kind of table."""

    def exported(table: str) -> list[Any]:
        target = tmp_path / table
        frame = jobs.export(spark, growing.path, target, incremental=True, headers=True, table=table, catalog=catalog)
        return frame.collect()

    return exported


def append_at(store: GrowingStore, times_ms: list[int]) -> None:
    """Append a record for each time to topic `a`, with the time as its value, as a leader of any time had it."""
    log = store.store.log("a", 0)
    for time_ms in times_ms:
        (made,) = batches_of_rows([(0, None, b"%d" % time_ms, ())], base_offset=log.view.end_offset)
        batch = bytearray(made)
        for position in (BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT):
            batch[position : position + 8] = time_ms.to_bytes(8, "big", signed=True)
        batch[CRC_POSITION:CRC_COVERS_FROM] = crc32c(bytes(batch[CRC_COVERS_FROM:])).to_bytes(4, "big")
        log.append_as_follower([bytes(batch)])


def times_by_value(table: pa.Table) -> dict[int, tuple[int | None, int | None]]:
    """The milliseconds of `timestamp` and of `invalidTimestamp` by those of the value."""
    times = table.column("timestamp").cast(pa.timestamp("us")).cast(pa.int64())
    columns = (table.column("value"), times, table.column("invalidTimestamp"))
    return {
        int(value): (None if time is None else time // 1000, invalid)
        for value, time, invalid in zip(*(column.to_pylist() for column in columns), strict=True)
    }


def iceberg_table(name: str = "a") -> Any:
    return load_catalog("exported").load_table(("kafka", name))


def test_tables(growing: GrowingStore, export: Export, spark: SparkSession, tmp_path: Path) -> None:
    growing.create("a", 2)
    for count, partition in ((4, 0), (3, 1), (5, 0)):
        growing.append("a", partition, count, first_timestamp_ms=NOW_MS + count * DAY_MS)
        for table in ("delta", "iceberg"):
            export(table)
            export(table)
        delta = DeltaTable(tmp_path / "delta").to_pyarrow_table()
        for found in (delta, iceberg_table().scan().to_arrow()):
            assert sorted(value.decode() for value in found.column("value").to_pylist()) == growing.values()
        assert set(delta.column("topic").to_pylist()) == {"a"}
        assert delta.column("date").type == "date32"
    (tmp_path / "delta" / "_kafkafs" / "registered.json").unlink()
    export("delta")
    assert DeltaTable(tmp_path / "delta").to_pyarrow_table().num_rows == 12, "what the table has is not added again"
    with pytest.raises(OptionError, match="a table's files are never replaced: --table goes with --incremental"):
        jobs.export(spark, growing.path, tmp_path / "delta", headers=True, table="delta")
    with pytest.raises(JobError, match=r"the Iceberg catalog 'none' cannot be used: .+"):
        jobs.export(spark, growing.path, tmp_path / "x", incremental=True, table="iceberg", catalog="none")


def test_odd_timestamps(growing: GrowingStore, export: Export, spark: SparkSession, tmp_path: Path) -> None:
    """What is no date from 0001 to 9999 is in the partition without a date, and its number is kept."""
    growing.create("a")
    append_at(growing, [*VALID, *INVALID])
    due = {**{each: (each, None) for each in VALID}, **{each: (None, each) for each in INVALID}}
    for table in ("delta", "iceberg"):
        dates = {row.date: row.records for row in export(table)}
        assert dates[None] == len(INVALID)
        assert sum(dates.values()) == len(due)
    append_at(growing, [NOW_MS * 1000 + 1, NOW_MS + 1])
    due |= {NOW_MS * 1000 + 1: (None, NOW_MS * 1000 + 1), NOW_MS + 1: (NOW_MS + 1, None)}
    for table in ("delta", "iceberg"):
        export(table)
    delta = DeltaTable(tmp_path / "delta")
    assert times_by_value(delta.to_pyarrow_table()) == due
    assert delta.to_pyarrow_table(filters=[("date", "=", date(2023, 11, 14))]).num_rows == 2
    assert times_by_value(iceberg_table().scan().to_arrow()) == due
    assert iceberg_table().scan(row_filter="timestamp >= '2023-11-14T00:00:00+00:00'").to_arrow().num_rows == 4
    assert iceberg_table().scan(row_filter="timestamp is null").to_arrow().num_rows == len(INVALID) + 1
    files = f"read_parquet('{tmp_path}/delta/topic=*/date=*/*.parquet', hive_partitioning = true)"
    assert times_by_value(duckdb.sql(f"SELECT * FROM {files}").arrow().read_all()) == due
    days = duckdb.sql(f"SELECT typeof(date), count(*) FROM {files} WHERE date = DATE '2023-11-14' GROUP BY 1")
    assert days.fetchall() == [("DATE", 2)]
    assert duckdb.sql(f"SELECT count(*) FROM {files} WHERE date IS NULL").fetchall() == [(len(INVALID) + 1,)]
    rows = spark.read.parquet(str(tmp_path / "delta"))
    assert dict(rows.dtypes)["date"] == "date"
    assert rows.where("date IS NULL AND timestamp IS NULL AND invalidTimestamp IS NOT NULL").count() == len(INVALID) + 1
    mended = rows.where(f"invalidTimestamp = {NOW_MS * 1000}")
    told = mended.selectExpr("unix_millis(coalesce(timestamp, timestamp_micros(invalidTimestamp))) AS ms").collect()
    assert [row.ms for row in told] == [NOW_MS]
    done = CliRunner().invoke(main, ["spark", "export", str(growing.path), str(tmp_path / "out")])
    assert f"{len(INVALID) + 1} records have timestamps outside of the years 0001 to 9999" in done.stderr
    assert (tmp_path / "out" / "topic=a" / f"date={NO_DATE}").is_dir()


def test_times_that_are_no_dates_come_back(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    """Exported and ingested, records have the timestamps that they had."""
    growing.create("a")
    append_at(growing, [NOW_MS, NOW_MS * 1000])
    jobs.export(spark, growing.path, tmp_path / "out")
    with Store.create([tmp_path / "other"], files=Files(), clock=Clock()) as other:
        other.topics.create("a", 1)
    jobs.ingest(spark, tmp_path / "out", tmp_path / "other").collect()
    with Store.open([tmp_path / "other"], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as other:
        batches = other.log("a", 0).view.batches(0)
        found = {int(record.value or b""): record.timestamp for batch in batches for record in batch.records()}
    assert found == {NOW_MS: NOW_MS, NOW_MS * 1000: NOW_MS * 1000}


def test_a_table_that_an_earlier_version_broke(growing: GrowingStore, export: Export, tmp_path: Path) -> None:
    """A date that Delta Lake cannot read made all of the table unreadable."""
    growing.create("a")
    append_at(growing, [NOW_MS, NOW_MS * 1000])
    export("delta")
    root = tmp_path / "delta"
    (file,) = (root / "topic=a" / f"date={NO_DATE}").iterdir()
    old = root / "topic=a" / "date=55840-11-03" / file.name
    old.parent.mkdir()
    file.rename(old)
    values = {"topic": "a", "date": "55840-11-03"}
    action = AddAction(str(old.relative_to(root)), old.stat().st_size, values, 0, True, json.dumps({"numRecords": 1}))
    table = DeltaTable(root)
    with pytest.raises(DeltaError, match="55840-11-03"):  # which it finds when it has written the log
        table.create_write_transaction([action], "append", table.schema(), ["topic", "date"])
    append_at(growing, [NOW_MS + 1])
    with pytest.raises(
        JobError, match=r"the Delta table in .*/delta cannot be read \(.*55840-11-03.*\): move .*/_delta_log"
    ):
        export("delta")
    shutil.move(root / "_delta_log", tmp_path / "broken")
    export("delta")
    assert DeltaTable(root).to_pyarrow_table().num_rows == 3
    append_at(growing, [NOW_MS + 2])
    export("delta")
    assert DeltaTable(root).to_pyarrow_table().num_rows == 4


def test_a_table_of_an_earlier_version(growing: GrowingStore, export: Export, tmp_path: Path) -> None:
    """A column that it lacks is added, and an error of its library is told as one."""
    growing.create("a")
    append_at(growing, [NOW_MS])
    for table in ("delta", "iceberg"):
        export(table)
    root = tmp_path / "delta"
    (log,) = (root / "_delta_log").glob("*.json")
    lines = list(map(json.loads, log.read_text().splitlines()))
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            schema["fields"] = [field for field in schema["fields"] if field["name"] != "invalidTimestamp"]
            line["metaData"]["schemaString"] = json.dumps(schema)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with iceberg_table().update_schema() as update:
        update.delete_column("invalidTimestamp")
    append_at(growing, [NOW_MS * 1000])
    for table in ("delta", "iceberg"):
        export(table)
    due = {NOW_MS: (NOW_MS, None), NOW_MS * 1000: (None, NOW_MS * 1000)}
    assert times_by_value(DeltaTable(root).to_pyarrow_table()) == due
    assert times_by_value(iceberg_table().scan().to_arrow()) == due
    with iceberg_table().update_schema() as update:
        update.delete_column("offset")
    with iceberg_table().update_schema() as update:
        update.add_column("offset", StringType())
    append_at(growing, [NOW_MS + 1])
    with pytest.raises(
        JobError, match=r"the Iceberg table kafka.a did not take the new files \(.+\): they are exported"
    ):
        export("iceberg")


@pytest.mark.parametrize(("table", "package"), [("delta", "deltalake"), ("iceberg", "pyiceberg")])
def test_a_table_without_its_package(
    table: str, package: str, spark: SparkSession, growing: GrowingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (package, "pyiceberg.catalog"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(JobError, match=rf"--table {table} needs {package}: run `pip install 'kafkafs\[lake\]'`"):
        jobs.export(spark, growing.path, growing.path.parent / "out", incremental=True, table=table)
