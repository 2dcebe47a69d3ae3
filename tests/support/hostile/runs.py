"""Commands and mounts over a hostile store, watched: for how long they say nothing, and what memory they take.

A command that runs on is ended after `PATIENCE_S`, which is no fault if it said something every `SILENCE_S` until then.
"""

from __future__ import annotations

import ctypes
import os
import pty
import re
import resource
import select
import selectors
import signal
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hostile.store import HostileStore

SILENCE_S: Final = 5.0
PATIENCE_S: Final = 12.0
LOOK_S: Final = 0.005
ADDRESS_SPACE_BYTES: Final = 8 * 2**30
"""A process that takes more gets no more, so that what has no bound does not take the machine."""

MEMORY_BYTES_MAX: Final = 2**30 + 200 * 10**6
"""The budget at its default, and what a process takes besides."""

_BUG: Final = re.compile(r"Traceback \(most recent call last\)|\bbug\b")
_RAW: Final = re.compile(r"\x1b\[31m|\x1b\]|\x9b|\x07")  # of the names and texts of cases; progress shows others
_OUTPUT_KEPT: Final = 64 * 1024
_IN_TOUCHED: Final = 0x1 | 0x2 | 0x4 | 0x20 | 0x100 | 0x200  # access, modify, attributes, open, create, delete


@dataclass
class Outcome:
    """What came of a command, which `said` things into a pipe, and had them `shown` on a terminal.

    `silence_s` is the longest time in which it neither ended nor said anything.
    """

    arguments: tuple[str, ...]
    exit_code: int | None
    said: str
    shown: str
    silence_s: float
    memory_bytes: int
    faults: list[str] = field(default_factory=list)

    def judge(self) -> list[str]:
        """Return what is wrong with it."""
        found = list(self.faults)
        if self.silence_s > SILENCE_S:
            found.append(f"said nothing for {self.silence_s:.1f} s")
        if self.memory_bytes > MEMORY_BYTES_MAX:
            found.append(f"took {self.memory_bytes / 2**20:.0f} MiB")
        if _BUG.search(self.said + self.shown):
            found.append("ended as a bug: " + self.shown[-300:])
        if raw := _RAW.search(self.shown):
            found.append(f"showed {raw[0]!r} on a terminal")
        if self.exit_code is not None and self.exit_code < 0 and self.exit_code != -signal.SIGPIPE:
            found.append(f"was ended by signal {-self.exit_code}")
        return [f"{' '.join(self.arguments)}: {each}" for each in found]


