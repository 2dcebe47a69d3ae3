"""A partition that is moved to another log directory is served there, by its names and by open files."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.content.held_files import HeldFiles
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.errors import StorageError
from storage.files import Files
from storage.log.log import Log
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkafs.locator.paths import LogPath
    from kafkafs.tree.log_source import LogSource
    from storage.log_dir.log_dir import Listing

SETTINGS = {"segment.bytes": "3000", "segment.index.bytes": "1200"}
ALL_BYTES = 10**7


class Moving:
    """A store of two log directories, whose partition others write and move."""

    def __init__(self, directory: Path) -> None:
        self.paths = [directory / "d1", directory / "d2"]
        self.clock = Passing()
        self.written = 0
        with Store.create(self.paths, files=Files(), clock=self.clock) as store:
            store.topics.create("orders", 1, SETTINGS)
        self.append(40)
        self.store = self.opened(Mode.READ_ONLY)
        self.tree = tree(self.store, self.clock)

    def opened(self, mode: Mode) -> Store:
        return Store.open(self.paths, mode=mode, files=Files(), clock=self.clock)

    @property
    def place(self) -> Path:
        (found,) = [path for path in self.paths if (path / "orders-0").exists()]
        return found

    def append(self, count: int) -> None:
        with self.opened(Mode.READ_WRITE) as store:
            log = store.log("orders", 0)
            assert isinstance(log, Log)
            for number in range(self.written, self.written + count):
                log.append_as_leader(sent(b"%04d" % number * 100, key=b"key"))
        self.written += count

    def move(self) -> None:
        """Move it as `mv` does within one file system."""
        (other,) = set(self.paths) - {self.place}
        (self.place / "orders-0").rename(other / "orders-0")

    def copy_over(self) -> None:
        """Move it as `mv` does between two file systems, and as far as the store is concerned a broker does."""
        (other,) = set(self.paths) - {self.place}
        here = self.place / "orders-0"
        shutil.copytree(here, other / "orders-0")
        self.file("values").attributes()  # a look while there are two
        for path in sorted(here.iterdir(), reverse=True):
            path.unlink()
            self.clock.pass_s(1)
            with suppress(NotThereError, StorageError, OSError):  # for a moment it need not be there
                self.file("values").attributes()
        here.rmdir()

    def take_away(self) -> None:
        """Move it out of the store."""
        (self.place / "orders-0").rename(self.away)

    @property
    def away(self) -> Path:
        return self.paths[0].parent / "elsewhere"

    def file(self, name: str, *, after_s: float = 1) -> File:
        self.clock.pass_s(after_s)
        file = self.tree.node(parse_path(f"orders/0/{name}", self.store.topics.inventory.topics))
        assert isinstance(file, File)
        return file


class Passing(StandingClock):
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.s = 0.0

    def elapsed_s(self) -> float:
        return self.s

    def pass_s(self, seconds: float) -> None:
        self.s += seconds


def tree(store: Store, clock: StandingClock) -> Tree:
    return Tree(store, TreeOptions(), clock=clock, sizes=SizeCache(Files(), None), control=ControlNodes())


def values(first: int, last: int) -> bytes:
    return b"".join(b"%04d" % number * 100 + b"\n" for number in range(first, last))


MOVES: list[Callable[[Moving], None]] = [Moving.move, Moving.copy_over]


@pytest.mark.parametrize("move", MOVES)
def test_what_is_open_goes_on_in_the_new_place(tmp_path: Path, move: Callable[[Moving], None]) -> None:
    moving = Moving(tmp_path)
    reading, record = moving.file("values").open(), moving.file("offset/7").open()
    run = moving.file("offset/all").open()
    assert bytes(reading.read(0, ALL_BYTES)) == values(0, 40)
    for count in (1, 60):
        move(moving)
        assert reading.size_bytes() == len(values(0, moving.written)), (
            "it is not looked for yet, and nothing is missing"
        )
        moving.append(count)
        whole = values(0, moving.written)
        now = moving.file("values")
        assert bytes(now.open().read(0, ALL_BYTES)) == whole
        assert reading.size_bytes() == len(whole)
        assert bytes(reading.read(len(whole) - 401 * count, ALL_BYTES)) == values(
            moving.written - count, moving.written
        )
        assert bytes(moving.tree.node(now.path).open().read(0, 401)) == values(0, 1)  # type: ignore[attr-defined]
        assert bytes(record.read(0, 1000)) == b"0007" * 100
        assert bytes(moving.file("offset/7").open().read(0, 1000)) == b"0007" * 100
        if move is Moving.move:
            assert bytes(run.read(0, ALL_BYTES)) == values(0, 40)
    reading.close()
    assert f"directory={moving.place}/orders-0\n" in bytes(moving.file("info").open().read(0, 10_000)).decode()


def test_a_move_within_a_file_system_is_no_other_content(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    before = moving.file("values")
    before.attributes()
    moving.move()
    after = moving.file("values")
    assert (after.identity, after.lineage) == (before.identity, before.lineage)


def test_what_others_moved_in_a_store_that_is_written_is_opened_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moving = Moving(tmp_path)
    with moving.opened(Mode.READ_WRITE) as store:
        assert store.log("orders", 0).view.end_offset == 40
        moving.move()
        store.refresh()
        log = store.log("orders", 0)
        assert isinstance(log, Log)
        log.append_as_leader(sent(b"here"))
        assert log.view.end_offset == 41
        assert f"orders-0 was moved to {moving.place}" in caplog.text
    moving.written = 41
    assert moving.store.log("orders", 0) is not None


def test_a_move_is_not_seen_before_the_next_look_either(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    names = ("values", "offset/7", "offset/3..9", "by-time/..now", "segments/partition.metadata", "info")
    moving.store.refresh()
    moving.store.refresh()  # what is unchanged for two looks is not looked at again without need
    nodes = [moving.file(name) for name in names]
    whole = [bytes(node.open().read(0, ALL_BYTES)) for node in nodes]
    reading, run = nodes[0].open(), nodes[2].open()
    for _ in range(3):
        moving.move()
        assert bytes(run.read(0, ALL_BYTES)) == values(3, 9)
        moving.move()
        assert reading.size_bytes() == len(values(0, 40))
        assert bytes(reading.read(0, ALL_BYTES)) == values(0, 40)
        for name, node, before in zip(names, nodes, whole, strict=True):
            moving.move()
            assert node.attributes().size_bytes == len(bytes(node.open().read(0, ALL_BYTES)))
            moving.move()
            found = bytes(moving.file(name, after_s=0).open().read(0, ALL_BYTES))
            assert found == before or name == "info"
        moving.move()
        segments = moving.tree.node(parse_path("orders/0/segments", ()))
        assert "partition.metadata" in segments.names()  # type: ignore[attr-defined]


def test_what_was_moved_while_the_log_dirs_were_looked_at_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving = Moving(tmp_path)
    reading = moving.file("values").open()
    moving.move()
    moving.file("values")
    assert moving.place == moving.paths[1]
    scan = moving.store.log_dirs[0].scan

    def scan_and_move() -> Listing:
        """The first log dir is looked at, and then the partition comes into it."""
        found = scan()
        if moving.place == moving.paths[1]:
            moving.move()
        return found

    monkeypatch.setattr(moving.store.log_dirs[0], "scan", scan_and_move)
    assert bytes(moving.file("offset/7").open().read(0, 1000)) == b"0007" * 100
    assert bytes(reading.read(0, ALL_BYTES)) == values(0, 40)
    assert "gone" not in caplog.text


def test_who_follows_a_partition_that_was_away_goes_on_where_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moving = Moving(tmp_path)
    reading, size = moving.file("values").open(), len(values(0, 40))
    assert reading.size_bytes() == size
    for place in (moving.paths[0], moving.paths[1]):
        moving.take_away()
        for _ in range(2):
            with pytest.raises(NotThereError):
                moving.file("values")
            assert reading.size_bytes() == size, "nothing new, and nothing less"
            assert bytes(reading.read(0, ALL_BYTES)) == values(0, moving.written), "the files are held"
        moving.away.rename(place / "orders-0")
        moving.append(10)
        size = len(values(0, moving.written))
        moving.clock.pass_s(1)
        assert reading.size_bytes() == size
        assert bytes(reading.read(size - 401 * 10, ALL_BYTES)) == values(moving.written - 10, moving.written)
        assert bytes(moving.file("values").open().read(0, ALL_BYTES)) == values(0, moving.written)
    assert caplog.text.count("orders-0 is gone from") == 2
    assert caplog.text.count("orders-0 is back, in") == 2


def test_a_partition_that_comes_back_file_by_file_is_waited_for(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    reading, size = moving.file("values").open(), len(values(0, 40))
    assert reading.size_bytes() == size
    moving.take_away()
    with pytest.raises(NotThereError):
        moving.file("values")
    (moving.paths[1] / "orders-0").mkdir()
    for path in sorted(moving.away.iterdir()):
        shutil.copy2(path, moving.paths[1] / "orders-0")
        moving.clock.pass_s(1)
        moving.tree.context.sources.refresh()
        assert reading.size_bytes() == size
    moving.append(10)
    moving.clock.pass_s(1)
    moving.tree.context.sources.refresh()
    size += 401 * 10
    assert reading.size_bytes() == size
    assert bytes(reading.read(size - 401 * 10, ALL_BYTES)) == values(40, 50)


def test_another_topic_of_the_same_name_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moving = Moving(tmp_path)
    reading, size = moving.file("values").open(), len(values(0, 40))
    assert reading.size_bytes() == size
    moving.take_away()
    with pytest.raises(NotThereError):
        moving.file("values")
    with moving.opened(Mode.READ_WRITE) as store:
        store.topics.create("orders", 1, SETTINGS)
    moving.written = 0
    moving.append(60)
    assert bytes(moving.file("values").open().read(0, ALL_BYTES)) == values(0, 60)
    assert reading.size_bytes() == size
    assert bytes(reading.read(size, ALL_BYTES)) == b""
    assert bytes(reading.read(0, ALL_BYTES)) == values(0, 40), "what is held is that of the one before"
    assert caplog.text.count("another topic of the same name") == 1
    reading.close()


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("move", MOVES)
def test_an_open_range_goes_on_after_every_move(
    tmp_path: Path, move: Callable[[Moving], None], monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    if not is_held:
        monkeypatch.setattr(HeldFiles, "want", lambda *_, **__: None)
    moving = Moving(tmp_path)
    names = ("offset/all", "by-time/..now", "offset/all.batch")
    runs = [moving.file(name).open() for name in names]
    whole = [bytes(moving.file(name).open().read(0, ALL_BYTES)) for name in names]
    for _ in range(3):
        assert [bytes(run.read(0, ALL_BYTES)) for run in runs] == whole
        for run in runs:
            run._rendered.close()  # type: ignore[attr-defined] -- as if more were read meanwhile than is kept
        move(moving)
        assert [bytes(run.read(3000, 5000)) for run in runs] == [each[3000:8000] for each in whole]
        for run in runs:
            run._rendered.close()  # type: ignore[attr-defined]
    for run in runs:
        run.close()


def test_another_thread_may_be_the_first_to_notice_a_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moving = Moving(tmp_path)
    path = moving.file("values").path.log
    sources = moving.tree.context.sources
    look_up = sources._get
    (moving.place / "orders-0").rename(moving.away)
    moving.store.refresh()

    def noticed_meanwhile(path: LogPath) -> LogSource:
        monkeypatch.undo()
        try:
            return look_up(path)
        finally:
            moving.away.rename(moving.paths[0] / "orders-0")
            moving.store.refresh()  # by the other thread

    monkeypatch.setattr(sources, "_get", noticed_meanwhile)
    assert sources.get(path).directory == moving.paths[0] / "orders-0"
