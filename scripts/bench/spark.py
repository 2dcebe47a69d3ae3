"""Jobs and the source of Spark on a gigabyte of store, beside what somebody would write by hand for the same files.

Spark runs in processes of their own, with one core and with two. Contenders are timed in turn, warm, by the clock on
the wall, and the best of the rounds counts: what other work on the machine adds is left out. The hand-written
job decodes the records of the same files to Arrow in the workers and adds up what it finds there, in as many tasks as
suit it best. One core of plain pyarrow does the same without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from segments import rows
from timing import Scoreboard

from kafkafs.spark import jobs, read, session
from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.record.columns import read_columns
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

TOPIC, PARTITIONS = "orders", 4
STORE_BYTES = 1_000_000_000
MADE_BYTES = 25_000_000  # rows made at first, and appended again and again
SETTINGS = {"segment.bytes": str(64 * 1024 * 1024)}
VALUE_BYTES, BATCH_BYTES = 200, 16 * 1024
ROUNDS = 4
COLUMNS = ("offset", "timestamp", "key", "value")
SPEED_MIN, RATIO_MAX, COUNT_S_MAX, EXPORT_RATIO_MAX = 0.6, 1.6, 2.5, 1.3
FOUND = "path string, records long, bytes long"


def make_store(path: Path, size_bytes: int) -> None:
    batches = list(batches_of_rows(rows(VALUE_BYTES, 0, MADE_BYTES), base_offset=None, max_bytes=BATCH_BYTES))
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create(TOPIC, PARTITIONS, SETTINGS)
        for number in range(PARTITIONS):
            log = store.log(TOPIC, number)
            appended_bytes = 0
            while appended_bytes < size_bytes // PARTITIONS:
                for batch in batches:
                    log.append_as_leader(batch, leader_epoch=0)
                    appended_bytes += len(batch)


def logs_of(path: Path) -> list[Path]:
    return sorted(path.rglob("*.log"))


def size_of(path: Path) -> int:
    return sum(log.stat().st_size for log in logs_of(path))


def decoded(log: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(log) as mapped:
        yield from read_columns(mapped.read_buffer(), columns=COLUMNS)


def summed(log: str) -> tuple[str, int, int]:
    records = size_bytes = 0
    for batch in decoded(log):
        records += batch.num_rows
        size_bytes += batch.column("value").nbytes
    return log, records, size_bytes


def by_hand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [summed(log) for log in batch.column(0).to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(each) for each in zip(*found, strict=True)], FOUND_NAMES)


FOUND_NAMES = [part.split()[0] for part in FOUND.split(", ")]


def hand_written(logs: DataFrame) -> None:
    logs.mapInArrow(by_hand, FOUND).collect()


class Contenders:
    """What is timed in one session; what was written is removed before it is written again."""

    def __init__(self, spark: SparkSession, store: Path, folder: Path) -> None:
        self.spark, self.store, self.folder = spark, str(store), folder
        cores = spark.sparkContext.defaultParallelism
        names = [(str(log),) for log in logs_of(store)]
        self.tasks = {
            f"by hand, {count} tasks": spark.createDataFrame(names, "path string").repartition(count).cache()
            for count in (cores, 2 * cores, 4 * cores)
        }
        for frame in self.tasks.values():
            frame.count()
        self.other = str(folder / "other")
        shutil.copytree(store, self.other)
        self.rows = str(folder / "rows")
        self.read().write.parquet(self.rows)

    def read(self) -> DataFrame:
        return read(self.spark, self.store)

    def written(self, write: Callable[[str], object]) -> None:
        target = self.folder / "written"
        shutil.rmtree(target, ignore_errors=True)
        write(str(target))

    def all(self, *, is_whole: bool) -> dict[str, Callable[[], object]]:
        contenders: dict[str, Callable[[], object]] = {
            "stats": lambda: jobs.stats(self.spark, self.store).collect(),
            "verify": lambda: jobs.verify(self.spark, self.store).collect(),
            "count": lambda: read(self.spark, self.store, columns=["offset"]).count(),
            **{name: partial(hand_written, frame) for name, frame in self.tasks.items()},
        }
        if is_whole:
            contenders |= {
                "count, all columns": lambda: self.read().count(),
                "skew": lambda: jobs.skew(self.spark, self.store).collect(),
                "diff": lambda: jobs.diff(self.spark, self.store, self.other).collect(),
                "export": lambda: self.written(lambda target: jobs.export(self.spark, self.store, target).collect()),
                "copy": lambda: self.written(self.spark.read.parquet(self.rows).write.parquet),
            }
        return contenders


def best_seconds(contenders: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best of the rounds for each, after one that warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 + ROUNDS):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: min(taken[1:]) for name, taken in times.items()}


def measure(store: Path, cores: int, memory: str) -> dict[str, float]:
    """The times with so many cores, taken in a process that ends with its Spark."""
    with tempfile.TemporaryDirectory(dir=store.parent) as folder:
        spark = session(
            {
                "spark.master": f"local[{cores}]",
                "spark.driver.memory": memory,
                "spark.driver.host": "127.0.0.1",
                "spark.local.dir": folder,
                "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false",
            }
        )
        try:
            return best_seconds(Contenders(spark, store, Path(folder)).all(is_whole=cores > 1))
        finally:
            spark.stop()


def measured(store: Path, cores: int, memory: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--store", str(store), "--memory", memory, "--measure", str(cores)]
    checkout = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([checkout, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def plain_pyarrow(store: Path, folder: Path) -> dict[str, float]:
    """One core without Spark."""
    pa.set_cpu_count(1)

    def write() -> None:
        target = folder / "plain.parquet"
        with pq.ParquetWriter(target, next(decoded(str(logs_of(store)[0]))).schema) as writer:
            for log in logs_of(store):
                for batch in decoded(str(log)):
                    writer.write_batch(batch)
        target.unlink()

    return best_seconds({"decode": lambda: [summed(str(log)) for log in logs_of(store)], "decode and Parquet": write})


def report(board: Scoreboard, size_bytes: int, one: dict[str, float], two: dict[str, float]) -> None:
    hand, hand_s = min(((name, taken) for name, taken in two.items() if name.startswith("by hand")), key=lambda x: x[1])
    for job in ("stats", "verify"):
        taken = two[job]
        board.at_least(f"{job}, two cores", f"{taken:.2f} s", size_bytes / taken / 1e9, SPEED_MIN, "GB/s")
        board.at_most(f"  beside the one {hand}", f"which took {hand_s:.2f} s", taken / hand_s, RATIO_MAX, "x")
    for name, limit in (("count", COUNT_S_MAX), ("count, all columns", None), ("skew", None), ("diff", None)):
        figures = f"{size_bytes / two[name] / 1e6:.0f} MB/s"
        if limit is None:
            print(f"{name:<44} {figures:<58} {two[name]:>6.2f} s")
        else:
            board.at_most(f"{name} through the source", figures, two[name], limit, "s")
    figures = f"{two['export']:.1f} s, and Spark's copy from Parquet to Parquet {two['copy']:.1f} s"
    board.at_most("export to Parquet", figures, two["export"] / two["copy"], EXPORT_RATIO_MAX, "x")
    for name, taken in one.items():
        if name in {"stats", "verify", "count"}:
            board.line(f"two cores / one core: {name}", f"{taken:.2f} s, {two[name]:.2f} s", taken / two[name], None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, help="a store made by an earlier run; made there if it is missing")
    parser.add_argument("--bytes", type=int, default=STORE_BYTES, help="how large a store is made")
    parser.add_argument("--memory", default="1g", help="the heap of Spark's driver")
    parser.add_argument("--measure", type=int, metavar="CORES", help="measure with so many cores, and print JSON")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.store, options.measure, options.memory)))
        return 0
    board = Scoreboard()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder, "store")
        if not store.exists():
            make_store(store, options.bytes)
        size_bytes = size_of(store)
        print(f"{size_bytes / 1e9:.2f} GB in {len(logs_of(store))} segments of {PARTITIONS} partitions")
        plain = plain_pyarrow(store, Path(folder))
        for name, taken in plain.items():
            print(f"{f'one core of plain pyarrow: {name}':<44} {size_bytes / taken / 1e6:.0f} MB/s, {taken:.2f} s")
        one, two = (measured(store, cores, options.memory) for cores in (1, 2))
        report(board, size_bytes, one, two)
    for miss in board.missed:
        print(f"target missed: {miss}")
    return 1 if board.missed else 0


if __name__ == "__main__":
    sys.exit(main())