def command(*arguments: str | Path, given: bytes = b"") -> Outcome:
    """Run a command on a terminal, where it shows progress, and its output into a pipe, of which the beginning is kept.

    Its memory is the largest of its processes'.
    """
    terminal, shown = pty.openpty()
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kafkafs", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=shown,
        start_new_session=True,
        preexec_fn=_bounded,  # noqa: PLW1509 -- no thread runs here
    )
    os.close(shown)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(given)
        process.stdin.close()
    except BrokenPipeError:
        pass
    said: dict[int, bytearray] = {process.stdout.fileno(): bytearray(), terminal: bytearray()}
    silence_s, last = 0.0, started
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(terminal, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() - started < PATIENCE_S:
            for key, _ in selector.select(0.2):
                try:
                    data = os.read(key.fd, 1 << 20)
                except OSError:  # the terminal's other end is closed
                    data = b""
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                now = time.monotonic()
                silence_s, last = max(silence_s, now - last), now
                kept = said[key.fd]
                kept += data
                del kept[:-_OUTPUT_KEPT]
    silence_s = max(silence_s, time.monotonic() - last)
    exit_code, memory_bytes = _ended(process)
    process.stdout.close()
    os.close(terminal)
    texts = (each.decode(errors="replace") for each in said.values())
    return Outcome(tuple(map(str, arguments)), exit_code, *texts, silence_s, memory_bytes)


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _ended(process: subprocess.Popen[bytes]) -> tuple[int | None, int]:
    """Wait for a process, end it if it goes on, and return its exit code, if it ended by itself, and its memory."""
    is_own = True
    deadline = time.monotonic() + 1
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline and is_own:
            is_own = False
            os.killpg(process.pid, signal.SIGKILL)
        select.select([], [], [], LOOK_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (process.returncode if is_own else None), usage.ru_maxrss * 1024


class Watch:
    """What happens to the files of a directory, by inotify; a process of any user that opens one is seen."""

    def __init__(self, directory: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched: dict[int, str] = {}
        for path in [directory, *directory.rglob("*")]:
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_TOUCHED)
            if number < 0:
                raise OSError(ctypes.get_errno(), f"cannot watch {path}")
            self._watched[number] = str(path)

    def touched(self) -> list[str]:
        """Return the paths of the files that were touched since the last call."""
        found = set()
        try:
            while data := os.read(self._descriptor, 64 * 1024):
                at = 0
                while at < len(data):
                    number, _, _, length = struct.unpack_from("iIII", data, at)
                    at += 16 + length
                    found.add(self._watched.get(number, "?"))
        except BlockingIOError:
            pass
        return sorted(found)

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def watching(store: HostileStore) -> Iterator[Watch]:
    """Watch everything outside of a store during a block. What a hard link shares with it is not watched."""
    watch = Watch(store.outside)
    try:
        yield watch
    finally:
        watch.close()


READING: Final[tuple[tuple[str, ...], ...]] = (
    ("ls", "STORE"),
    ("ls", "-l", "STORE", "victim/0"),
    ("ls", "STORE", "victim/0/segments"),
    ("ls", "STORE", "victim/0/offset"),
    ("ls", "STORE", "victim/0/by-time"),
    ("cat", "STORE", "victim/0/offset/5"),
    ("cat", "STORE", "victim/0/offset/60.json"),
    ("cat", "STORE", "victim/0/values"),
    ("cat", "STORE", "victim/0/records.jsonl"),
    ("cat", "STORE", "victim/0/offset/last-3.."),
    ("cat", "STORE", "victim/0/by-time/-1h.."),
    ("cat", "STORE", "victim/0/info"),
    ("cat", "STORE", "victim/0/producers"),
    ("cat", "STORE", "victim/0/transactions"),
    ("cat", "STORE", "victim/0/leader-epochs"),
    ("cat", "STORE", "victim/0/retention.plan"),
    ("cat", "STORE", "victim/0/compaction.plan"),
    ("cat", "STORE", "victim/0/damage.jsonl"),
    ("ls", "STORE", "victim/0/damage"),
    ("cat", "STORE", "victim/config"),
    ("cat", "STORE", f"victim/0/segments/{0:020}.log.txt"),
    ("cat", "STORE", "by-time/-1h"),
    ("cat", "STORE", ".kafkafs/transactions"),
    ("cat", "STORE", "sound/0/offset/5"),
    ("topics", "list", "STORE"),
    ("topics", "config", "STORE", "victim"),
    ("groups", "STORE"),
    ("stats", "STORE"),
    ("top", "STORE", "--once", "--partitions", "--interval", "0.1"),
    ("verify", "STORE"),
    ("retention", "STORE"),
    ("compact", "STORE"),
    ("recover", "STORE"),
    ("recover", "--withdraw-commit", "STORE"),
    ("warm", "STORE", "victim/0/values"),
    ("salvage", "--even-unsummed", "STORE", "victim/0", "NEW"),
    ("report", "STORE", "-o", "-"),
    ("report", "--full", "STORE", "--json"),
)
"""Commands that change nothing; each of them is also run for the topic `sound` where that is a victim's."""

CHANGING: Final[tuple[tuple[str, ...], ...]] = (
    ("append", "STORE", "sound/0/append"),
    ("append", "STORE", "victim/0/append"),
    ("retention", "--apply", "STORE"),
    ("compact", "--apply", "STORE"),
    ("topics", "config", "STORE", "victim", "retention.ms=1000000"),
    ("topics", "create", "STORE", "new"),
    ("recover", "--apply", "STORE"),
    ("recover", "--apply", "--withdraw-commit", "STORE"),
    ("append", "STORE", "sound/0/append"),
    ("verify", "STORE"),
    ("topics", "delete", "--apply", "STORE", "victim"),
)
"""Commands that change the store, in an order in which each finds something to do."""


def placed(arguments: Sequence[str], store: HostileStore) -> list[str]:
    """Return a command's arguments with the store, and a new directory beside it, in their places."""
    paths = {"STORE": str(store.path), "NEW": str(store.path.with_name("new"))}
    return [paths.get(each, each) for each in arguments]


def dumps(store: HostileStore) -> Iterator[list[str]]:
    """Yield the commands that dump files of the victim and of the top; links that a user names are followed."""
    of_victim = [] if store.victim.is_symlink() else [*store.victim.glob("0*"), *store.victim.glob("leader*")]
    paths = [*of_victim, *store.path.glob("*checkpoint")]
    for path in sorted(path for path in paths if not path.is_symlink())[:20]:
        yield ["dump", str(path)]


def faults_of(
    store: HostileStore, commands: Sequence[Sequence[str]], *, watches: bool = True
) -> tuple[list[str], list[Outcome]]:
    """Run commands one after the other, and return what was wrong, and what came of each."""
    found: list[str] = []
    outcomes = []
    with watching(store) as watch:
        for arguments in commands:
            outcome = command(*placed(arguments, store), given=b"line\n" if arguments[0] == "append" else b"")
            if watches and (touched := watch.touched()):
                outcome.faults.append(f"touched {', '.join(touched)}")
            outcomes.append(outcome)
            found += outcome.judge()
    return found, outcomes
