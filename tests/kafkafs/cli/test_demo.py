"""`kafkafs demo` as a newcomer runs it: a mount that answers, and a tour whose every command works as printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S, require_fuse

from kafkafs.mount.mountpoints.mounts import mounts
from kafkafs.mount.mountpoints.unmounting import unmount
from kafkafs.mount.process import log_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("mount")]

KAFKAFS = [sys.executable, "-P", "-m", "kafkafs"]
TRANSACTIONS = r"(?s)state\tproducerId\t.*\nopen\t2003\t.*\naborted\t"
LAST_THREE = r"(\d{13} (c-\d{4})? \{.*\}\n){3}\Z"
RECENT = r'(\{"topic":"orders","partition":0,"offset":\d+,.*\}\n)+\Z'
DUMPED = r"Dumping .*00000000000000000000\.log\nLog starting offset: 0\nbaseOffset: 0 .*\n\| offset: 0 "
RECORD = r'(?s)\{\n  "topic": "orders",\n  "partition": 0,\n  "offset": 42,\n.*"headers": \['
EXPECTED = {
    "the topics, and the files of a partition": r"(?s).*\norders\npayments\n\n.*/orders/0:\nappend\n.*\nvalues\n",
    "the topics": r"\.kafkafs\n__consumer_offsets\nclicks\ncustomers\norders\npayments\nby-time\n",
    "the files of a partition": r"(?s)name +kind +bytes.*\nvalues +file +[\d.]+[A-Za-z]+ ",
    "all of a record: key, headers, times and value": RECORD,
    "values, a line each; tail -f follows them": r'(\{"order":\d+,.*\}\n){3}\Z',
    "values, a line each": r'(\{"order":\d+,.*\}\n){3}\Z',
    "any tool reads them: requests that failed": r"1\d\d\n\Z",
    "a line that is written is a record": r"\Z",
    "the records of the last fifteen minutes": RECENT,
    "transactions that hang, or were aborted": TRANSACTIONS,
    "how far a group has read, and its lag": r"group\t.*\tlag\t.*\n(statistics\t.*\n)+\Z",
    "how far each group has read, and its lag": r"(?s)group +.* lag .*\nstatistics +",
    "a file of the log, as kafka-dump-log prints it": DUMPED,
    "a new topic": r"\Z",
    "the same without a mount, in kcat's format": LAST_THREE,
    "records in kcat's format": LAST_THREE,
    "whether all that is on disk is sound": r"\Z",
    "the end of the tour": r"\Z",
}


@dataclass
class Newcomer:
    """Somebody in a directory, with a shell."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.directory,
            env={**os.environ, "XDG_CACHE_HOME": str(self.directory / "cache"), **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def demo(self, *arguments: str, program: list[str] = KAFKAFS) -> subprocess.CompletedProcess[str]:
        done = self.shell(shlex.join([*program, "demo", *arguments]))
        assert "Traceback" not in done.stderr
        assert "bug" not in done.stderr
        return done

    def take(self, tour: dict[str, str]) -> None:
        """Type what the tour says, and look at what comes of it."""
        for shows, command in tour.items():
            done = self.shell(command)
            assert done.returncode == 0, (command, done.stderr)
            assert re.match(EXPECTED[shows], done.stdout), (command, done.stdout)
            assert done.stderr == "" or done.stderr.startswith("sound: "), (command, done.stderr)


def tour_in(text: str) -> dict[str, str]:
    """The commands of a printed tour by what they show."""
    title, _, tour = text.partition("\n\n")
    assert title.endswith("Try:")
    return dict(re.findall(r"^(\S.*)\n  (.*)$", tour, re.MULTILINE))


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    """Somebody whose mounts are gone afterwards, with their logs."""
    yield Newcomer(tmp_path)
    for mount in mounts():
        if mount.path.is_relative_to(tmp_path):
            unmount(mount.path, is_forced=True)
    for path in tmp_path.rglob("mnt"):
        if (log := log_file(path)) is not None:
            log.unlink(missing_ok=True)


@pytest.fixture
def without_fuse(newcomer: Newcomer) -> Newcomer:
    """Somebody on whose machine libfuse is missing."""
    broken = newcomer.directory / "broken"
    broken.mkdir()
    (broken / "pyfuse3.py").write_text("raise ImportError('libfuse3.so.3: cannot open shared object file')\n")
    path = os.environ.get("PYTHONPATH")
    newcomer.environment["PYTHONPATH"] = str(broken) if path is None else f"{broken}:{path}"
    return newcomer


def test_every_command_of_the_tour_works_as_printed(newcomer: Newcomer) -> None:
    require_fuse()
    first = newcomer.demo()
    assert first.returncode == 0, first.stderr
    assert first.stderr == "kafkafs: made a store in kafkafs-demo/store\n"
    tour = tour_in(first.stdout)
    assert 8 <= len(tour) <= 12

    again = newcomer.demo()
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert again.stderr.splitlines() == [
        "kafkafs: there is a demo in kafkafs-demo/store already, which is left as it is",
        "kafkafs: it is mounted at kafkafs-demo/mnt already",
    ]

    newcomer.take(tour)
    assert not (newcomer.directory / "kafkafs-demo" / "mnt").exists()
    last = newcomer.demo()
    assert (last.returncode, last.stdout) == (0, first.stdout)
    newcomer.take(tour)


def test_places_with_odd_names(newcomer: Newcomer) -> None:
    require_fuse()
    directory = newcomer.directory / "the newcomer's"
    done = newcomer.demo(str(directory))
    assert done.returncode == 0, done.stderr
    newcomer.take(tour_in(done.stdout))
    assert sorted(path.name for path in directory.iterdir()) == ["store"]


def test_a_dead_mount_is_replaced(newcomer: Newcomer) -> None:
    require_fuse()
    first = newcomer.demo("here")
    assert newcomer.shell("kill -KILL $(sed -n s/^pid=//p here/mnt/.kafkafs/options)").returncode == 0
    again = newcomer.demo("here")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert newcomer.shell("cat here/mnt/orders/0/offset/42").stdout.startswith('{"order":')


def test_where_nothing_can_be_mounted_there_is_a_tour_too(without_fuse: Newcomer) -> None:
    done = without_fuse.demo()
    assert done.returncode == 3
    assert done.stderr == (
        "kafkafs: made a store in kafkafs-demo/store\n"
        "kafkafs: mounting needs pyfuse3 and libfuse3 (libfuse3.so.3: cannot open shared object file): install the "
        "package fuse3 and run `pip install 'kafkafs[fuse]'`; `kafkafs ls` and `kafkafs cat` work without them\n"
    )
    assert done.stdout.startswith("kafkafs-demo/store is not mounted, but can be looked into all the same. Try:\n\n")
    tour = tour_in(done.stdout)
    assert 8 <= len(tour) <= 12
    without_fuse.take(tour)
    assert without_fuse.demo().stdout == done.stdout


def test_commands_are_printed_as_kafkafs_was_called(without_fuse: Newcomer) -> None:
    """From a checkout, from a place on PATH, from one that is not, and as a module."""
    programs = without_fuse.directory / "some bin"
    programs.mkdir()
    program = programs / "kafkafs"
    program.write_text(f"#!{sys.executable} -P\nfrom kafkafs.cli import main\nmain()\n")
    program.chmod(0o755)
    without_fuse.demo()
    calls = [(KAFKAFS, f"{sys.executable} -P -m kafkafs"), ([str(program)], f"'{program}'")]
    for called, shown in calls:
        assert tour_in(without_fuse.demo(program=called).stdout)["the topics"] == f"{shown} ls kafkafs-demo/store"
    without_fuse.environment["PATH"] = f"{programs}:{os.environ['PATH']}"
    assert tour_in(without_fuse.demo(program=["kafkafs"]).stdout)["the topics"] == "kafkafs ls kafkafs-demo/store"
    without_fuse.environment["KAFKAFS_LAUNCHER"] = "./scripts/kafkafs"
    assert tour_in(without_fuse.demo().stdout)["the topics"] == "./scripts/kafkafs ls kafkafs-demo/store"


def test_what_is_no_demo_is_refused_and_kept(newcomer: Newcomer) -> None:
    (newcomer.directory / "mine" / "store").mkdir(parents=True)
    (newcomer.directory / "mine" / "store" / "letter").write_text("mine")
    done = newcomer.demo("mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kafkafs: something other than a demo is here: name another directory, or move it away (mine/store)\n"
    )
    assert [path.name for path in (newcomer.directory / "mine").rglob("*")] == ["store", "letter"]


def test_a_place_that_cannot_be(newcomer: Newcomer) -> None:
    done = newcomer.demo("no/such")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("kafkafs: its parent no does not exist; make that first (no/such)\n")
    (newcomer.directory / "file").write_text("mine")
    done = newcomer.demo("file")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "kafkafs: file/store: Not a directory\n"
