"""The page on the library: every example gives what it says, and its programs do what they are for."""

from __future__ import annotations

import contextlib
import csv
import doctest
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from waiting import until

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = re.compile(r"^```python program=(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAM_LINES_MAX = 12
DAY_MS = 1_795_219_200_000  # 2026-11-21


@pytest.fixture
def command(page: Callable[[str], str], tmp_path: Path) -> Callable[[str], list[str]]:
    """Give the command that runs a program of the page on the store `store`."""

    def command_of(name: str) -> list[str]:
        program = dict(PROGRAMS.findall(page("python")))[name]
        (tmp_path / f"{name}.py").write_text(program)
        return [sys.executable, "-P", f"{name}.py", "store"]

    return command_of


def test_every_example_gives_what_the_page_says(
    page: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest("\n".join(EXAMPLES.findall(page("python"))), {}, "python.md", None, 0)
    assert len(test.examples) > 30
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out


def test_the_readme_shows_a_program_that_prints_the_last_records(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "README.md").read_text()
    (program,) = re.findall(r"^## Python\n.*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    with kafkafs.open(tmp_path / "store", write=True) as store:
        for number, partition in store.create("orders", partitions=2).items():
            partition.append(b"old", timestamp=1_700_000_000_000)
            partition.append(b"new", key=b"%d" % number)
    program = program.replace("/tmp/kafka/store", str(tmp_path / "store"))
    printed = subprocess.check_output([sys.executable, "-P", "-c", program], text=True)
    assert printed == "0 1 b'0' b'new'\n1 1 b'1' b'new'\n"


def test_programs_are_short(page: Callable[[str], str]) -> None:
    programs = dict(PROGRAMS.findall(page("python")))
    assert programs.keys() == {"tail", "parquet", "csv"}
    assert all(len([line for line in text.splitlines() if line]) <= PROGRAM_LINES_MAX for text in programs.values())


def test_a_topic_is_tailed_into_sqlite_and_continued_after_a_kill(
    command: Callable[[str], list[str]], tmp_path: Path
) -> None:
    def stored() -> list[tuple[int, int, bytes]]:
        with contextlib.closing(sqlite3.connect(tmp_path / "orders.db")) as db:
            try:
                return db.execute("SELECT partition, offset, value FROM orders ORDER BY 1, 2").fetchall()
            except sqlite3.OperationalError:
                return []  # it is not made yet

    with kafkafs.open(tmp_path / "store", write=True) as store:
        orders = store.create("orders", partitions=2)
        expected: list[tuple[int, int, bytes]] = []
        for _ in range(2):
            with subprocess.Popen(command("tail"), cwd=tmp_path) as program:
                for _ in range(3):
                    for number, partition in orders.items():
                        offset = partition.append(b"value of %d" % number)
                        expected.append((number, offset, b"value of %d" % number))
                    until(lambda: stored() == sorted(expected), lambda: f"{len(stored())} rows of {len(expected)}")
                program.kill()
            orders[0].append(b"meanwhile")
            expected.append((0, orders[0].end_offset - 1, b"meanwhile"))
        assert stored() == sorted(expected[:-1])


def test_a_day_of_a_topic_goes_into_parquet(command: Callable[[str], list[str]], tmp_path: Path) -> None:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        for number, partition in store.create("orders", partitions=2).items():
            times = [DAY_MS + hour * 3_600_000 + number for hour in range(-5, 30)]
            partition.append_many({"value": b"%d" % time, "timestamp": time} for time in times)
    subprocess.run(command("parquet"), cwd=tmp_path, check=True)
    rows = pq.read_table(tmp_path / "orders.parquet").to_pylist()
    assert [(row["partition"], int(row["value"])) for row in rows] == [
        (number, DAY_MS + hour * 3_600_000 + number) for number in range(2) for hour in range(24)
    ]
    assert all(row["timestamp"].date().isoformat() == "2026-11-21" for row in rows)


def test_a_csv_is_appended_with_keys(command: Callable[[str], list[str]], tmp_path: Path) -> None:
    rows = [{"id": str(number), "item": f"tea, {number}"} for number in range(3)]
    with (tmp_path / "orders.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "item"])
        writer.writeheader()
        writer.writerows(rows)
    for start in (0, 3):
        printed = subprocess.check_output(command("csv"), cwd=tmp_path, text=True)
        assert printed == f"range({start}, {start + 3})\n"
    with kafkafs.open(tmp_path / "store") as store:
        records = list(store["orders"][0].records())
    assert [(record.key, json.loads(record.value or b"")) for record in records] == [
        (row["id"].encode(), row) for row in rows * 2
    ]
