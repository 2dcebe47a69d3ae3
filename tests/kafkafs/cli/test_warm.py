"""`kafkafs warm` as a command: what it counts is what files hold, and a mount or a later run finds it counted."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.quantities import size_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

STREAMS = ("values", "keys", "records.jsonl")
TEXT = f"orders/0/segments/{0:020}.log.txt"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep what is counted in a directory of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def warm(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["warm", *map(str, arguments)])
    assert "Traceback" not in result.output
    assert "bug" not in result.output
    return result


def done(*arguments: object) -> str:
    result = warm(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def sizes(*arguments: object) -> dict[str, int | None]:
    return {row["path"]: row["bytes"] for row in map(json.loads, done(*arguments, "--jsonl").splitlines())}


def printed_bytes(store: object, path: str, *options: str) -> int:
    result = CliRunner().invoke(main, ["cat", str(store), path, *options])
    assert result.exit_code == 0
    return len(result.stdout_bytes)


def state_of(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def test_everything_is_counted_where_no_path_is_given(filled_store: Path) -> None:
    before = state_of(filled_store)
    found = sizes(filled_store)
    logs = ("orders/0", "orders/1", "payments/0")
    assert found == {f"/{log}/{name}": printed_bytes(filled_store, f"{log}/{name}") for log in logs for name in STREAMS}
    assert found["/orders/0/values"] == sum(range(21))
    assert sizes(filled_store, "/") == found
    assert state_of(filled_store) == before


def test_what_is_counted_is_kept(filled_store: Path, cache: Path) -> None:
    assert not cache.exists()
    first = done(filled_store, "orders/0")
    kept = state_of(cache)
    assert any(path.is_file() for path in kept)
    assert done(filled_store, "orders/0") == first


def test_paths(filled_store: Path) -> None:
    assert list(sizes(filled_store, "orders/1", "orders/0/values")) == [
        "/orders/1/values",
        "/orders/1/keys",
        "/orders/1/records.jsonl",
        "/orders/0/values",
    ]
    assert sizes(filled_store, "orders/0/segments") == {f"/{TEXT}": printed_bytes(filled_store, TEXT)}
    assert sizes(filled_store, TEXT) == sizes(filled_store, "orders/0/segments")


@pytest.mark.parametrize("path", ["orders/0/offset/5", "orders/config", "orders/0/offset", ".kafkafs", "orders/0/info"])
def test_what_takes_no_counting_is_fine(filled_store: Path, path: str) -> None:
    assert sizes(filled_store, path) == {}


def test_isolation(filled_store: Path) -> None:
    assert sizes(filled_store, "payments/0/values") == {"/payments/0/values": 10}
    assert sizes(filled_store, "payments/0/values", "--isolation", "read_committed") == {"/payments/0/values": 5}


def test_the_forms(filled_store: Path) -> None:
    rows = [{"path": path, "bytes": size} for path, size in sizes(filled_store, "orders/0").items()]
    assert json.loads(done(filled_store, "orders/0", "--json")) == rows
    text = done(filled_store, "orders/0", "--csv")
    assert list(csv.reader(io.StringIO(text))) == [["path", "bytes"], *([r["path"], str(r["bytes"])] for r in rows)]
    table = done(filled_store, "orders/0")
    assert table == done(filled_store, "orders/0", "--table")
    in_table = [[row["path"], size_text(row["bytes"], "")] for row in rows]
    assert [line.split() for line in table.splitlines()] == [["path", "bytes"], *in_table]
    result = warm(filled_store, "--json", "--csv")
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)


def test_an_unreadable_file_does_not_stop_the_rest(broken_store: Path) -> None:
    log = broken_store / "orders-1" / f"{0:020}.log"
    result = warm(broken_store, "--jsonl")
    assert result.exit_code == 3
    assert result.stderr == f"kafkafs: {log}: is a symbolic link, which kafkafs does not follow\n" * len(STREAMS)
    rows = {row["path"]: row["bytes"] for row in map(json.loads, result.stdout.splitlines())}
    assert [path for path, size in rows.items() if size is None] == [f"/orders/1/{name}" for name in STREAMS]


def test_damage_keeps_sizes_unknown(damaged_store: Path) -> None:
    result = warm(damaged_store, "orders/0/values", "--csv")
    assert (result.exit_code, result.stdout) == (3, "path,bytes\n/orders/0/values,\n")
    assert result.stderr == "kafkafs: /orders/0/values: its size stays unknown, because not all of it can be read\n"
    assert sizes(damaged_store, "orders/0/values", "--damage", "skip") == {"/orders/0/values": sum(range(21)) - 11}


@pytest.mark.parametrize(
    ("path", "sentence", "code"),
    [
        ("none", "kafkafs: there is no topic 'none'", 1),
        ("orders/9", "kafkafs: the topic orders has no partition 9", 1),
        ("orders/0/offset/20", "kafkafs: ", 1),
        ("orders/0/nothing", "'nothing' is not in a partition", 2),
    ],
)
def test_what_is_not_there(filled_store: Path, path: str, sentence: str, code: int) -> None:
    result = warm(filled_store, path)
    assert (result.exit_code, result.stdout, sentence in result.stderr) == (code, "", True)


@pytest.mark.golden
def test_sizes_of_what_a_real_broker_wrote(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    before = state_of(root)
    store = f"{root / 'd1'},{root / 'd2'}"
    found = sizes(store)
    assert len(found) > 80
    for topic in ("t-none", "t-gzip", "t-txn"):
        for name in STREAMS:
            assert found[f"/{topic}/0/{name}"] == printed_bytes(store, f"{topic}/0/{name}") > 0
    assert state_of(root) == before
