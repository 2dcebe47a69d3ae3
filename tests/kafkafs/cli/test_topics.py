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
from storage.config import TopicConfig

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


def refused(*arguments: object, code: int = 3) -> str:
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
    assert refused("create", tmp_path / "no" / "such", "x", code=2) == (
        f"its parent {tmp_path / 'no'} does not exist; make that first ({tmp_path / 'no' / 'such'})"
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
    assert refused("list", store, "none", code=1) == "there is no topic 'none'"


def test_a_topic_whose_id_cannot_be_read_is_listed(store: Path) -> None:
    done("create", store, "users")
    for number in range(3):
        (store / f"orders-{number}" / "partition.metadata").write_bytes(b"")
    result = topics("list", store, "--jsonl")
    assert result.exit_code == 3
    assert result.stderr.startswith("kafkafs: the file does not consist of a version and a topic id (")
    ids = {row["topic"]: row["topicId"] for row in map(json.loads, result.stdout.splitlines())}
    assert (ids["orders"], len(ids["users"])) == (None, 22)


def test_config(store: Path) -> None:
    lines = done("config", store, "orders").splitlines()
    assert len(lines) == len(TopicConfig.resolve().keys)
    assert "retention.ms=3600000  # topic" in lines
    assert "segment.ms=604800000  # default" in lines
    assert done("config", store, "orders", "retention.ms=default", "segment.ms=7") == ""
    rows = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done("config", store, "orders", "--json"))}
    assert rows["retention.ms"] == ("604800000", "default")
    assert rows["segment.ms"] == ("7", "topic")
    before = (store / "kafkafs-topics.properties").read_bytes()
    assert "segment.ms=0 is refused: it must be" in refused(
        "config", store, "orders", "retention.ms=1", "segment.ms=0", code=2
    )
    assert "there is retention.ms" in refused("config", store, "orders", "retention.msec=1", code=2)
    assert "is not of the form KEY=VALUE" in refused("config", store, "orders", "retention.ms", code=2)
    assert refused("config", store, "none", "segment.ms=7", code=1) == "there is no topic 'none'"
    assert (store / "kafkafs-topics.properties").read_bytes() == before


def test_delete(store: Path) -> None:
    (store / "orders-1" / "00000000000000000000.log").write_bytes(b"x" * 1000)
    done("create", store, "b")
    (planned, summary) = done("delete", store, "orders", "--dry-run").splitlines()[-2:]
    assert planned.startswith(f"{store / 'orders-2'}: ")
    assert summary.startswith("3 partitions: ")
    assert summary.endswith(" bytes to be deleted")
    assert done("delete", store, "orders", "--apply").splitlines()[-1] == summary.replace("to be ", "")
    assert sorted(path.name for path in store.iterdir() if path.is_dir()) == ["b-0"]
    assert refused("delete", store, "orders", code=1) == "there is no topic 'orders'"
    assert refused("delete", store, "orders", "--apply", code=1) == "there is no topic 'orders'"


def test_what_deleting_would_take(filled_store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in filled_store.rglob("*")}
    result = topics("delete", filled_store, "orders")
    assert (result.exit_code, result.stderr) == (0, "kafkafs: nothing was deleted; --apply does it\n")
    sizes = [sum(path.stat().st_size for path in (filled_store / f"orders-{number}").iterdir()) for number in (0, 1)]
    assert result.stdout.splitlines() == [
        f"{filled_store / 'orders-0'}: {sizes[0]} bytes, 1 segment, offsets 0 to 19, 20 records at most",
        f"{filled_store / 'orders-1'}: {sizes[1]} bytes, 0 segments, no records (the next offset is 0)",
        f"2 partitions: {sum(sizes)} bytes to be deleted",
    ]
    rows = json.loads(done("delete", filled_store, "orders", "--dry-run", "--json"))
    assert [(row["path"], row["bytes"], row["endOffset"], row["isApplied"]) for row in rows] == [
        (str(filled_store / "orders-0"), sizes[0], 20, False),
        (str(filled_store / "orders-1"), sizes[1], 0, False),
    ]
    assert {path: path.stat().st_mtime_ns for path in filled_store.rglob("*")} == before
    assert "exclude each other" in refused("delete", filled_store, "orders", "--dry-run", "--apply", code=2)


