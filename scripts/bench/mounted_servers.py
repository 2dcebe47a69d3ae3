"""Mounts to measure: ours and those of stock pyfuse3, each served by a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from segments import Shape, rows

from storage.clock import Clock
from storage.files import Files
from storage.record import BatchForm, batches_of_rows
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHECKOUT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("empty_mount.py")
C_PEER = Path(__file__).with_name("empty_server.c")
TOPIC = "t"
READ_BYTES = 1024 * 1024
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Served:
    """A mount that answers, until the block is left; `command` prints a line once it does."""

    def __init__(self, command: Sequence[str | Path], path: Path) -> None:
        self.path = path
        self._command = command

    def __enter__(self) -> Self:
        self.path.mkdir(exist_ok=True)
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.path.with_name("cache"))}
        shutil.rmtree(environment["XDG_CACHE_HOME"], ignore_errors=True)
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=CHECKOUT
        )
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise RuntimeError(f"{self._command} does not mount")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def run_on(self, processor: int) -> None:
        """Keep all its threads on one processor."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {processor})

    def cpu_seconds(self) -> float:
        """What its process has used so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def ours(store: Path, *options: str) -> Served:
    command = (sys.executable, "-m", "kafkafs", "mount", "--foreground", *options, store)
    return Served((*command, store.with_name("ours")), store.with_name("ours"))


def empty(folder: Path) -> Served:
    return Served((sys.executable, PEER, folder / "empty", "empty"), folder / "empty")


def empty_in_c(folder: Path) -> Served:
    """The same in C, which is the limit: compiled here, as pyfuse3 is."""
    server = folder / "empty_server"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=True)
    subprocess.run(["gcc", "-O2", "-o", server, C_PEER, *flags.stdout.split()], check=True)
    return Served((server, folder / "c"), folder / "c")


def written(folder: Path) -> Served:
    """Handlers that only write to a file what they get."""
    return Served((sys.executable, PEER, folder / "written", "written", folder / "written.file"), folder / "written")


def passthrough(folder: Path, *files: Path) -> Served:
    return Served((sys.executable, PEER, folder / "plain", *files), folder / "plain")


def make_store(path: Path, shape: Shape, size_bytes: int, settings: Mapping[str, str] = NO_SETTINGS) -> None:
    """A store of one topic with so many bytes of batches in one partition, and a single batch in another."""
    with Store.create([path], files=Files(), clock=Clock()) as store:
        # The records are old, and a mount's retention would delete them after half a minute.
        store.topics.create(TOPIC, 2, {"retention.ms": "-1", **settings})
        log, small = store.log(TOPIC, 0), store.log(TOPIC, 1)
        made = rows(shape.value_bytes, shape.header_count)
        batches = list(
            batches_of_rows(made, base_offset=None, max_bytes=shape.batch_bytes, form=BatchForm(codec=shape.codec))
        )
        small.append_as_leader(batches[0])
        round_bytes = sum(len(batch) for batch in batches)
        for _ in range(-(-size_bytes // round_bytes)):
            for batch in batches:
                log.append_as_leader(batch)


def wall_seconds(command: Sequence[str | Path]) -> float:
    """What a process takes, its output discarded."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def read_all(path: Path) -> tuple[float, int]:
    """Seconds to read a file from its beginning to its end, and its bytes."""
    start = time.perf_counter()
    size_bytes, buffer = 0, bytearray(READ_BYTES)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            size_bytes += count
    return time.perf_counter() - start, size_bytes
