"""`kafkafs stats` as a command: what it counts in logs of real brokers, how that is printed, and what it leaves be."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

BATCH = re.compile(r"^(?:baseOffset: \d+ lastOffset: \d+ count: (\d+)|offset: \d+ )", re.MULTILINE)
RECORD = re.compile(r"^\| offset: ", re.MULTILINE)


def stats(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["stats", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> str:
    result = stats(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def state_of(*roots: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size) for root in roots for path in (root, *root.rglob("*"))
    }


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-3.9", "kafka-2.2", "kafka-3.9-killed"])
def test_the_counts_are_those_of_the_real_dump(name: str, datasets: Callable[[str], Path]) -> None:
    root = datasets(name) / name
    paths = [root / "d1", root / "d2"]
    before = state_of(*paths)
    rows = json.loads(done(",".join(map(str, paths)), "--json"))
    compared = 0
    for row in rows:
        directory = f"{row['topic']}-{row['partition']}"
        dumps = [
            text
            for path in paths
            for text in sorted((root.with_name(f"{name}.dump") / path.name / directory).glob("*.log.txt"))
        ]
        texts = [text.read_text(errors="replace") for text in dumps]
        assert row["segments"] == sum(
            1 for path in paths for log in (path / directory).glob("*.log") if log.stem.isdigit()
        )
        if not texts or row["startOffset"] > int(dumps[0].name.partition(".")[0]):
            continue
        batches = [match for text in texts for match in BATCH.finditer(text)]
        assert row["batches"] == len(batches)
        assert row["records"] == sum(len(RECORD.findall(text)) for text in texts)
        assert sum(row["codecs"].values()) == sum(row["magics"].values()) == row["batches"]
        assert row["damages"] == 0
        compared += 1
    assert compared >= 30
    assert state_of(*paths) == before


@pytest.mark.golden
def test_the_forms_and_the_choice_of_topics(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    store = f"{root / 'd1'},{root / 'd2'}"
    rows = json.loads(done(store, "t-mixed", "t-none", "t-mixed", "--json"))
    assert [(row["topic"], row["partition"]) for row in rows] == [("t-mixed", 0), ("t-none", 0), ("t-none", 1)]
    mixed = rows[0]
    assert (mixed["records"], mixed["startOffset"], mixed["endOffset"], mixed["magics"]) == (2520, 0, 2520, {"2": 64})
    assert mixed["codecs"] == {"gzip": 12, "lz4": 12, "none": 12, "snappy": 12, "zstd": 16}
    lines = done(store, "t-mixed", "t-none", "--jsonl").splitlines()
    assert [json.loads(line) for line in lines] == rows
    read = list(csv.DictReader(io.StringIO(done(store, "t-mixed", "--csv"))))
    assert [json.loads(row["codecs"]) for row in read] == [mixed["codecs"]]
    assert done(store, "t-mixed").splitlines()[0].split() == list(mixed)
    assert done(store, "t-mixed") == done(store, "t-mixed", "--table")


@pytest.mark.golden
def test_a_store_that_somebody_has_locked(datasets: Callable[[str], Path], tmp_path: Path) -> None:
    source = datasets("kafka-3.9") / "kafka-3.9" / "d1"
    shutil.copytree(source / "t-none-0", tmp_path / "t-none-0")
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert json.loads(done(tmp_path, "--jsonl"))["records"] == 2120


def test_damage_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / "00000000000000000000.log"
    log.write_bytes(bytes(8) + b"\0\0\0\1" + bytes(90))
    result = stats(tmp_path, "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("kafkafs: the batch length 1 is below the smallest possible, 14 (")
    assert str(log) in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["records"], row["damages"], row["firstTimestamp"], row["lastTimestamp"]) == (0, 1, None, None)


def test_what_is_not_there(tmp_path: Path) -> None:
    assert stats(tmp_path / "no").exit_code == 2
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    result = stats(tmp_path, "other")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "other" in result.stderr
    assert re.search(r"Example:\n +kafkafs stats /var/lib/kafka orders --table", stats("--help").stdout)
