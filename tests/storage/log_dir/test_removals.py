"""What is to be removed is removed when it is due, however often it is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.files import Files
from storage.log_dir.removals import Removals
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles


def tree() -> MemoryFiles:
    files = MemoryFiles()
    for path in ("/t-0", "/t-0/kept"):
        files.make_directory(path)
    for path in ("/t-0/a", "/t-0/b", "/t-0/kept/c"):
        files.open_writing(path, create=True).close()
    return files


def test_when_something_is_due() -> None:
    removals = Removals(tree())
    removals.add(Path("/t-0"), 100)
    removals.add(Path("/t-0"), 200)
    assert removals.due(99) == []
    assert removals.due(100) == [Path("/t-0")]


def test_files_are_due_when_the_last_of_their_name_is() -> None:
    files = tree()
    removals = Removals(files)
    removals.add_files([Path("/t-0/a"), Path("/t-0/b")], 100)
    removals.add_files([Path("/t-0/a")], 200)
    assert removals.due(199) == [Path("/t-0/b")]
    removals.remove(Path("/t-0/b"))
    removals.remove_files()
    assert sorted(files.names("/t-0")) == ["kept"]
    assert removals.due(2**62) == []


def test_one_file_that_cannot_be_removed_keeps_no_other() -> None:
    files = tree()
    removals = Removals(files)
    removals.add_files([Path("/t-0/a"), Path("/t-0/gone"), Path("/t-0/b")], 100)
    files.cut = Cut(files.steps, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        removals.remove_files()
    assert sorted(files.names("/t-0")) == ["a", "kept"]
    assert removals.due(100) == [Path("/t-0/a")]


def test_what_is_gone_is_removed() -> None:
    removals = Removals(MemoryFiles())
    removals.add(Path("/t-0"), 0)
    removals.remove(Path("/t-0"))
    assert removals.due(0) == []


@pytest.mark.parametrize("step", range(5))
def test_a_removal_that_fails_is_still_due(step: int) -> None:
    files = tree()
    removals = Removals(files)
    removals.add(Path("/t-0"), 0)
    files.cut = Cut(files.steps + step, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        removals.remove(Path("/t-0"))
    assert removals.due(0) == [Path("/t-0")]
    removals.remove(Path("/t-0"))
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
    removals = Removals(Files())
    removals.remove(partition)
    removals.remove(tmp_path / "t-1")
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert (kept / "precious").read_bytes() == b"x"
