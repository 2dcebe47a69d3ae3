"""Exports, read by pyarrow alone: the records that a mount shows, each once, after any failure of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from click.testing import CliRunner
from pyarrow import parquet
from spark_rows import Row, rows_of_table

from kafkafs.cli import main
from kafkafs.spark import jobs
from kafkafs.spark.errors import DataLossError, JobError
from kafkafs.spark.jobs import export_writing
from kafkafs.spark.jobs.export_writing import ExportTask, write_files
from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.record.encoding import batches_of_rows
from storage.split.splits import PartitionPlace, splits_of
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from conftest import GrowingStore
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
DAYS, RECORDS = (3_650, 40_000) if IS_PROOF else (100, 2_000)
TIME_S_MAX = 300

KILLED = """
import json, os, sys
from kafkafs.spark import jobs, session
from kafkafs.spark.jobs.export_target import ExportTarget
from storage.files import Files

store, target, point, settings = sys.argv[1:]

class DyingFiles(Files):
    def rename(self, old, new):
        if "topic=" in str(new):
            self.renamed = getattr(self, "renamed", 0) + 1
            if self.renamed == 2:
                os._exit(9)
        super().rename(old, new)

if point == "staged":
    ExportTarget.publish = lambda *_, **__: os._exit(9)
else:
    before = ExportTarget.__init__
    ExportTarget.__init__ = lambda self, files, root: before(self, DyingFiles(), root)
jobs.export(session(json.loads(settings)), store, target, incremental=True)
"""


def values(target: Path, name: str = "value") -> list[str]:
    """The values that are exported, as `GrowingStore` has them."""
    found = parquet.read_table(target).column(name).to_pylist()
    return sorted(each if isinstance(each, str) else each.decode() for each in found)


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_records_are_those_of_the_tree(
    name: str,
    isolation: Isolation,
    spark: SparkSession,
    tmp_path: Path,
    datasets: Callable[[str], Path],
    shown_rows: Callable[[str, Isolation], list[Row]],
) -> None:
    paths = [datasets(name) / name / each for each in ("d1", "d2")]
    found = jobs.export(spark, paths, tmp_path / "out", headers=True, isolation=isolation.value).collect()
    table = parquet.read_table(tmp_path / "out")
    rows = rows_of_table(table)
    assert rows == shown_rows(name, isolation)
    assert len(rows) > 30_000
    assert sum(each.records for each in found) == len(rows)
    for each in found:
        assert (tmp_path / "out" / each.file).stat().st_size == each.bytes
        file = parquet.ParquetFile(tmp_path / "out" / each.file).read()
        offsets = file.column("offset").to_pylist()
        assert offsets == sorted(set(offsets))
        assert (len(offsets), offsets[0], offsets[-1] + 1) == (each.records, each.startOffset, each.endOffset)
        assert {str(time) for time in pc.cast(file.column("timestamp"), "date32").to_pylist()} == {each.date}
        assert each.file.startswith(f"topic={each.topic}/date={each.date}/")
    assert spark.read.parquet(str(tmp_path / "out")).count() == len(rows)


def test_what_is_new_is_added(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    target = tmp_path / "out"
    growing.create("a", 2)
    growing.append("a", 0, 30)

    def exported() -> list[tuple[str, int, int, int]]:
        rows = jobs.export(spark, growing.path, target, incremental=True).collect()
        assert values(target) == growing.values()
        return [(row.topic, row.partition, row.startOffset, row.endOffset) for row in rows]

    assert exported() == [("a", 0, 0, 30)]
    assert exported() == []
    growing.append("a", 0, 5, first_timestamp_ms=1_700_000_000_000 + 2 * DAY_MS)
    growing.append("a", 1, 3)
    growing.create("_b")
    growing.append("_b", 0, 4)
    assert exported() == [("_b", 0, 0, 4), ("a", 0, 30, 35), ("a", 1, 0, 3)]
    assert len(list(target.glob("topic=a/date=*"))) == 2
    marks = json.loads((target / "_kafkafs" / "watermarks.json").read_text())["watermarks"]
    assert [(each["topic"], each["partition"], each["endOffset"]) for each in marks] == [
        ("_b", 0, 4),
        ("a", 0, 35),
        ("a", 1, 3),
    ]
    jobs.export(spark, growing.path, target)
    assert values(target) == growing.values(), "all of it, in place of what was there"
    with pytest.raises(JobError, match=r"exported with headers=false, .*, and now it would be headers=true"):
        jobs.export(spark, growing.path, target, incremental=True, headers=True)


def test_what_is_gone_is_told(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    target = tmp_path / "out"
    growing.create("a")
    growing.append("a", 0, 200)
    jobs.export(spark, growing.path, target, incremental=True)
    begin = growing.retire("a", 0, keep=2)
    with pytest.raises(JobError, match=f"a-0 is exported from offset 0 on, and begins with {begin} by now"):
        jobs.export(spark, growing.path, target)
    growing.append("a", 0, 300)
    gone = growing.retire("a", 0, keep=1)
    assert gone > 200
    with pytest.raises(DataLossError, match=f"of a-0 are gone, .*: offsets 200 to {gone - 1}; --accept-data-loss"):
        jobs.export(spark, growing.path, target, incremental=True)
    jobs.export(spark, growing.path, target, incremental=True, accept_data_loss=True)
    assert values(target) == sorted(f"a-0-{offset}" for offset in [*range(200), *range(gone, 500)])
    growing.store.topics.delete("a")
    growing.create("a")
    growing.append("a", 0, 1000)
    with pytest.raises(JobError, match="a-0 is of another topic than the one of that name that was exported"):
        jobs.export(spark, growing.path, target, incremental=True)


@pytest.mark.parametrize("point", ["staged", "publishing"])
def test_a_driver_that_is_killed_and_run_again(
    point: str, spark: SparkSession, spark_settings: dict[str, str], growing: GrowingStore, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    growing.create("a", 3)
    for partition in range(3):
        growing.append("a", partition, 10)
    jobs.export(spark, growing.path, target, incremental=True)
    for partition in range(3):
        growing.append("a", partition, 20)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, growing.path, target, point, json.dumps(spark_settings)],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_S_MAX,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 9, done.stderr[-4000:]
    assert len(values(target)) == {"staged": 30, "publishing": 50}[point]
    growing.append("a", 0, 5)
    jobs.export(spark, growing.path, target, incremental=True)
    assert values(target) == growing.values()


def split_task(store: GrowingStore, staging: Path) -> ExportTask:
    """The task that exports all of topic `a`."""
    with Store.open([store.path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        log = opened.log("a", 0)
        place = PartitionPlace(str(store.path), "a", 0)
        splits = splits_of(log, place, 0, log.view.end_offset, on_loss=lambda loss: pytest.fail(str(loss)))
    return ExportTask(tuple(splits), str(staging), False, "binary", "zstd", False)


def append_at(store: GrowingStore, times_ms: Iterable[int]) -> None:
    """Append a record for each time to topic `a`."""
    rows = [(time_ms, b"key", b"value", ()) for time_ms in times_ms]
    for batch in batches_of_rows(rows, base_offset=None):
        store.store.log("a", 0).append_as_leader(batch, leader_epoch=0)


def test_attempts_write_files_of_their_own_with_the_records_of_many_days_in_turn(
    growing: GrowingStore, tmp_path: Path
) -> None:
    """More days than files may be open at once: one file a day, and each record in one."""
    growing.store.topics.create("a", 1, {"segment.bytes": "10000000"})
    append_at(growing, (number % DAYS * DAY_MS for number in range(RECORDS)))
    task = split_task(growing, tmp_path)
    attempts = [write_files(task) for _ in range(2)]
    assert [each.file for each in attempts[0]] == [each.file for each in attempts[1]]
    assert len({each.staged for attempt in attempts for each in attempt}) == len(list(tmp_path.glob("*.parquet")))
    assert len(attempts[0]) == DAYS
    offsets = []
    for each in attempts[0]:
        table = parquet.ParquetFile(each.staged).read()
        offsets += table.column("offset").to_pylist()
        assert {str(day) for day in pc.cast(table.column("timestamp"), "date32").to_pylist()} == {each.file.date}
        assert (each.file.first_offset, each.file.last_offset) == (offsets[-table.num_rows], offsets[-1])
    assert sorted(offsets) == list(range(RECORDS))


def test_records_that_do_not_fit_into_memory(
    growing: GrowingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more files are open than may be, and those of few days go on."""
    monkeypatch.setattr(export_writing, "_HELD_BYTES_MAX", 1)
    monkeypatch.setattr("storage.record.columns.DEFAULT_CHUNK_BYTES", 4096)
    opened = []
    monkeypatch.setattr(export_writing._Writing, "_finish", noting(export_writing._Writing._finish, opened))
    growing.create("a")
    for days in (3, 50):
        for number in range(100):
            append_at(growing, [number % days * DAY_MS])
    found = write_files(split_task(growing, tmp_path))
    offsets = [offset for each in found for offset in parquet.read_table(each.staged).column("offset").to_pylist()]
    assert sorted(offsets) == list(range(200))
    assert max(opened) == export_writing._OPEN_MAX
    assert {each.file.date for each in found if each.file.first_offset == 0} == {"1970-01-01"}


