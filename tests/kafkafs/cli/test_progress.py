"""Progress is patient, keeps to one line, and erases it."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli import progress as progress_of_commands
from kafkafs.cli.failures import EXIT_DONE
from kafkafs.cli.output import write_pieces
from kafkafs.cli.progress import Progress
from storage.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.log_dir.log_dir import Listing

ERASE = "\r\x1b[K"
IMPATIENT = """
import sys
from kafkafs.cli import progress
progress._PATIENCE_S = progress._INTERVAL_S = 0
from kafkafs.cli import main
main(sys.argv[1:])
"""


def shown(*moments: float) -> str:
    """What is written about work of 40 MB that has done another 10 MB at each of these moments."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: now[0])
    for done, now[0] in enumerate(moments, 1):
        progress.show("0.log", done * 10_000_000, 40_000_000)
    progress.erase()
    return stream.getvalue()


def test_short_work_says_nothing() -> None:
    assert shown(0.5, 1.0, 1.9) == ""


def test_long_work_is_said_now_and_then_and_erased() -> None:
    assert shown(1, 2, 2.1, 2.5) == (
        f"{ERASE}0.log: 50 % of 40 MB, 10 MB/s, 2s left{ERASE}0.log: 100 % of 40 MB, 16 MB/s, 0s left{ERASE}"
    )


def test_one_that_takes_long_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PATIENCE_S", "_INTERVAL_S", "_BEAT_S"):
        monkeypatch.setattr(progress_of_commands, name, 0.001)
    beaten = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("looking: 3 of 7, "):
                beaten.set()
            return super().write(text)

    stream = Stream()
    progress = Progress(stream)
    with progress.beating():
        progress.show_count("looking", 3, 7)
        assert beaten.wait(60)
    progress.erase()
    assert stream.getvalue().endswith(ERASE)
    with Progress(None).beating():
        pass


def test_a_thread_that_leaves_no_other_a_turn_says_it_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that asks for the status of a million files."""
    for name in ("_PATIENCE_S", "_INTERVAL_S", "_BEAT_S"):
        monkeypatch.setattr(progress_of_commands, name, 0.001)
    monkeypatch.setattr(progress_of_commands, "_beat_in_thread", lambda _: nullcontext())
    before = signal.getsignal(signal.SIGALRM)
    stream = io.StringIO()
    ends_s = time.monotonic() + 60
    with Progress(stream).beating("looking"):
        while "looking, " not in stream.getvalue():
            assert time.monotonic() < ends_s
    assert stream.getvalue().endswith(ERASE)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_block_within_another_is_a_step_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PATIENCE_S", "_INTERVAL_S", "_BEAT_S"):
        monkeypatch.setattr(progress_of_commands, name, 0.001)
    outer, inner = io.StringIO(), io.StringIO()
    ends_s = time.monotonic() + 60
    with Progress(outer).beating("looking"):
        with Progress(inner).beating("opening"):
            pass
        while "looking, " not in outer.getvalue():
            assert time.monotonic() < ends_s
        assert signal.getitimer(signal.ITIMER_REAL) != (0, 0)
    assert inner.getvalue() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("cat", "orders/0/offset/3"), "opening the store, "),
        (("verify",), "listing the store, "),
        (("recover",), "reading the store, "),
    ],
)
def test_that_a_store_takes_long_to_open_is_said(
    filled_store: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], said: str
) -> None:
    """As one does that has a million partitions."""
    for name in ("_PATIENCE_S", "_INTERVAL_S", "_BEAT_S"):
        monkeypatch.setattr(progress_of_commands, name, 0.001)
    stream = io.StringIO()
    monkeypatch.setattr(Progress, "on_terminal", lambda **_: Progress(stream))
    listed = LogDir.scan

    def list_slowly(log_dir: LogDir) -> Listing:
        ends_s = time.monotonic() + 60
        while said not in stream.getvalue():
            assert time.monotonic() < ends_s
        return listed(log_dir)

    monkeypatch.setattr(LogDir, "scan", list_slowly)
    name, *rest = command
    assert CliRunner().invoke(main, [name, str(filled_store), *rest]).exit_code == EXIT_DONE


def test_nothing_is_not_a_number() -> None:
    stream = io.StringIO()
    Progress(stream, clock=iter([0, 3, 3]).__next__).show("0.log", 0, 0)
    assert stream.getvalue() == f"{ERASE}0.log: 0 % of 0 B"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("warm", "STORE", "orders/0/values"), "/orders/0/values, 1 of 1: "),
        (("ls", "-l", "STORE", "orders/0"), "counting values: "),
        (("ls", "-l", "STORE", "orders/0/values"), "counting /orders/0/values: "),
        (("ls", "-l", "STORE", "orders/0/offset"), "listing: 3"),
    ],
)
def test_progress_is_shown_on_a_terminal_only(
    filled_store: Path, tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    """Standard output and standard error are one terminal, and what is shown of progress is gone at the end."""

    def run(cache: str, output: int) -> subprocess.Popen[bytes]:
        arguments = [str(filled_store) if each == "STORE" else each for each in command]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / cache)}
        return subprocess.Popen(
            [sys.executable, "-P", "-c", IMPATIENT, *arguments], stdout=output, stderr=output, env=environment
        )

    ours, theirs = pty.openpty()
    with run("first", theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the terminal has no writer left
                break
    os.close(ours)
    assert process.returncode == 0
    *progress, results = shown.decode().split(ERASE)
    assert any(said in each for each in progress)
    read, write = os.pipe()
    with run("second", write), open(read, encoding="utf-8") as quiet:  # noqa: PTH123 -- a descriptor
        os.close(write)
        assert quiet.read() == results.replace("\r\n", "\n")


def test_cat_writes_what_it_has_while_the_rest_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(io.BufferedWriter(raw))
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)

    def pieces() -> Iterator[bytes]:
        yield b"first\n"
        assert raw.getvalue() == b"first\n"
        yield b"second\n"

    write_pieces(pieces())
    assert raw.getvalue() == b"first\nsecond\n"
