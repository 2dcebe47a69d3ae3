"""A partition's directory is exchanged for that of another one, whose records a user may not read.

The user looks at all views while he may, and reads on in the moment when the kernel still goes by what it was told.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import pytest
from mounts import DEADLINE_S, store_mounting
from other_users import NOBODY

from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from mounts import Mounted

    Seen: TypeAlias = dict[str, str | int | list[str]]

pytestmark = pytest.mark.e2e

ROUNDS: Final = 40
RECORDS: Final = 7
LOG: Final = f"{0:020}.log"
FILES: Final = (
    "values",
    "records.jsonl",
    "info",
    "producers",
    "transactions",
    "log-start-offset",
    "damage.jsonl",
    "offset/0",
    "offset/0.json",
    "offset/0.key",
    "offset/latest",
    "offset/earliest.json",
    "offset/all",
    "offset/0..9.jsonl",
    "offset/last-3..latest",
    "by-time/now",
    "by-time/0",
    "by-time/-1h..now",
    f"segments/{LOG}",
    f"segments/{LOG}.txt",
    f"segments/{0:020}.timeindex.txt",
)
OF_ALL: Final = (".kafkafs/transactions", "by-time/0")
DIRECTORIES: Final = ("", "offset", "by-time", "segments", "damage")
LINKS: Final = ("offset/latest", "offset/earliest", "by-time/0")
READER: Final = """
import json, os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
files, of_all, directories, links = json.loads(sys.argv[3])
os.chdir(sys.argv[2])
def tried(found, what, call, path):
    try:
        found[what + " " + path] = call(path)
    except OSError as error:
        pass
def data(path):
    with open(path, "rb") as file:
        return file.read().decode("latin-1")
def look(is_reading):
    found = {}
    paths = [*("pair/0/" + name for name in files), *of_all]
    for path in paths:
        tried(found, "size", lambda path: os.stat(path).st_size, path)
        if is_reading:
            tried(found, "data", data, path)
            tried(found, "attributes", os.listxattr, path)
    for name in directories:
        if is_reading:
            tried(found, "names", os.listdir, "pair/0/" + name)
        else:
            tried(found, "size", lambda path: os.stat(path).st_size, "pair/0/" + name)
    for name in links:
        tried(found, "target", os.readlink, "pair/0/" + name)
    return found
kept = None
for line in sys.stdin:
    if line == "open\\n":
        kept = open("pair/0/values", "rb")
        found = {"data open": kept.read().decode()}
    else:
        found = look(line == "read\\n")
        if kept is not None and line == "read\\n":
            tried(found, "data", lambda _: kept.read().decode("latin-1"), "kept")
            tried(found, "size", lambda _: os.fstat(kept.fileno()).st_size, "kept")
    print(json.dumps(found), flush=True)
"""
"""Prints what a user finds of `pair/0` each time that it is told to look or to read."""


@pytest.fixture
def store(scratch: Path) -> Path:
    """Make a store with a partition that all may read, and one of the same topic that only root may."""
    path = scratch / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("pair", 2)
        for partition, count, text in ((0, 1, b"open"), (1, RECORDS, b"secret" * 173)):
            for _ in range(count):
                (batch,) = batches_of_rows([(Clock().now_ms(), text, text, ())], base_offset=None)
                made.log("pair", partition).append_as_leader(batch, leader_epoch=0)
    for each in (path, *path.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    (path / "pair-1").chmod(0o700)
    return path


def exchange(store: Path) -> None:
    """Exchange the directories in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = [os.fsencode(store / f"pair-{partition}") for partition in (0, 1)]
    if libc.renameat2(-100, names[0], -100, names[1], 2) != 0:
        pytest.skip(f"no two names can be exchanged here: {os.strerror(ctypes.get_errno())}")


@contextmanager
def reader(mounted: Mounted) -> Iterator[subprocess.Popen[str]]:
    """Start the process of the user."""
    names = json.dumps([FILES, OF_ALL, DIRECTORIES, LINKS])
    command = [sys.executable, "-c", READER, str(NOBODY), str(mounted.path), names]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()


def asked(process: subprocess.Popen[str], what: str) -> Seen:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    found: Seen = json.loads(process.stdout.readline())
    return found


def secrets_in(found: Seen) -> Seen:
    """Return what tells something of the closed partition: its records, their number, or their size."""
    return {
        where: what
        for where, what in found.items()
        if "secret" in str(what)
        or what in (RECORDS * 1039, 1039, 1038, f"{RECORDS - 1}")
        or (where.startswith("names") and str(RECORDS - 1) in str(what).split("'"))
    }


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_what_a_user_could_read_a_moment_ago_shows_nothing_else(scratch: Path, store: Path, mode: str) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", f"{mode},allow_other")
        with reader(mounted) as process:
            for _ in range(ROUNDS):
                before = asked(process, "look")
                exchange(store)
                assert secrets_in(asked(process, "read")) == {}
                exchange(store)
                assert secrets_in(before) == {}
            mounted.until(lambda: asked(process, "read").get("data pair/0/values") == "open\n")
        mounted.end()


def test_an_open_stream_shows_nothing_of_another_partition(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        with reader(mounted) as process:
            assert asked(process, "open")["data open"] == "open\n"
            exchange(store)
            for _ in range(ROUNDS):
                assert secrets_in(asked(process, "read")) == {}
        mounted.end()


def test_directories_that_are_exchanged_all_the_time_show_nothing_either(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mount:
        mounted = mount(store, "-o", "ro,allow_other")
        is_over = Event()

        def go_on() -> None:
            while not is_over.is_set():
                exchange(store)

        exchanging = Thread(target=go_on)
        exchanging.start()
        try:
            with reader(mounted) as process:
                for _ in range(ROUNDS):
                    assert secrets_in(asked(process, "read")) == {}
        finally:
            is_over.set()
            exchanging.join(DEADLINE_S)
        mounted.end()
