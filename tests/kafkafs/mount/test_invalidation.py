"""How many logs are looked at for what the kernel keeps of them, however many it has heard of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyfuse3
import trio
import trio.testing

from kafkafs.locator.offsets import parse_offset_name
from kafkafs.locator.paths import OffsetPath, PartitionPath, RootPath, TopicPath
from kafkafs.mount import inodes
from kafkafs.mount.inodes import Inodes
from kafkafs.mount.invalidation import WATCHED_MAX, Watcher
from kafkafs.tree.node import Attributes, Directory

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    import pytest

    from kafkafs.locator.paths import LogPath
    from kafkafs.mount.inodes import Inode

LOGS = 3 * WATCHED_MAX


class Root(Directory):
    def names(self) -> Iterator[str]:
        return iter(())


class Watched:
    """A kernel that knows a record of each log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looked_at: list[LogPath] = []
        self.dropped: list[int] = []
        self.inodes = Inodes(Root(RootPath()), Attributes())
        self.watcher = Watcher(self.inodes, self.footing)
        monkeypatch.setattr(pyfuse3, "invalidate_entry", lambda *_: None)
        monkeypatch.setattr(pyfuse3, "invalidate_inode", self.dropped.append)

    def footing(self, path: LogPath) -> Hashable:
        self.looked_at.append(path)
        return 1

    def list_record(self, number: int) -> Inode:
        log = PartitionPath(TopicPath("t"), number)
        self.watcher.begin(log)
        path = OffsetPath(log, parse_offset_name("0"))
        return self.inodes.listed(self.inodes[pyfuse3.ROOT_INODE], "0", path, 1, Attributes(is_lasting=True))

    def look(self) -> list[LogPath]:
        self.looked_at.clear()
        trio.run(self.watcher.look)
        return list(self.looked_at)


def test_only_the_last_logs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    files = [watched.list_record(number) for number in range(LOGS)]
    last = [inode.log for inode in files[-WATCHED_MAX:]]
    assert sorted(watched.look(), key=str) == sorted(last, key=str)
    assert watched.dropped == [inode.key for inode in files[:-WATCHED_MAX]]
    for inode in files[:-WATCHED_MAX]:
        watched.inodes.forget(inode.key, 1)
    for _ in range(2):
        assert len(watched.look()) == WATCHED_MAX
    assert len(watched.dropped) == LOGS - WATCHED_MAX


def test_what_the_kernel_does_not_forget_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open."""
    watched = Watched(monkeypatch)
    files = [watched.list_record(number) for number in range(WATCHED_MAX + 1)]
    watched.look()
    for _ in range(2):
        assert files[0].log in watched.look()
    assert watched.dropped == [files[0].key], "it is told once"


def test_nothing_is_kept_of_logs_that_the_kernel_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    for number in range(LOGS):
        watched.inodes.forget(watched.list_record(number).key, 1)
    for _ in range(2):
        watched.look()
    watched.looked_at.clear()
    watched.list_record(0)
    assert len(watched.looked_at) == 1, "it is found as it is now"


class Open:
    """An open stream, which knows how often it was asked for its size."""

    def __init__(self) -> None:
        self.asked = 0

    def size_bytes(self) -> int:
        self.asked += 1
        return 0


def test_a_file_that_is_closed_during_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look lets others work while the kernel is told what to forget."""
    watched = Watched(monkeypatch)
    files = [watched.list_record(number) for number in range(WATCHED_MAX + 1)]
    reading = Open()
    followed = SimpleNamespace(log=files[0].log, readings=[reading], tail=None)
    monkeypatch.setattr(watched.inodes, "followed", lambda: [followed])
    monkeypatch.setattr(pyfuse3, "invalidate_inode", lambda _: followed.readings.clear())
    watched.look()
    assert followed.readings == []
    assert reading.asked == 1


def test_a_look_that_fails_is_logged_once_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched, looks = Watched(monkeypatch), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            ended.cancel()
        raise IndexError

    async def run() -> None:
        with ended:
            await watched.watcher.run()

    ended = trio.CancelScope()
    monkeypatch.setattr(watched.watcher, "look", look)
    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
    assert looks == 4
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


def test_the_kernel_is_let_know_so_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges have any number of names, and each name that is looked up takes memory until the kernel forgets it."""
    monkeypatch.setattr(inodes, "FILES_MAX", 100)
    monkeypatch.setattr(inodes, "_SURPLUS_MAX", 30)
    watched = Watched(monkeypatch)
    log = PartitionPath(TopicPath("t"), 0)
    names = [f"0..{number}" for number in range(150)]
    paths = [OffsetPath(log, parse_offset_name(name)) for name in names]
    root = watched.inodes[pyfuse3.ROOT_INODE]
    files = [watched.inodes.listed(root, name, path, 1, Attributes()) for name, path in zip(names, paths, strict=True)]
    files[3].readings.append(Open())
    watched.watcher.begin(log)
    watched.look()
    oldest = [inode.key for inode in files if inode is not files[3]]
    assert watched.dropped == oldest[:30]
    for key in oldest[1:30]:  # the kernel does not forget the first: a process has it open
        watched.inodes.forget(key, 1)
    watched.look()
    assert watched.dropped == oldest[:52]
    for key in oldest[30:52]:
        watched.inodes.forget(key, 1)
    watched.look()
    assert len(watched.dropped) == 52
