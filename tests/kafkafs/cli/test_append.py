"""`kafkafs append` as a command: every form of input, receipts, and what is refused without a trace."""

from __future__ import annotations

import fcntl
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

HOLD = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
COMMAND = [sys.executable, "-P", "-m", "kafkafs", "append"]


def append(data: bytes, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a program: it reads a descriptor, not Python's standard input."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], input=data, capture_output=True, check=False, timeout=60)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr
    return done


def appended(data: bytes, *arguments: object) -> bytes:
    done = append(data, *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def refused(data: bytes, *arguments: object, code: int = 3) -> str:
    done = append(data, *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    return done.stderr.decode().rstrip("\n")


def printed(*arguments: object) -> bytes:
    result = CliRunner().invoke(main, ["cat", *map(str, arguments)])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout_bytes


def verified(store: Path) -> bool:
    return CliRunner().invoke(main, ["verify", str(store)]).exit_code == 0


def state_of(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def test_a_line_is_a_record(filled_store: Path) -> None:
    assert appended(b"one\n\nlast", filled_store, "orders/1/append") == b""
    assert printed(filled_store, "orders/1/offset/all", "-f", r"%o %K %S %s;") == b"0 -1 3 one;1 -1 0 ;2 -1 4 last;"
    assert appended(b"", filled_store, "orders/1/append", "--receipts") == b""
    assert appended(b"a\nb\n", filled_store, "orders/1/append", "--receipts") == b"3..4\n"
    assert verified(filled_store)


def test_keys_and_values(filled_store: Path) -> None:
    appended(b"k\tv\nalone\n\t\n", filled_store, "/orders/1/append.kv")
    assert printed(filled_store, "orders/1/offset/all", "-f", r"%K %k %s;") == b"1 k v;-1  alone;0  ;"


def test_envelopes_are_copied_exactly(filled_store: Path) -> None:
    lines = printed(filled_store, "orders/0/records.jsonl")
    assert appended(lines, filled_store, "orders/1/append.jsonl", "--receipts") == b"0..19\n"
    copied = printed(filled_store, "orders/1/records.jsonl")
    assert [{**json.loads(line), "partition": 0} for line in copied.splitlines()] == [
        json.loads(line) for line in lines.splitlines()
    ]


def test_all_of_it_as_one_record(filled_store: Path) -> None:
    data = bytes(range(256)) * 100
    assert appended(data, filled_store, "orders/1/append.raw", "--receipts") == b"0..0\n"
    assert printed(filled_store, "orders/1/offset/0") == data


def test_batches(filled_store: Path) -> None:
    batch = bytearray(printed(filled_store, "orders/0/offset/7.batch"))
    batch[:8] = bytes(8)  # producers begin at 0
    assert appended(bytes(batch), filled_store, "orders/1/append.batch", "--receipts") == b"0..0\n"
    assert printed(filled_store, "orders/1/offset/0") == b"x" * 7


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("append.jsonl", b'{"value":"a"}\n{"valeu":"b"}\n', "line 2"),
        ("append", b"x" * 2_000_000 + b"\n", "1048588"),
        ("append.batch", b"nothing of the kind, in many bytes", "no record batch"),
        ("append.batch", b"\0" * 11 + b"\x64" + b"\0" * 4 + b"\2" + b"\0" * 20, "incomplete"),
    ],
)
def test_what_is_malformed_leaves_nothing(filled_store: Path, name: str, data: bytes, reason: str) -> None:
    said = refused(data, filled_store, f"orders/1/{name}")
    assert said.startswith("kafkafs: ")
    assert reason in said
    assert len(said.splitlines()) == 1
    assert printed(filled_store, "orders/1/offset/all") == b""
    assert verified(filled_store)


def test_where_nothing_is_appended(filled_store: Path) -> None:
    before = printed(filled_store, "orders/0/records.jsonl")
    assert "/orders/1/values cannot be written to; orders/1/append can" in refused(
        b"x\n", filled_store, "orders/1/values", code=2
    )
    assert "'nothing' is not in a partition" in refused(b"x\n", filled_store, "orders/0/nothing", code=2)
    assert refused(b"x\n", filled_store, "none/0/append", code=1) == "kafkafs: there is no topic 'none'"
    assert refused(b"x\n", filled_store, "orders/7/append", code=1) == "kafkafs: the topic orders has no partition 7"
    none = filled_store / "none"
    assert refused(b"x\n", none, "orders/0/append", code=2) == f"kafkafs: there is no such directory ({none})"
    assert printed(filled_store, "orders/0/records.jsonl") == before
    assert verified(filled_store)


def test_a_store_that_somebody_has_open(filled_store: Path) -> None:
    holding = [sys.executable, "-c", HOLD, str(filled_store / ".lock")]
    with subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert refused(b"x\n", filled_store, "orders/1/append") == (
            "kafkafs: a broker or another kafkafs has the store open for writing; stop that, or open it read-only "
            f"({filled_store / '.lock'})"
        )
        holder.communicate(b"\n", timeout=60)
    with (filled_store / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    appended(b"x\n", filled_store, "orders/1/append")


@pytest.mark.golden
def test_a_brokers_store_is_changed_on_demand_only(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    before = state_of(root)
    assert refused(b"x\n", f"{root / 'd1'},{root / 'd2'}", "t-none/0/append") == (
        f"kafkafs: kafkafs did not make this store; give --rw to change it all the same ({root / 'd1'})"
    )
    assert state_of(root) == before


def test_the_example_in_the_help_runs(filled_store: Path) -> None:
    shown = CliRunner().invoke(main, ["append", "--help"]).stdout
    example = next(line.strip() for line in io.StringIO(shown) if "| kafkafs append" in line)
    arguments = example.partition("kafkafs append /tmp/store ")[2].split()
    appended(b'{"id":1}\n', filled_store, *arguments)
    assert printed(filled_store, "orders/0/offset/latest") == b'{"id":1}'
