"""Indexes open for reading, while a live broker appends to, trims, truncates, replaces or deletes their files."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from path_files import PathFiles

from storage.errors import CorruptIndexError
from storage.files import Files, ReadableFile
from storage.segment.index.offset import OffsetIndexReader
from storage.segment.index.time import TimeIndexReader
from storage.segment.index.zero_tail import probe_used_slots, used_slots
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = 1000
FULL_BYTES = 10485760


def entry(number: int) -> bytes:
    return struct.pack(">ii", number * 10, number * 4096)


def entries(count: int, start: int = 1) -> list[tuple[int, int]]:
    return [(BASE + number * 10, number * 4096) for number in range(start, start + count)]


class Broker:
    """Somebody else's process, which does to an index file what a broker does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        os.truncate(path, FULL_BYTES)
        self.count = 0

    def append(self, *raw: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(self.count * 8)
            file.write(b"".join(raw))
        self.count += len(raw)

    def trim(self) -> None:
        os.truncate(self.path, self.count * 8)


class WatchedFiles(PathFiles):
    """Notes what is read, and lets something happen whenever a file is about to be opened."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.opened = 0
        self.before_opening: Callable[[int], object] = int

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        self.before_opening(self.opened)
        self.opened += 1
        return WatchedFile(self, os.fspath(path), os.open(path, os.O_RDONLY | os.O_CLOEXEC))


class WatchedFile(ReadableFile):
    def __init__(self, files: WatchedFiles, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self.files = files

    def read_at(self, position: int, size_bytes: int) -> bytes:
        data = super().read_at(position, size_bytes)
        self.files.read_bytes += len(data)
        return data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE:020}.index"


def test_what_a_broker_appends_is_seen_by_a_refresh(path: Path) -> None:
    broker = Broker(path)
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert (index.lookup(BASE + 99), index.entries_count, index.ignored_slots) == ((BASE, 0), 0, FULL_BYTES // 8)
    known = 0
    for more in (1, 1, 2, 5, 300, 1500):
        broker.append(*(entry(known + number) for number in range(1, more + 1)))
        assert list(index) == entries(known)
        assert index.refresh()
        assert not index.refresh()
        known += more
        assert list(index) == entries(known)
        assert index.last_offset == BASE + known * 10
        assert index.ignored_slots == FULL_BYTES // 8 - known
        assert index.loaded_bytes == known * 8
    broker.trim()
    assert not index.refresh()
    assert index.ignored_slots == 0
    assert list(index) == entries(known)


def test_nothing_about_the_file_changes(path: Path) -> None:
    broker = Broker(path)
    broker.append(entry(1), entry(2))
    before, contents = path.stat(), path.read_bytes()
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    index.lookup(BASE + 15)
    index.check()
    index.refresh()
    index.unload()
    assert list(index) == entries(2)
    index.unload()
    after = path.stat()
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_size, after.st_blocks, after.st_ino) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_size,
        before.st_blocks,
        before.st_ino,
    )
    assert path.read_bytes() == contents


def test_no_operation_that_changes_something_is_even_tried() -> None:
    files = MemoryFiles()
    with files.open_writing("/x.timeindex", create=True) as file:
        file.write_at(0, [struct.pack(">qi", 5, 1), bytes(1200)])
    steps = files.steps
    index = TimeIndexReader.open(*files.parent("/x.timeindex"), 0)
    assert (list(index), index.last_entry, index.lookup(9), index.ignored_slots) == ([(5, 1)], (5, 1), (5, 1), 100)
    index.check()
    index.refresh()
    index.unload()
    assert files.steps == steps


def test_what_was_read_survives_truncation_and_deletion(path: Path) -> None:
    broker = Broker(path)
    broker.append(*(entry(number) for number in range(1, 2001)))
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert index.lookup(BASE + 20000) == (BASE + 20000, 2000 * 4096)
    os.truncate(path, 0)
    assert index.lookup(BASE + 20000) == (BASE + 20000, 2000 * 4096)
    assert list(index) == entries(2000)
    path.unlink()
    assert list(index) == entries(2000)
    assert not index.refresh()
    assert list(index) == entries(2000)
    assert index.lookup(BASE + 9) == (BASE, 0)
    index.unload()
    assert index.lookup(BASE + 20000) == (BASE, 0)  # where to begin, for who knows nothing better
    assert (index.entries_count, list(index)) == (0, [])


def test_a_truncation_is_seen_by_a_refresh(path: Path) -> None:
    broker = Broker(path)
    broker.append(entry(1), entry(2), entry(3))
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert index.entries_count == 3
    os.truncate(path, 12)
    assert index.refresh()
    assert list(index) == entries(1)
    with pytest.raises(CorruptIndexError, match="12 bytes"):
        index.check()


def test_other_entries_in_the_same_place_are_seen_by_a_refresh(path: Path) -> None:
    broker = Broker(path)
    broker.append(entry(1), entry(2), entry(3))
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert list(index) == entries(3)
    broker.count = 1  # what a follower does when its leader has another log: it cuts, and goes on
    broker.append(entry(7), entry(8), entry(9))
    assert index.refresh()
    assert list(index) == [*entries(1), *entries(3, start=7)]


def test_an_entry_that_was_half_written_is_whole_after_a_refresh(path: Path) -> None:
    broker = Broker(path)
    broker.append(entry(1), entry(2)[:4] + bytes(4))
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert list(index) == [*entries(1), (BASE + 20, 0)]
    broker.count = 1
    broker.append(entry(2))
    assert index.refresh()
    assert list(index) == entries(2)


def test_another_file_of_the_same_name_is_seen_by_a_refresh(path: Path, tmp_path: Path) -> None:
    path.write_bytes(entry(1) + entry(2))
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert list(index) == entries(2)
    swap = tmp_path / "x.swap"
    swap.write_bytes(entry(5) + entry(2))
    swap.rename(path)
    assert index.refresh()
    assert list(index) == [*entries(1, start=5), *entries(1, start=2)]


def test_a_file_may_come_later(path: Path) -> None:
    index = OffsetIndexReader.open(*Files().parent(path), BASE)
    assert (index.lookup(BASE + 5), index.entries_count, index.refresh()) == ((BASE, 0), 0, False)
    path.write_bytes(entry(1))
    assert index.refresh()
    assert index.lookup(BASE + 15) == entries(1)[0]


def test_a_million_entries_and_the_last_of_them_without_reading_the_others(tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    count = 870_000
    path.write_bytes(b"".join(struct.pack(">qi", number, number) for number in range(1, count + 1)))
    for tail in (0, 3799):
        os.truncate(path, (count + tail) * 12)
        files = WatchedFiles()
        index = TimeIndexReader.open(*files.parent(path), 0)
        assert files.opened == 0
        assert index.last_entry == (count, count)
        assert index.entries_count == count
        assert files.read_bytes < 600
        assert index.loaded_bytes == 0
        assert index.lookup(77) == (77, 77)
        assert index.loaded_bytes == count * 12
        index.unload()
        assert index.loaded_bytes == 0
        assert index.lookup(78) == (78, 78)


def test_no_descriptor_is_kept(path: Path) -> None:
    path.write_bytes(entry(1))
    directory, name = Files().parent(path)
    assert directory.status(name)  # which opens the directory for good
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    indexes = [OffsetIndexReader.open(directory, name, BASE) for _ in range(20)]
    assert {index.lookup(BASE + 10) for index in indexes} == {entries(1)[0]}
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208


def test_more_than_the_limit_is_refused(path: Path) -> None:
    path.write_bytes(b"".join(entry(number) for number in range(1, 101)) + bytes(8000))
    assert OffsetIndexReader.open(*Files().parent(path), BASE, limit_bytes=800).entries_count == 100
    with pytest.raises(CorruptIndexError, match="800 bytes of entries, above the limit of 799") as raised:
        OffsetIndexReader.open(*Files().parent(path), BASE, limit_bytes=799).lookup(BASE)
    assert raised.value.path == str(path)


@pytest.mark.parametrize("opening", [0, 1, 2])
@pytest.mark.parametrize("happening", ["cut", "odd", "grown", "gone"])
def test_whatever_happens_between_two_looks(path: Path, opening: int, happening: str) -> None:
    path.write_bytes(b"".join(entry(number) for number in range(1, 6)) + bytes(80))

    def happen(number: int) -> None:
        if number != opening:
            return
        if happening == "gone":
            path.unlink()
        elif happening == "grown":
            with path.open("r+b") as file:
                file.seek(40)
                file.write(entry(6))
        else:
            os.truncate(path, 16 if happening == "cut" else 19)

    files = WatchedFiles()
    files.before_opening = happen
    index = OffsetIndexReader.open(*files.parent(path), BASE)
    for _ in range(3):
        found = list(index)
        assert found in (entries(5), entries(2), entries(6), [])
        assert index.lookup(BASE + 35) == max((e for e in found if e[0] <= BASE + 35), default=(BASE, 0))
        assert index.entries_count == len(found)
        assert index.last_offset == (found[-1][0] if found else BASE)
        index.refresh()
    expected = {"cut": entries(2), "odd": entries(2), "grown": entries(6)}
    if happening in expected:
        assert list(index) == expected[happening]
    assert files.opened > opening


@pytest.mark.property
@given(st.integers(0, 300), st.integers(0, 70_000), st.data())
def test_both_ways_of_finding_the_tail_agree(used: int, tail: int, data: st.DataObject) -> None:
    files = MemoryFiles()
    known = data.draw(st.integers(0, used))
    with files.open_writing("/x", create=True) as file:
        file.write_at(0, [struct.pack(">ii", 256, 0) * used, bytes(tail * 8 + data.draw(st.integers(0, 7)))])
        assert used_slots(file, used + tail, 8) == used
        assert probe_used_slots(file, used + tail, 8, known) == used


def test_a_cold_lookup_opens_the_file_once(path: Path) -> None:
    broker, files = Broker(path), WatchedFiles()
    broker.append(entry(1), entry(2))
    index = OffsetIndexReader.open(*files.parent(path), BASE)
    assert index.lookup(BASE + 15) == (BASE + 10, entries(1)[0][1])
    assert files.opened == 1
    index.unload()
    assert list(index) == entries(2)
    assert files.opened == 2
