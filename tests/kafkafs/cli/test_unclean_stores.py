"""A command that changes a store which was not closed properly leaves it closed properly, and says so once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

KAFKAFS = [sys.executable, "-P", "-m", "kafkafs"]


def append(store: Path, data: bytes, name: str = "append") -> subprocess.CompletedProcess[bytes]:
    command = [*KAFKAFS, "append", str(store), f"orders/1/{name}"]
    return subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)


@pytest.fixture
def unclean_store(filled_store: Path) -> Path:
    (filled_store / ".kafka_cleanshutdown").unlink()
    return filled_store


def test_the_first_append_recovers_all_logs_and_the_second_none(unclean_store: Path) -> None:
    first = append(unclean_store, b"x\n")
    said = b"kafkafs: the store was not closed properly: 3 logs were recovered\n"
    assert (first.returncode, first.stderr) == (0, said)
    assert (unclean_store / ".kafka_cleanshutdown").exists()
    second = append(unclean_store, b"x\n")
    assert (second.returncode, second.stderr) == (0, b"")


@pytest.mark.parametrize(
    "command", [["topics", "create", "{}", "new"], ["topics", "delete", "{}", "payments", "--apply"]]
)
def test_commands_on_topics_leave_the_store_clean_too(unclean_store: Path, command: list[str]) -> None:
    done = CliRunner().invoke(main, [word.format(unclean_store) for word in command])
    assert done.exit_code == 0
    assert "the store was not closed properly: " in done.stderr
    assert (unclean_store / ".kafka_cleanshutdown").exists()


def test_a_log_that_cannot_be_recovered_is_named_and_changes_nothing_else(unclean_store: Path) -> None:
    log = unclean_store / "payments-0" / f"{0:020}.log"
    log.unlink()
    log.symlink_to(log.name)
    done = append(unclean_store, b"x\n")
    assert done.returncode == 0
    assert b"2 logs were recovered; payments-0 could not be recovered: " in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (unclean_store / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_append_with_the_store_closed(filled_store: Path, number: signal.Signals) -> None:
    command = [*KAFKAFS, "append", str(filled_store), "orders/1/append", "--receipts"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as appending:  # type: ignore[call-overload]
        appending.stdin.write(b"a\n")
        appending.stdin.flush()
        assert appending.stdout.readline() == b"0..0\n"
        os.kill(appending.pid, number)
        assert appending.wait(60) == -number
        assert appending.stderr.read().splitlines()[-1] == f"kafkafs: ended by {number.name}".encode()
    assert (filled_store / ".kafka_cleanshutdown").exists()


def test_a_refusal_names_its_line_and_what_was_stored(filled_store: Path) -> None:
    good = b"".join(b'{"value":"%d"}\n' % number for number in range(100_000))
    done = append(filled_store, good + b'{bad\n{"value":"after"}\n', "append.jsonl")
    said = done.stderr.decode()
    assert done.returncode == 3
    assert said.startswith("kafkafs: line 100001: this is not JSON")
    stored = int(said.split("; ")[-1].split()[0])
    assert said.endswith(f"; {stored} records were stored before it (offsets 0 to {stored - 1})\n")
    assert append(filled_store, b"x" * 2_000_000 + b"\n").stderr.endswith(b"; nothing was stored before it\n")


def test_one_record_that_was_stored_before_a_refusal_is_told_as_one(filled_store: Path) -> None:
    command = [*KAFKAFS, "append", str(filled_store), "orders/1/append.jsonl", "--receipts"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as appending:  # type: ignore[call-overload]
        appending.stdin.write(b'{"value":"good"}\n')
        appending.stdin.flush()
        assert appending.stdout.readline() == b"0..0\n"
        _, said = appending.communicate(b"{bad\n", timeout=60)
    assert said.endswith(b"; 1 record was stored before it (offset 0)\n")


def test_blanks_are_part_of_a_stores_name(filled_store: Path) -> None:
    for name, end in ((f"{filled_store} ", "ends"), (f"{filled_store}, b", "begins")):
        done = CliRunner().invoke(main, ["topics", "delete", name, "payments", "--apply"])
        assert done.exit_code == 2
        assert f"its name {end} with a blank" in done.stderr
    assert (filled_store / "payments-0").is_dir()


def test_an_interrupt_before_the_command_line_is_imported_prints_nothing() -> None:
    script = (
        "import os, signal; from kafkafs.interrupts import *; end_quietly_by_interrupts();"
        "os.kill(os.getpid(), signal.SIGINT)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_while_the_modules_of_a_command_are_imported_prints_nothing(tmp_path: Path) -> None:
    """Python turns what interrupts the making of a class into a RuntimeError."""
    (tmp_path / "slow_command.py").write_text(
        "import os, signal\n"
        "class Field:\n"
        "    def __set_name__(self, owner, name):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "class Table:\n"
        "    column = Field()\n"
    )
    script = "from kafkafs.cli import CommandTable; CommandTable(modules={'slow': 'slow_command'})(['slow'])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_an_interrupt_that_comes_in_a_finalizer_ends_the_command() -> None:
    """Python passes on no exception of a finalizer, and prints it with its traceback."""
    script = (
        "import os, signal\n"
        "from kafkafs.cli.failures import run_program\n"
        "class Finalized:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "run_program(lambda: Finalized() and None)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
