"""Descriptors 0 to 2 that are closed, full or not UTF-8: what each command makes of them, as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mounts import require_fuse

if TYPE_CHECKING:
    from pathlib import Path

FULL = "kafkafs: standard output: No space left on device\n"
CLOSED = "kafkafs: standard output: Bad file descriptor\n"


def run(script: str, store: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in which K is kafkafs and S a store."""
    told = {"K": f"{sys.executable} -P -m kafkafs", "S": str(store), "HOME": str(store.parent), **environment}
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **told},
        timeout=60,
        check=False,
    )


READING = [
    "ls $S",
    "ls $S --json",
    "cat $S orders/0/offset/5",
    "cat $S orders/0/values -f %o",
    "cat $S orders/0/offset/5 orders/0/offset/99",
    "dump $S/orders-0/*.log",
    "dump --json $S/orders-0/*.log",
    "warm $S",
    "stats $S --jsonl",
    "topics list $S",
    "topics config $S orders",
    "topics delete $S orders",
    "retention $S",
    "retention $S --table",
    "compact $S --dry-run",
    "recover $S --dry-run",
    "help",
    "help cli",
    "--help",
    "topics create --help",
    "--version",
]


@pytest.mark.parametrize("command", READING)
def test_output_that_cannot_be_written_is_a_failure(filled_store: Path, command: str) -> None:
    done = run(f"$K {command} >/dev/full; echo $?; $K {command} <&- >&-; echo $?", filled_store)
    assert done.stdout == "3\n3\n"
    assert FULL in done.stderr
    assert CLOSED in done.stderr
    assert "Traceback" not in done.stderr


def test_all_streams_can_be_closed(filled_store: Path) -> None:
    assert run("$K ls $S <&- >&- 2>&-", filled_store).returncode == 3


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_damage_that_cannot_be_printed_is_a_failure(damaged_store: Path, redirection: str) -> None:
    assert run("$K verify $S", damaged_store).returncode == 1
    assert run(f"$K verify $S {redirection}", damaged_store).returncode == 3


def test_what_cannot_be_said_on_standard_error_changes_nothing(damaged_store: Path) -> None:
    for redirection in ("2>&-", "2>/dev/full", "<&- 2>&-"):
        for command, code in (("verify $S", 1), ("ls $S none", 1), ("ls $S/none", 2), ("cat $S orders/0/values", 3)):
            done = run(f"$K {command} {redirection}", damaged_store)
            assert (done.returncode, done.stderr) == (code, "")
    assert run("$K ls $S 2>&-", damaged_store).stdout == run("$K ls $S", damaged_store).stdout


def test_files_do_not_take_the_numbers_of_closed_streams(filled_store: Path) -> None:
    before = run("cat $S/orders-0/*.log | cksum", filled_store).stdout
    done = run("echo new | $K append $S orders/1/append >&- 2>&-; $K compact $S --apply >&- 2>&-", filled_store)
    assert done.returncode == 3
    assert run("cat $S/orders-0/*.log | cksum", filled_store).stdout == before
    assert run("$K cat $S orders/1/values; $K verify $S", filled_store).stdout == "new\n"


def test_a_closed_standard_input_is_not_an_empty_one(filled_store: Path) -> None:
    done = run("$K append $S orders/1/append <&-", filled_store)
    assert (done.returncode, done.stderr) == (
        3,
        "kafkafs: standard input: Bad file descriptor; nothing was stored before it\n",
    )
    assert run("$K append $S orders/1/append </dev/null", filled_store).returncode == 0


def test_a_closed_pipe_is_141(filled_store: Path) -> None:
    done = run("trap '' PIPE; { sleep 0.2; $K help cli; echo $? >&2; } | true", filled_store)
    assert done.stderr == "141\n"


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", "<&-", ">&-", "2>&-"])
def test_a_mount_without_standard_streams_is_a_mount(filled_store: Path, redirection: str) -> None:
    require_fuse()
    mounted = f"$K mount $S $S-mnt {redirection}; echo mounted $?; cat $S-mnt/orders/0/offset/3; echo"
    done = run(f"{mounted}; $K umount $S-mnt {redirection}; echo $?; ls $S-mnt", filled_store)
    assert done.stdout.splitlines()[-3:] == ["mounted 0", "xxx", "0"]


def test_a_mount_that_cannot_say_so_says_that_it_is_one(filled_store: Path) -> None:
    require_fuse()
    done = run("$K mount $S $S-mnt >/dev/full; echo $?; $K umount $S-mnt", filled_store)
    assert done.stdout == "3\n"
    assert done.stderr == f"kafkafs: {filled_store}-mnt is mounted, but standard output: No space left on device\n"


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "POSIX"}])
def test_text_is_utf_8_in_every_locale(filled_store: Path, locale: dict[str, str]) -> None:
    script = """
    printf 'é→\\n' | $K append $S orders/1/append
    $K cat $S orders/1/records.jsonl | grep -c '"value":"é→"'
    $K cat $S orders/1/offset/0 -f '%s é\\n'
    mkdir $S/é-0; $K verify $S | grep -c '"path":"é-0"'
    $K ls "$S-é" 2>&1
    $K ls $S-$'\\xff' 2>&1
    """
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        env={**os.environ, "K": f"{sys.executable} -P -m kafkafs", "S": str(filled_store), **locale},
        timeout=60,
        check=False,
    )
    there_is_none = f"kafkafs: there is no such directory ({filled_store}-".encode()
    assert done.stdout.split(b"\n") == [
        b"1",
        "é→ é".encode(),
        b"1",
        there_is_none + "é)".encode(),
        there_is_none + b"\xff)",
        b"",
    ]
