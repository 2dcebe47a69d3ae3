"""`kafkafs ls` as a command: what it lists, in which forms, and how it refuses."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

FILES = {"offset", "by-time", "segments", "append", "append.kv", "values", "records.jsonl", "info", "transactions"}


def ls(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["ls", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> list[str]:
    result = ls(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def refused(*arguments: object, code: int = 3) -> str:
    result = ls(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr.rstrip("\n")


def state_of(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def test_names_are_listed_one_a_line(filled_store: Path) -> None:
    before = state_of(filled_store)
    assert done(filled_store) == done(filled_store, "/") == [".kafkafs", "orders", "payments", "by-time"]
    assert done(filled_store, "orders") == done(filled_store, "/orders/") == ["0", "1", "config"]
    assert set(done(filled_store, "orders/0")) >= FILES
    assert done(filled_store, "orders/0/offset") == [*map(str, range(20)), "earliest", "latest"]
    assert done(filled_store, "orders/0/offset", "--limit", 3) == ["17", "18", "19", "earliest", "latest"]
    assert done(filled_store, "orders/0/offset", "--limit", 0) == done(filled_store, "orders/0/offset")
    assert done(filled_store, "orders/1/offset") == []
    assert state_of(filled_store) == before


def test_every_name_of_the_grammar_is_a_file(filled_store: Path) -> None:
    for path in ("orders/0/offset/19", "orders/0/offset/last-3...jsonl", "orders/0/offset/all", "orders/config"):
        assert done(filled_store, path) == [f"/{path}"]
    assert done(filled_store, "orders/0/by-time/2023-11-14T22:13:25Z") == ["/orders/0/by-time/2023-11-14T22:13:25.000Z"]


def test_the_forms(filled_store: Path) -> None:
    path = "orders/0/offset"
    rows = json.loads("".join(done(filled_store, path, "--json")))
    assert [list(row) for row in rows] == [["name", "kind", "bytes", "modified"]] * 22
    assert rows[5] == {"name": "5", "kind": "file", "bytes": 5, "modified": "2023-11-14T22:13:25.000Z"}
    assert [json.loads(line) for line in done(filled_store, path, "--jsonl")] == rows
    text = "\n".join(done(filled_store, path, "--csv"))
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == [row["name"] for row in rows]
    table = done(filled_store, path, "--table")
    assert table == done(filled_store, path, "-l")
    assert table[0].split() == ["name", "kind", "bytes", "modified"]
    assert table[6].split() == ["5", "file", "5B", "2023-11-14T22:13:25.000Z"]
    first = json.loads("".join(done(filled_store, "orders", "--json")))[0]
    assert (first["name"], first["kind"], first["bytes"]) == ("0", "directory", None)
    assert json.loads("".join(done(filled_store, "orders/0/offset/5", "--jsonl")))["name"] == "/orders/0/offset/5"
    assert "exclude each other" in refused(filled_store, "--json", "--csv", code=2)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("none", "kafkafs: there is no topic 'none'"),
        ("orders/9", "kafkafs: the topic orders has no partition 9"),
        ("orders/0/offset/20", "/orders/0/offset/20"),
        ("orders/0/by-time/2030-01-01", "/orders/0/by-time/2030-01-01"),
    ],
)
def test_what_is_not_there(filled_store: Path, path: str, sentence: str) -> None:
    said = refused(filled_store, path, code=1)
    assert said.startswith("kafkafs: ")
    assert sentence in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("path", ["orders/x", "orders/0/nothing", "orders/0/offset/1.txt", "orders/config/x", "a b"])
def test_what_is_in_no_grammar_is_wrong_usage(filled_store: Path, path: str) -> None:
    assert f"Error: '{path.rpartition('/')[2]}' is not" in refused(filled_store, path, code=2)


def test_a_store_that_is_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "none", code=2) == f"kafkafs: there is no such directory ({tmp_path / 'none'})"
    assert "neither a meta.properties nor a partition" in refused(tmp_path, code=2)
    assert "Missing argument 'STORE'" in refused(code=2)


def test_a_broken_file_does_not_stop_the_rest(broken_store: Path) -> None:
    log = broken_store / "orders-1" / f"{0:020}.log"
    assert done(broken_store, "orders", "-l")[1].split()[:2] == ["0", "directory"]
    kinds = {row["name"]: row["kind"] for row in map(json.loads, done(broken_store, "orders/1", "--jsonl"))}
    assert kinds["segments"] == "directory"
    sentence = f"{log}: is a symbolic link, which kafkafs does not follow"
    assert kinds["values"] == f"unreadable: {sentence}"
    assert refused(broken_store, "orders/1/values") == f"kafkafs: {sentence}"


def test_a_reader_that_goes_away(filled_store: Path) -> None:
    command = [sys.executable, "-P", "-m", "kafkafs", "ls", str(filled_store), "orders/0/offset"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, b"")


@pytest.mark.golden
def test_what_a_real_broker_wrote_is_listed_and_left_as_it_was(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    before = state_of(root)
    store = f"{root / 'd1'},{root / 'd2'}"
    listed = set(done(store))
    assert listed >= {path.name.rpartition("-")[0] for path in root.glob("d?/t-*-0")}
    for topic in sorted(listed - {".kafkafs", "by-time"}):
        for row in map(json.loads, done(store, topic, "--jsonl")):
            assert row["kind"] in {"directory", "file"}
    segments = {row["name"]: row["bytes"] for row in map(json.loads, done(store, "t-none/0/segments", "--jsonl"))}
    (directory,) = root.glob("d?/t-none-0")
    for path in directory.iterdir():
        assert segments[path.name] == path.stat().st_size
    assert all(done(store, "t-txn/0/offset", "--isolation", "read_committed"))
    assert state_of(root) == before
