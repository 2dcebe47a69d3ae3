"""Completion as a user has it: a real bash at a terminal, in which TAB is pressed."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.completion import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIME_S_MAX = 120
SHOW = "\x01: \x05\nprintf '\\074%s\\076\\n' \"$_\"\n"  # puts a command before the line that does nothing with it


class Terminal:
    """A bash at a terminal, in a directory with `store`."""

    def __init__(self, directory: Path) -> None:
        programs = directory / "programs"
        programs.mkdir()
        program = programs / "kafkafs"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kafkafs "$@"\n')
        program.chmod(0o755)
        self._ours, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=directory,
            env={**environment, "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(directory)},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        self.type('eval "$(_KAFKAFS_COMPLETE=bash_source kafkafs)"; bind "set bell-style none"\n')

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def completed(self, line: str) -> str:
        """What TAB makes of the line's last word, as the command would get it."""
        self.type(f"{line}\t{SHOW}")
        seen = b""
        while not (found := re.search(rb"<([^>\r\n]*)>\r\n", seen)):
            seen += os.read(self._ours, 4096)
        return found[1].decode()

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path, filled_store: Path) -> Iterator[Terminal]:
    assert filled_store == tmp_path / "store"
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_tab_completes_what_stands_in_the_store(terminal: Terminal) -> None:
    """Also after the colons of a time, in an open quote, and where a variable names the store."""
    lines = {
        "kafkafs topi": "topics",
        "kafkafs topics cre": "create",
        "kafkafs help trouble": "troubleshooting",
        "kafkafs verify --serv": "--server-properties",
        "kafkafs cat sto": "store/",
        "kafkafs stats store pay": "payments",
        "kafkafs cat store ord": "orders/",
        "kafkafs cat -s store orders/0/records": "orders/0/records.jsonl",
        "kafkafs cat store 'orders/0/rec": "orders/0/records.jsonl",
        "kafkafs cat store orders/0/offset/lat": "orders/0/offset/latest",
        "kafkafs cat store orders/0/offset/7.b": "orders/0/offset/7.batch",
        "kafkafs cat store orders/0/offset/-10...b": "orders/0/offset/-10...batch",
        "kafkafs cat store orders/0/by-time/yes": "orders/0/by-time/yesterday",
        "kafkafs cat store orders/0/by-time/2023-11-14T22:13:20Z.b": "orders/0/by-time/2023-11-14T22:13:20Z.batch",
    }
    assert {line: terminal.completed(line) for line in lines} == lines
    terminal.type("export KAFKAFS_STORE=store\n")
    assert terminal.completed("kafkafs cat payments/0/val") == "payments/0/values"


def offered(line: str, monkeypatch: pytest.MonkeyPatch, shell: str = "bash") -> list[str]:
    monkeypatch.setenv("_KAFKAFS_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_LINE", line)
    result = CliRunner().invoke(main, [], prog_name="kafkafs")
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize("line", ["kafkafs cat {0} ", "kafkafs cat {0} orders/0/offset/", "kafkafs groups {0} "])
def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(
    broken_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    for number in range(2):  # nothing waits for a FIFO, and nothing follows a link
        log = broken_store / f"orders-{number}" / f"{0:020}.log"
        log.unlink(missing_ok=True)
        os.mkfifo(log)
    offered(line.format(broken_store), monkeypatch)
    assert offered(line.format(tmp_path / "nowhere"), monkeypatch) == []


def test_commands_are_completed_without_importing_one() -> None:
    code = (
        "import sys\nfrom kafkafs.__main__ import main\ntry:\n main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    )
    environment = {**os.environ, "_KAFKAFS_COMPLETE": "bash_complete", "COMP_LINE": "kafkafs m"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "plain,mount\n"
    assert not [name for name in done.stderr.split() if name.startswith(("kafkafs.cli.mount", "storage", "pyfuse3"))]


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b$c`d', "a\nb", "\x1b[2J", "é", "a*?[x]", "~a;b&c|d", "\udcff"])
def test_a_word_is_quoted_as_bash_reads_it(name: str) -> None:
    word = quoted(name)
    assert word.isprintable()
    echoed = subprocess.run(
        ["bash", "-c", f"printf %s {word}".encode("utf-8", "surrogateescape")], capture_output=True, check=True
    )
    assert echoed.stdout == name.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_lines(filled_store: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    assert offered(f"kafkafs ls {filled_store} ord", monkeypatch, shell) == ["part,orders/"]
    assert offered(f"kafkafs stats {filled_store} ord", monkeypatch, shell) == ["plain,orders"]
