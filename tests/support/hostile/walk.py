"""A walk over a mounted store, run as a program of its own: a process that waits for a mount cannot be stopped.

    python walk.py MOUNT ENTRIES BYTES

It looks at everything that is listed, and at names that are not; it prints each call that took longer than a second,
as its seconds and path, and at the end how many calls there were.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

UNLISTED = (
    "offset/5",
    "offset/60",
    "offset/60.json",
    "offset/60.jsonl",
    "offset/60.hex",
    "offset/60.headers",
    "offset/60.batch",
    "offset/0..100",
    "offset/0..100.json",
    "offset/0..100.jsonl",
    "offset/0..100.hex",
    "offset/0..100.headers",
    "offset/last-3..",
    "by-time/-1h",
    "by-time/-1h..",
)
SLOW_S = 1.0


class Walk:
    """One walk, which counts its calls."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self.calls = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max

    def timed(self, path: str, call: Callable[..., Any], *arguments: object) -> Any:
        """Call, and print what took long; None after an error of the system."""
        started = time.monotonic()
        try:
            return call(*arguments)
        except OSError:
            return None
        finally:
            self.calls += 1
            if (seconds := time.monotonic() - started) > SLOW_S:
                print(f"{seconds:.2f} {call.__name__} {path!a}", flush=True)

    def look(self, path: str) -> None:
        """Look at a path, and at what is below it."""
        found = self.timed(path, os.lstat, path)
        if found is None:
            return
        for name in self.timed(path, os.listxattr, path) or ():
            self.timed(path, os.getxattr, path, name)
        if stat.S_ISLNK(found.st_mode):
            self.timed(path, os.readlink, path)
        elif stat.S_ISREG(found.st_mode):
            self.timed(path, self._read, path)
        elif stat.S_ISDIR(found.st_mode):
            names = self._names(path)
            is_partition = "values" in names
            for name in [*names[: self._entries_max], *(UNLISTED if is_partition else ())]:
                self.look(f"{path}/{name}")

    def _names(self, path: str) -> list[str]:
        """Return the names in a directory, each of which is waited for by itself: most come with others."""
        names = []
        listed = self.timed(path, os.scandir, path)
        while listed is not None and (entry := self.timed(path, next, listed, None)) is not None:
            names.append(entry.name)
        return names

    def _read(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.timed(path, os.read, descriptor, self._bytes_max)
        finally:
            os.close(descriptor)


def main() -> None:
    """Walk as the arguments say."""
    walk = Walk(int(sys.argv[2]), int(sys.argv[3]))
    walk.look(sys.argv[1])
    print(f"{walk.calls} calls", flush=True)


if __name__ == "__main__":
    main()
