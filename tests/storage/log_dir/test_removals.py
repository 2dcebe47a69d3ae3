"""What is to be removed is removed when it is due, however often it is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.files import Files
from storage.log_dir.removals import Doomed, Removals
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from pathlib import Path


def tree() -> MemoryFiles:
    files = MemoryFiles()
    for path in ("/t-0", "/t-0/kept"):
        files.make_directory(path)
    for path in ("/t-0/a", "/t-0/b", "/t-0/kept/c"):
        files.open_writing(path, create=True).close()
    return files


def partition_of(files: MemoryFiles) -> Doomed:
    return Doomed(files.directory("/"), "t-0")


def files_in_partition(files: MemoryFiles, *names: str) -> list[Doomed]:
    return [Doomed(files.directory("/t-0"), name) for name in names]


def test_when_something_is_due() -> None:
    removals = Removals()
    files = tree()
    removals.add(partition_of(files), 100)
    removals.add(partition_of(files), 200)
    assert removals.due(99) == []
    assert removals.due(100) == [partition_of(files)]


def test_files_are_due_when_the_last_of_their_name_is() -> None:
    files = tree()
    removals = Removals()
    removals.add_files(files_in_partition(files, "a", "b"), 100)
    removals.add_files(files_in_partition(files, "a"), 200)
    assert removals.due(199) == files_in_partition(files, "b")
    removals.remove(*files_in_partition(files, "b"))
    removals.remove_files()
    assert sorted(files.names("/t-0")) == ["kept"]
    assert removals.due(2**62) == []


def test_one_file_that_cannot_be_removed_keeps_no_other() -> None:
    files = tree()
    removals = Removals()
    removals.add_files(files_in_partition(files, "a", "gone", "b"), 100)
    files.cut = Cut(files.steps, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        removals.remove_files()
    assert sorted(files.names("/t-0")) == ["a", "kept"]
    assert removals.due(100) == files_in_partition(files, "a")


def test_what_is_gone_is_removed() -> None:
    removals = Removals()
    gone = partition_of(MemoryFiles())
    removals.add(gone, 0)
    removals.remove(gone)
    assert removals.due(0) == []


@pytest.mark.parametrize("step", range(5))
def test_a_removal_that_fails_is_still_due(step: int) -> None:
    files = tree()
    removals = Removals()
    removals.add(partition_of(files), 0)
    files.cut = Cut(files.steps + step, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        removals.remove(partition_of(files))
    assert removals.due(0) == [partition_of(files)]
    removals.remove(partition_of(files))
    assert files.names("/") == []
    assert removals.due(0) == []


def test_what_links_lead_to_stays(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "precious").write_bytes(b"x")
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "directory").symlink_to(kept)
    (partition / "file").symlink_to(kept / "precious")
    (tmp_path / "t-1").symlink_to(kept)
    removals = Removals()
    for name in ("t-0", "t-1"):
        removals.remove(Doomed(Files().directory(tmp_path), name))
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert (kept / "precious").read_bytes() == b"x"