def noting(finish: Callable[..., None], opened: list[int]) -> Callable[..., None]:
    """The same, which notes how many files are open before."""

    def noted(writing: Any, keep: int) -> None:
        opened.append(len(writing._open))
        finish(writing, keep)

    return noted


def test_values_as_text(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    growing.create("a")
    growing.append("a", 0, 3)
    jobs.export(spark, growing.path, tmp_path / "text", values="text", compression="zstd")
    table = parquet.read_table(tmp_path / "text")
    assert [str(table.schema.field(name).type) for name in ("key", "value")] == ["string", "string"]
    assert values(tmp_path / "text") == growing.values()
    frame = spark.createDataFrame([(b"\xff", "a")], "value binary, topic string")
    growing.store.close()
    frame.write.format("kafkafs").mode("append").save(str(growing.path))
    with pytest.raises(Exception, match="a value in a-0, offset 3, is not UTF-8: export it with --values bin"):
        jobs.export(spark, growing.path, tmp_path / "text", values="text", incremental=True)
    assert len(values(tmp_path / "text")) == 3


def test_the_command(spark: SparkSession, growing: GrowingStore, tmp_path: Path) -> None:
    assert spark.getActiveSession() is not None
    growing.create("a")
    growing.append("a", 0, 3)
    command = ["spark", "export", str(growing.path), str(tmp_path / "out"), "a", "--values", "text", "--jsonl"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)
    assert (row["topic"], row["partition"], row["startOffset"], row["endOffset"], row["records"]) == ("a", 0, 0, 3, 3)
    assert (tmp_path / "out" / row["file"]).is_file()
    assert "exported 3 records in 1 files" in done.stderr
    inside = CliRunner().invoke(main, ["spark", "export", str(growing.path), str(growing.path / "out")])
    assert inside.exit_code == 3
    assert "is in the store itself, where no broker bears it: export to another directory" in inside.stderr
    missing = CliRunner().invoke(main, ["spark", "export", str(growing.path), str(tmp_path / "b"), "b"])
    assert missing.stderr.endswith("kafkafs: there is no topic 'b' in the store; its topics are: a\n")