def test_what_cannot_be_read_can_be_deleted(filled_store: Path) -> None:
    log = filled_store / "orders-1" / f"{0:020}.log"
    log.unlink(missing_ok=True)
    log.mkdir()
    said = done("delete", filled_store, "orders", "--dry-run").splitlines()[1]
    assert said.startswith(f"{filled_store / 'orders-1'}: ")
    assert "its log cannot be read: " in said
    assert done("delete", filled_store, "orders", "--apply").endswith(" deleted\n")
    assert not (filled_store / "orders-1").exists()


def test_what_is_in_the_way_of_a_plan_is_said(broken_store: Path) -> None:
    said = done("delete", broken_store, "orders", "--dry-run").splitlines()[1]
    assert "its log cannot be read: " in said


def test_the_settings_of_a_broker_hold_where_the_topic_says_nothing(store: Path, tmp_path: Path) -> None:
    given = tmp_path / "server.properties"
    given.write_text("log.retention.ms=7\nlog.segment.bytes=9000\nnum.partitions=4\n")
    lines = done("config", store, "orders", "--server-properties", given).splitlines()
    assert {"retention.ms=3600000  # topic", "segment.bytes=9000  # broker"} <= set(lines)
    done("create", store, "more", "--server-properties", given)
    assert len(json.loads(done("list", store, "more", "--json"))) == 4
    assert "does not exist" in refused("config", store, "orders", "--server-properties", tmp_path / "none", code=2)


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
    assert reason in refused("create", store, name, code=3 if name == "orders" else 2)


def test_wrong_usage(store: Path) -> None:
    refused("create", store, "x", "--partitions", 0, code=2)
    refused("list", " , ", code=2)
    refused("list", store, "--json", "--csv", code=2)
    assert refused("list", store / "none", code=2) == f"there is no such directory ({store / 'none'})"
    assert "and this is a file" in refused("list", store / "meta.properties", code=2)
    assert "neither a meta.properties nor a partition" in refused("list", store.parent, code=2)


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
        ["delete", tmp_path, "old", "--apply"],
        ["config", tmp_path, "old", "segment.ms=7"],
    ):
        assert refused(*arguments) == (
            f"kafkafs did not make this store; give --rw to change it all the same ({tmp_path})"
        )
    assert {path: path.stat().st_mtime_ns for path in (tmp_path, *tmp_path.iterdir())} == before
    result = topics("create", tmp_path, "x", "--rw")
    assert (result.exit_code, "x is a stray to the broker of this store" in result.stderr) == (0, True)
    result = topics("config", tmp_path, "old", "segment.ms=7", "--rw")
    assert (result.exit_code, "as long as its cleanup.policy is not set here" in result.stderr) == (0, True)
    result = topics("config", tmp_path, "old", "cleanup.policy=delete", "--rw")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        result.stderr == "kafkafs: brokers do not read these settings: set them with kafka-configs on one that runs\n"
    )
    assert json.loads(done("list", tmp_path, "--json"))[0] == {"topic": "old", "partitions": 1, "topicId": None}


@pytest.mark.golden
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
    if arguments[0] in ("list", "config"):
        assert done(*arguments) == done(*arguments)
    elif arguments[0] == "delete":
        assert done(*arguments).endswith(" deleted\n")
    else:
        assert done(*arguments) == ""


def test_settings_of_another_cluster_do_not_hold_and_that_is_said(store: Path) -> None:
    meta = store / "meta.properties"
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=MkU3OEVBNTcwNTJENDM2Qk", meta.read_text()))
    command = [sys.executable, "-P", "-m", "kafkafs", "topics", "config", str(store), "orders"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "retention.ms=unknown  # unknown: the metadata log is not here: give its log directory too" in done.stdout
    assert done.stderr.startswith(f"kafkafs: no setting in {store / 'kafkafs-topics.properties'} holds: it is of the ")
    assert "give --rw" in refused("config", store, "orders", "retention.ms=7")
    assert topics("config", store, "orders", "retention.ms=7", "--rw").exit_code == 0
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""
