"""Control characters in names, settings and arguments reach no terminal, no message and no table; pipes get names."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

ODD = "\x1b[31m\x9bred\u202e"
SHOWN = r"\u001B[31m\u009Bred\u202E"
CONTROLS = {chr(number) for number in (*range(32), *range(127, 160))} - {"\n", "\r", "\t"}


@pytest.fixture
def odd_store(filled_store: Path) -> Path:
    """Make a store with odd names in it: of a file in orders/0, of a topic in a checkpoint, of a setting."""
    (filled_store / "orders-0" / f"{ODD}\n.log").write_bytes(b"")
    checkpoint = filled_store / "recovery-point-offset-checkpoint"
    checkpoint.write_text(f"0\n1\n{ODD} 0 5\n")
    os.mkfifo(filled_store / f"fifo{ODD}")
    return filled_store


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "kafkafs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def on_terminal(*arguments: object) -> str:
    """Return all that a terminal gets."""
    control, terminal = pty.openpty()
    command = [sys.executable, "-P", "-m", "kafkafs", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal)
    os.close(terminal)
    found = b""
    try:
        while data := os.read(control, 65536):
            found += data
    except OSError:  # the other side is closed
        pass
    os.close(control)
    process.wait(60)
    return found.decode()


COMMANDS = (
    ("ls", "orders/0/segments"),
    ("ls", "orders/0/segments", "-l"),
    ("ls", "orders/0/segments", "--csv"),
    ("ls", "orders/0/segments", "--json"),
    ("ls", f"orders/{ODD}"),
    ("cat", f"orders/0/segments/{ODD}\n.log"),
    ("verify",),
    ("recover",),
    ("topics", ODD),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_terminal_gets_none(odd_store: Path, command: tuple[str, ...]) -> None:
    shown = on_terminal(command[0], odd_store, *command[1:])
    assert not CONTROLS & set(shown)
    assert "\u202e" not in shown


def test_a_dump_on_a_terminal_has_none(odd_store: Path) -> None:
    path = odd_store / "recovery-point-offset-checkpoint"
    assert f"{SHOWN}-0 5" in on_terminal("dump", path)
    assert f"{ODD}-0 5\n" in run("dump", path).stdout


def test_a_pipe_gets_the_name_itself(odd_store: Path) -> None:
    assert f"{ODD}\n.log\n" in run("ls", odd_store, "orders/0/segments").stdout
    rows = json.loads(run("ls", odd_store, "orders/0/segments", "--json").stdout)
    assert f"{ODD}\n.log" in {row["name"] for row in rows}


def test_a_table_and_a_message_have_none_anywhere(odd_store: Path) -> None:
    assert rf"{SHOWN}\n.log" in run("ls", odd_store, "orders/0/segments", "-l").stdout
    for command in (("ls", odd_store.parent / ODD), ("cat", odd_store, f"orders/0/segments/{ODD}")):
        done = run(*command)
        assert SHOWN in done.stderr, command
        assert not CONTROLS & set(done.stderr)


def test_a_value_that_was_asked_for_is_as_it_is(odd_store: Path) -> None:
    (odd_store / "orders-1" / "notes").write_text(ODD)
    assert ODD in on_terminal("cat", odd_store, "orders/1/segments/notes")


@pytest.mark.parametrize("command", [("find",), ("tail", "--no-follow")], ids=lambda command: command[0])
def test_records_as_json_have_none_on_a_terminal(odd_store: Path, command: tuple[str, ...]) -> None:
    value = f"{ODD}\x9b31m\x85\x7f\u2028\u202e"
    append = [sys.executable, "-P", "-m", "kafkafs", "append", odd_store, "payments/0/append"]
    subprocess.run(append, input=f"{value}\n", text=True, check=True, timeout=60)
    shown = on_terminal(command[0], odd_store, "payments", *command[1:])
    assert not (CONTROLS | {*"\x85\u2028\u202e"}) & set(shown)
    assert json.loads(shown.splitlines()[-1])["value"] == value
    assert "\u202e" in run(command[0], odd_store, "payments", *command[1:]).stdout
