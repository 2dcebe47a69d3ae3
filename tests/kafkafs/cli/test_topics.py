"""`kafkafs topics` as a command: what it prints, what it changes, and how it refuses."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.config import TOPIC_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"


def topics(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["topics", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> str:
    result = topics(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def refused(*arguments: object, code: int = 1) -> str:
    result = topics(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr.removeprefix("kafkafs: ").rstrip("\n")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    assert topics("create", path, "orders", "--partitions", 3, "retention.ms=3600000").exit_code == 0
    return path


def test_a_missing_store_is_made_and_that_is_said(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    second.mkdir()
    result = topics("create", f"{first},{second}", "orders", "--partitions=2")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"kafkafs: made a store in {first},{second}\n"
    assert (first / "orders-0").is_dir()
    assert (second / "orders-1").is_dir()
    assert (first / ".kafka_cleanshutdown").exists()
    assert done("create", f"{first},{second}", "more") == ""
    assert refused("create", tmp_path / "no" / "such", "x") == (
        f"neither it nor {tmp_path / 'no'}, which it would be made in, exists; make that first "
        f"({tmp_path / 'no' / 'such'})"
    )


def test_lists(store: Path) -> None:
    done("create", store, "b")
    rows = json.loads(done("list", store, "--json"))
    assert [(row["topic"], row["partitions"]) for row in rows] == [("b", 1), ("orders", 3)]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", row["topicId"]) for row in rows)
    assert [json.loads(line) for line in done("list", store, "--jsonl").splitlines()] == rows
    assert list(csv.DictReader(io.StringIO(done("list", store, "--csv")))) == [
        {**row, "partitions": str(row["partitions"])} for row in rows
    ]
    table = done("list", store)
    assert table == done("list", store, "--table")
    assert [line.split() for line in table.splitlines()] == [
        ["topic", "partitions", "topicId"],
        *([row["topic"], str(row["partitions"]), row["topicId"]] for row in rows),
    ]
    assert json.loads(done("list", store, "orders", "--json")) == [
        {"topic": "orders", "partition": number, "logDir": str(store)} for number in range(3)
    ]
    assert refused("list", store, "none") == "there is no topic 'none'"


def test_config(store: Path) -> None:
    lines = done("config", store, "orders").splitlines()
    assert len(lines) == len(TOPIC_SETTINGS)
    assert "retention.ms=3600000  # topic" in lines
    assert "segment.ms=604800000  # default" in lines
    assert done("config", store, "orders", "retention.ms=default", "segment.ms=7") == ""
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done("config", store, "orders", "--json"))}
    assert rows["retention.ms"] == ("604800000", "default")
    assert rows["segment.ms"] == ("7", "topic")
    before = (store / "kafkafs-topics.properties").read_bytes()
    assert "segment.ms=0 is refused: it must be" in refused("config", store, "orders", "retention.ms=1", "segment.ms=0")
    assert "there is retention.ms" in refused("config", store, "orders", "retention.msec=1")
    assert "is not of the form KEY=VALUE" in refused("config", store, "orders", "retention.ms", code=2)
    assert refused("config", store, "none", "segment.ms=7") == "there is no topic 'none'"
    assert (store / "kafkafs-topics.properties").read_bytes() == before


def test_delete(store: Path) -> None:
    (store / "orders-1" / "00000000000000000000.log").write_bytes(b"x" * 1000)
    done("create", store, "b")
    assert done("delete", store, "orders") == ""
    assert sorted(path.name for path in store.iterdir() if path.is_dir()) == ["b-0"]
    assert refused("delete", store, "orders") == "there is no topic 'orders'"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/b", "it may have ASCII letters, digits, '.', '_' and '-' only"),
        ("..", "it must have from 1 to 249 characters and be neither '.' nor '..'"),
        ("orders", "there is a topic orders already"),
        ("__cluster_metadata", "which is changed by brokers alone"),
    ],
)
def test_names_that_cannot_be(store: Path, name: str, reason: str) -> None:
    assert reason in refused("create", store, name)


def test_wrong_usage(store: Path) -> None:
    refused("create", store, "x", "--partitions", 0, code=2)
    refused("list", " , ", code=2)
    refused("list", store, "--json", "--csv", code=2)
    assert refused("list", store / "none") == f"there is no such directory ({store / 'none'})"
    assert "and this is a file" in refused("list", store / "meta.properties")
    assert "neither a meta.properties nor a partition" in refused("list", store.parent)


def test_a_store_that_somebody_has_open(store: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(store / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said = refused("create", store, "x")
        assert said == (
            "a broker or another kafkafs has the store open for writing; stop that, or open it read-only "
            f"({store / '.lock'})"
        )
        assert "orders" in done("list", store)
        holder.communicate(b"\n", timeout=60)
    with (store / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_store_of_another_is_changed_on_demand_only(tmp_path: Path) -> None:
    (tmp_path / "old-0").mkdir()
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=3\n")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())}
    for arguments in (
        ["create", tmp_path, "x"],
        ["delete", tmp_path, "old"],
        ["config", tmp_path, "old", "segment.ms=7"],
    ):
        assert refused(*arguments) == (
            f"kafkafs did not make this store; give --rw to change it all the same ({tmp_path})"
        )
    assert {path: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before
    result = topics("create", tmp_path, "x", "--rw")
    assert (result.exit_code, "x is a stray to the broker of this store" in result.stderr) == (0, True)
    result = topics("config", tmp_path, "old", "segment.ms=7", "--rw")
    assert (result.exit_code, "until its cleanup.policy is set here" in result.stderr) == (0, True)
    assert done("config", tmp_path, "old", "cleanup.policy=delete", "--rw") == ""
    assert json.loads(done("list", tmp_path, "--json"))[0] == {"topic": "old", "partitions": 1, "topicId": None}


@pytest.mark.interop
def test_what_a_real_broker_left(datasets: Callable[[str], Path]) -> None:
    paths = [datasets("kafka-3.9") / "kafka-3.9" / each for each in ("d1", "d2")]
    rows = json.loads(done("list", ",".join(map(str, paths)), "--json"))
    assert sum(row["partitions"] for row in rows) == sum(
        1 for path in paths for each in path.iterdir() if each.is_dir() and re.search(r"-\d+$", each.name)
    )
    assert {"topic": "__cluster_metadata", "partitions": 1, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"} in rows


@pytest.mark.parametrize("command", ["", "list", "create", "delete", "config"])
def test_the_examples_in_the_help_run(command: str, tmp_path: Path) -> None:
    shown = topics(*command.split(), "--help").stdout
    example = re.search(r"Example:\n +kafkafs topics (.*)", shown)
    assert example is not None
    arguments = shlex.split(example[1])
    arguments[1] = str(tmp_path / "store")
    topics("create", tmp_path / "store", "orders" if arguments[0] != "create" else "other")
    assert done(*arguments) == done(*arguments) if arguments[0] in ("list", "config") else done(*arguments) == ""
