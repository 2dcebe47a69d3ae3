"""`kafkafs top` on a terminal: it is drawn, follows what is appended and another size, and is left as it was found."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Protocol

import pytest
from waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDS = b"\x1b[?1049l"  # the screen from before is back
RED = b"\x1b[31m"


class Scene(Protocol):
    """The fixture's."""

    path: Path

    def topic(self, name: str, partitions: int = 1) -> None: ...
    def append(self, topic: str, records: int, partition: int = 0) -> None: ...


class Terminal:
    """A terminal of this size, in which a bash with job control runs a script. `seen` is all that it has got."""

    def __init__(self, script: str, **environment: str) -> None:
        self.process, self._control = pty.fork()
        if self.process == 0:
            kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "LC_ALL"}}
            os.execvpe("bash", ["bash", "-mc", script], {**kept, "TERM": "xterm", "LANG": "C.UTF-8", **environment})
        self.seen = b""
        self.resize(24, 80)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._control, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._control)[:4]

    def type(self, keys: bytes) -> None:
        os.write(self._control, keys)

    def shows(self, pattern: str | bytes) -> bytes:
        """Wait until this is among what is written, and forget what was written up to there."""
        wanted = pattern.encode() if isinstance(pattern, str) else pattern

        def found() -> re.Match[bytes] | None:
            while select.select([self._control], [], [], 0)[0]:
                try:
                    self.seen += os.read(self._control, 65536)
                except OSError:
                    break
            return re.search(wanted, self.seen)

        match = until(found, lambda: f"{pattern!r} in {self.seen[-2000:]!r}")
        before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return before

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.close(self._control)  # which ends what is left of it with SIGHUP
        os.waitpid(self.process, 0)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Close the terminals that a test puts here."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def top(path: Path, *more: str) -> str:
    return " ".join([sys.executable, "-P", "-m", "kafkafs", "top", str(path), "--interval", "0.2", *more])


def test_it_follows_the_log_and_the_size_and_stops_and_goes_on(scene: Scene, terminals: list[Terminal]) -> None:
    scene.topic("orders")
    scene.append("orders", 3)
    (scene.path / "broken-0").mkdir()
    (scene.path / "broken-0" / f"{0:020}.log").symlink_to("nothing")
    terminal = Terminal(f'{top(scene.path)}; echo "stopped $?"; read; fg >/dev/null; echo "left $?"; read')
    terminals.append(terminal)
    found_modes = terminal.modes()
    terminal.shows(re.escape(RED) + b"broken")
    assert terminal.modes() != found_modes
    scene.append("orders", 40)
    terminal.shows(rb"B/s, [0-9.]+ records/s")
    aside = scene.path.with_name("aside")
    scene.path.rename(aside)  # what is logged about it stays in its line
    assert b"kafkafs: " not in terminal.shows("the log directory")
    aside.rename(scene.path)
    terminal.shows("orders")
    terminal.type(b"p")
    terminal.shows("PARTITION")  # curses writes what differs
    terminal.resize(30, 200)
    terminal.shows("START")
    terminal.type(b"/orders\r\r")
    terminal.shows("RETENTION")

    def is_stopped() -> bool:  # curses ignores it while it draws
        terminal.type(b"\x1a")
        return b"stopped 148" in terminal.shows(rb".(?s:.)*")

    until(is_stopped, lambda: repr(terminal.seen[-2000:]))
    assert terminal.modes() == found_modes
    terminal.type(b"\n")
    terminal.shows("RETENTION")
    terminal.type(b"q")
    ending = terminal.shows("left 0")
    assert ENDS in ending
    assert terminal.modes() == found_modes


@pytest.mark.parametrize(
    ("number", "said", "code"),
    [(signal.SIGINT, "kafkafs: interrupted", 130), (signal.SIGTERM, "kafkafs: ended by SIGTERM", 143)],
)
def test_a_signal_leaves_the_terminal_as_it_was(
    scene: Scene, terminals: list[Terminal], number: signal.Signals, said: str, code: int
) -> None:
    (scene.path / "broken-0").mkdir()
    (scene.path / "broken-0" / f"{0:020}.log").symlink_to("nothing")
    script = f'sh -c \'echo "[$$]"; exec {top(scene.path)}\'; echo "code $?"; read'
    terminal = Terminal(script, NO_COLOR="1")
    terminals.append(terminal)
    found_modes = terminal.modes()
    process = int(re.findall(rb"\[(\d+)\]", terminal.shows(r"\[\d+\]"))[0])
    assert RED not in terminal.shows("broken  ")
    os.kill(process, number)
    ending = terminal.shows(f"code {code}")
    assert said.encode() in ending.partition(ENDS)[2]
    assert terminal.modes() == found_modes


@pytest.mark.parametrize("name", ["dumb", "no-such-terminal"])
def test_where_nothing_can_be_drawn_lines_are_printed(scene: Scene, terminals: list[Terminal], name: str) -> None:
    scene.topic("orders")
    terminal = Terminal(f"{top(scene.path)}; echo code $?; read", TERM=name)
    terminals.append(terminal)
    printed = terminal.shows(r"orders .*\r\n\r\n")
    assert b"each look is printed" in printed
    assert b"\x1b" not in printed
    terminal.type(b"\x03")
    terminal.shows("code 130")


def test_the_pipe_that_is_closed_ends_it(scene: Scene) -> None:
    scene.topic("orders")
    done = subprocess.run(
        ["bash", "-c", f"{top(scene.path)} | head -n 2; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, code = done.stdout.splitlines()
    assert (lines[1].split()[0], code, done.stderr) == ("TOPIC", "141", "")
