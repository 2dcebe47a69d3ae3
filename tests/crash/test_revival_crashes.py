"""A revival is cut at every step: run again, it ends with the same log directories. Its sources stay as they are."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import pytest
from memory_logs import StandingClock
from replica_directories import ReplicaDirectory, Written

from kafkafs.revive import Choice, Making, make_plan, read_cluster, read_disks, revive
from storage.errors import NotAStoreError
from storage.ids import format_id
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from conftest import Crashes

    from storage.files import Directory

pytestmark = pytest.mark.crash

SOURCES: Final = (Path("/one"), Path("/two"))
TARGETS: Final = (Path("/new/d1"), Path("/new/d2"))
TOPIC_ID: Final = UUID(int=1 << 99)


@dataclass
class Revival:
    """Disks of two dead brokers, one of them damaged, and the run that makes one of them."""

    files: MemoryFiles = field(default_factory=MemoryFiles)

    def run(self) -> None:
        clock = StandingClock()
        disks = read_disks(self.files, SOURCES)
        cluster, _ = read_cluster(disks, clock)
        plan = make_plan(disks, cluster, Choice(), lambda *_: None)
        making = Making(log_dirs=TARGETS, node_id=1, level=21, links=True, server_properties={})
        entropy = random.Random(4).randbytes
        revive(plan, making, self.files, clock, advance=lambda *_: None, entropy=entropy)

    def tree(self, roots: tuple[Path, ...]) -> dict[str, bytes]:
        """Return the bytes of every file below some directories, less the locks."""
        found: dict[str, bytes] = {}

        def walk(directory: Directory) -> None:
            for name, status in directory.statuses().items():
                if status.is_directory:
                    walk(directory.at(name))
                elif name != ".lock":
                    found[directory.path_of(name)] = directory.read(name)

        for root in roots:
            walk(self.files.directory(str(root)))
        return found


def prepared() -> Revival:
    revival = Revival()
    files = revival.files
    for path in (*SOURCES, Path("/new")):
        files.make_directory(str(path))
    for log_dir in map(str, SOURCES):
        ReplicaDirectory(files, f"{log_dir}/u-0", [Written(1)] * 3)
        replica = ReplicaDirectory(files, f"{log_dir}/t-0", [Written(1)] * 4)
        replica.directory.replace("partition.metadata", f"version: 0\ntopic_id: {format_id(TOPIC_ID)}".encode())
        if log_dir == "/one":
            replica.damage(1)
            replica.sync()
        files.directory(log_dir).sync()
    files.directory("/").sync()
    files.sync_directory("/new")
    return revival


def test_a_run_that_was_cut_ends_the_same_when_it_is_run_again(crashes: Crashes) -> None:
    whole = prepared()
    before = whole.tree(SOURCES)
    whole.run()
    expected = whole.tree(TARGETS)
    assert whole.tree(SOURCES) == before
    with pytest.raises(NotAStoreError, match="revived here before"):
        whole.run()
    for _, later in crashes.of(prepared, Revival.run):
        for files, _ in later:
            again = Revival(files)
            with suppress(NotAStoreError):  # it was complete, and says so
                again.run()
            assert again.tree(TARGETS) == expected
            assert again.tree(SOURCES) == before
