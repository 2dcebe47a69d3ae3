"""A walk over the mount of a hostile store, while a reader of its sound partition is timed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from hostile import walk
from hostile.runs import MEMORY_BYTES_MAX, SILENCE_S

if TYPE_CHECKING:
    from mounts import Mounted

WALK_S: Final = 300
_DECODING: Final = "/damage.jsonl'"
"""How the line of a walk ends for a file that has nothing to tell, not even in parts, before the log was decoded."""
_READ_BYTES: Final = 64 * 1024
_ENTRIES: Final = 200
_MEMORY: Final = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_RECOVERING: Final = re.compile(r"^(\S+) INFO \S+ (?:is being|was) recovered", re.MULTILINE)
_READING: Final = re.compile(r"^\S+ INFO read of (\S+) has taken (\d+) s so far, at offset (\d+)$", re.MULTILINE)
_RAW: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Prober:
    """Reads the sound partition all the time, and keeps the longest that it waited."""

    def __init__(self, mount: Path) -> None:
        self.longest_s = 0.0
        self.looks = 0
        self.error: OSError | None = None
        self._mount = mount
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._probe, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WALK_S)

    def _probe(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            number = (number + 7) % 60
            started = time.monotonic()
            try:
                (self._mount / "sound" / "0" / "offset" / str(number)).read_bytes()
            except OSError as error:
                self.longest_s, self.error = float("inf"), error
                return
            self.longest_s = max(self.longest_s, time.monotonic() - started)
            self.looks += 1


def most_memory_bytes(mounted: Mounted) -> int:
    """Return the most memory that a mount has had."""
    status = Path(f"/proc/{mounted.process.pid}/status").read_text()
    return int(_MEMORY.findall(status)[0]) * 1024


def recovering_s(said: str) -> float:
    """Return for how long a mount's log has shown that a log is being recovered, which its readers wait for.

    A line counts up to the next one, if that comes before `SILENCE_S` have passed.
    """
    times = [datetime.fromisoformat(each).timestamp() for each in _RECOVERING.findall(said)]
    return sum(later - time for time, later in pairwise(times) if later - time < SILENCE_S)


def shows_progress(said: str, path: str, seconds: float) -> bool:
    """True if a mount's log says of a read, without a silence, that it comes to one offset after another."""
    lines = [(int(so_far), int(offset)) for read, so_far, offset in _READING.findall(said) if read == path]
    told_s = [0, *(so_far for so_far, _ in lines), seconds]
    is_silent = any(later - earlier > SILENCE_S for earlier, later in pairwise(told_s))
    return not is_silent and all(earlier[1] < later[1] for earlier, later in pairwise(lines))


def faults_of_walk(mounted: Mounted, *, probe_s: float, appends: bool) -> list[str]:
    """Walk over a mount, and return what was wrong; the sound partition has to answer within `probe_s`."""
    found = []
    command = [sys.executable, "-P", walk.__file__, str(mounted.path), str(_ENTRIES), str(_READ_BYTES)]
    with Prober(mounted.path) as prober:
        timer = threading.Timer(WALK_S, mounted.process.kill)
        timer.start()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        timer.cancel()
        if done.returncode or not done.stdout.endswith(" calls\n"):
            found.append(f"the walk did not end: {done.stdout[-300:]}{done.stderr[-300:]}")
        elif appends:
            written = mounted.run("echo line >> sound/0/append; echo line >> victim/0/append", timeout_s=SILENCE_S * 2)
            if "sound" in written.stderr:
                found.append(f"the sound partition takes no line: {written.stderr}")
    longest_s = SILENCE_S + recovering_s(mounted.said())
    slow = [
        line
        for line in done.stdout.splitlines()[:-1]
        if float(line.partition(" ")[0]) > longest_s and not _is_told(line, mounted)
    ]
    found += [f"took long: {line}" for line in slow]
    if prober.longest_s > probe_s:
        found.append(f"the sound partition took {prober.longest_s:.3f} s, in {prober.looks} looks: {prober.error}")
    if mounted.process.poll() is None:
        memory_bytes = most_memory_bytes(mounted)
        if memory_bytes > MEMORY_BYTES_MAX:
            found.append(f"took {memory_bytes / 2**20:.0f} MiB")
    said = mounted.said()
    if "Traceback" in said or " bug" in said:
        found.append(f"said: {said[-500:]}")
    if raw := _RAW.search(said):
        found.append(f"has {raw[0]!r} in its log")
    return found


def _is_told(line: str, mounted: Mounted) -> bool:
    """True if a slow call of the walk was a read that shows progress, or one of a file that can show none."""
    seconds, call, path = line.split(" ", 2)
    in_mount = ast.literal_eval(path).removeprefix(str(mounted.path))
    return call == "_read" and (path.endswith(_DECODING) or shows_progress(mounted.said(), in_mount, float(seconds)))
