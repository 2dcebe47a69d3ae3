"""Requests that take long: the log says so, and a program that waits for one can be ended."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
import trio
from mounts import DEADLINE_S
from trio.testing import wait_all_tasks_blocked
from waiting import until

from kafkafs.mount import long_requests, readers
from kafkafs.mount.dispatch import SHARE_THREADS, Share
from kafkafs.mount.readers import Program, Waits, is_told_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted

CATCHING = """
import signal, sys
caught = []
signal.signal(signal.SIGTERM, lambda *_: (caught.append(1), open("/proc/self/fd/1", "w").write("caught\\n")))
with open(sys.argv[1], "rb", buffering=0) as file:
    print(file.read(10))
"""
BLOCKING = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {}); print('ready', flush=True); input()"


@pytest.fixture
def reader(mounted: Mounted) -> Iterator[subprocess.Popen[bytes]]:
    """Run `cat` on a file of which no byte is ever made."""
    with subprocess.Popen(["cat", mounted.path / "orders/0/keys"]) as process:
        try:
            mounted.until(lambda: is_read(mounted))
            yield process
        finally:
            mounted.run("echo open endless >> gates/0/append")


def is_read(mounted: Mounted) -> bool:
    return mounted.run("cat orders/0/producers").stdout == "waiting=1\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_a_program_that_waits_for_a_read(reader: subprocess.Popen[bytes], number: signal.Signals) -> None:
    reader.send_signal(number)
    assert reader.wait(DEADLINE_S) == -number


def test_a_signal_that_is_caught_lets_the_read_go_on(mounted: Mounted) -> None:
    command = [sys.executable, "-c", CATCHING, mounted.path / "orders/0/keys"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            mounted.until(lambda: is_read(mounted))
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            assert process.stdout.readline() == "caught\n"
        finally:
            mounted.run("echo open endless >> gates/0/append")
        assert process.stdout.read() == "b''\n"
    assert process.returncode == 0


@pytest.mark.usefixtures("reader")
def test_a_signal_ends_programs_that_wait_for_a_thread(mounted: Mounted) -> None:
    """All threads of the partition are in reads that do not end."""
    programs = [subprocess.Popen(["cat", mounted.path / "orders/0/keys"]) for _ in range(SHARE_THREADS + 1)]

    def is_stat_waiting() -> bool:
        program = subprocess.Popen(["stat", mounted.path / "orders/0/producers"], stdout=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            program.wait(2)
            return False
        programs.append(program)
        return True

    try:
        mounted.until(is_stat_waiting)
        for program in programs[::-1]:  # the last one has no thread while the others read
            program.terminate()
            assert program.wait(DEADLINE_S) == -signal.SIGTERM
    finally:
        mounted.run("echo open endless >> gates/0/append")
        for program in programs:
            program.wait(DEADLINE_S)


@pytest.mark.usefixtures("reader")
def test_the_log_says_how_far_a_long_read_is(mounted: Mounted) -> None:
    line = re.compile(r" INFO read of /orders/0/keys has taken (\d+) s so far, at offset (\d+)$", re.MULTILINE)
    mounted.until(lambda: len(line.findall(mounted.said())) >= 2)
    (first_s, first_offset), (second_s, second_offset), *_ = line.findall(mounted.said())
    assert int(first_s) < int(second_s) <= int(first_s) + long_requests.TOLD_S + 2
    assert 0 < int(first_offset) < int(second_offset)


@pytest.mark.parametrize(
    ("number", "is_blocked", "expected"),
    [
        (signal.SIGTERM, False, True),
        (signal.SIGINT, False, True),
        (signal.SIGTERM, True, False),
        (signal.SIGUSR1, False, False),
    ],
)
def test_which_signals_count(number: signal.Signals, is_blocked: bool, expected: bool) -> None:
    """A stopped process has its signals before it when it is continued."""
    with stopped(BLOCKING.format([int(number)] if is_blocked else [])) as process:
        process.send_signal(number)
        assert is_told_to_end(process.pid) == expected


def test_a_signal_that_is_caught_may_not_count() -> None:
    with stopped("import signal; signal.signal(signal.SIGTERM, print); print('ready', flush=True); input()") as process:
        process.send_signal(signal.SIGTERM)
        assert is_told_to_end(process.pid)
        assert not is_told_to_end(process.pid, is_catching=False)


@contextmanager
def stopped(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that says "ready", and stop it then, so that its signals wait."""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGSTOP)
            until(lambda: "T (stopped)" in Path(f"/proc/{process.pid}/status").read_text(), "it does not stop")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("failures", [0, 2])
def test_only_the_requests_of_a_program_that_is_told_to_end_stop_waiting(
    failures: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A look that fails is logged once, and the next one is tried."""
    look, looks = readers._told_to_end, count()

    def look_later(programs: set[Program]) -> set[Program]:
        if next(looks) < failures:
            raise RuntimeError("can't start new thread")
        return look(programs)

    monkeypatch.setattr(readers, "_told_to_end", look_later)

    async def main() -> None:
        share, waits, is_over = Share(), Waits(), Event()
        answers: list[object] = []
        is_answered = trio.Event()

        async def request(program: Program) -> None:
            try:
                answers.append(await share.run(lambda: program.thread, wait=partial(waits.of, program)))
            except InterruptedError as error:
                answers.append(error.errno)
            is_answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waits.run)
            async with trio.open_nursery() as requests:
                for _ in range(SHARE_THREADS):
                    requests.start_soon(share.run, is_over.wait)
                await wait_all_tasks_blocked()
                requests.start_soon(request, Program(process.pid))
                requests.start_soon(request, Program(os.getpid()))
                await is_answered.wait()
                assert answers == [errno.EINTR]
                is_over.set()
            assert answers == [errno.EINTR, os.getpid()]
            nursery.cancel_scope.cancel()

    with stopped(BLOCKING.format([])) as process:
        process.send_signal(signal.SIGTERM)
        trio.run(main)
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"] * bool(failures)


def test_a_process_that_is_gone_or_unknown_is_not_told_to_end() -> None:
    assert not is_told_to_end(0)
    assert not is_told_to_end(os.getpid())
