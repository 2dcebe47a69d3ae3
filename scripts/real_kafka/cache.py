"""What was fetched, kept in a folder in which everything is whole.

Each thing is put together beside the others and moved in by one rename, under a lock. An interrupted fetch is done
again, and of several at once one fetches while the others wait.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import say

if TYPE_CHECKING:
    from collections.abc import Iterator

UNFINISHED = ".fetching-"


@contextmanager
def fetching(cache: Path) -> Iterator[Path]:
    """Give a folder to put things together in, while no other process fetches; what is left in it goes in the end."""
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        for interrupted in cache.glob(f"{UNFINISHED}*"):
            shutil.rmtree(interrupted, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=cache) as work:
            yield Path(work)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is fetching; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
