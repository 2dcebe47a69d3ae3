"""Directories with all that is in them are removed at any depth, also while other processes change them."""

from __future__ import annotations

import errno
import inspect
import os
import resource
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from storage.files import Files, removing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEEP: Final = 300
DESCRIPTORS: Final = 8
CALLS: Final = 100


def nest(directory: Path, depth: int) -> None:
    """Make a directory in a directory in a directory, with a file in each."""
    place = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place))
        outside, place = place, os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(outside)
    os.close(place)


@contextmanager
def little_room() -> Iterator[None]:
    """Let this process open a few more files, and call fewer functions in one another than directories are deep."""
    files, calls = resource.getrlimit(resource.RLIMIT_NOFILE), sys.getrecursionlimit()
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + DESCRIPTORS, files[1]))
    sys.setrecursionlimit(len(inspect.stack(0)) + CALLS)
    try:
        yield
    finally:
        sys.setrecursionlimit(calls)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    (tmp_path / "s" / "t-0").mkdir(parents=True)
    return tmp_path / "s" / "t-0"


def test_a_directory_of_any_depth_is_removed(partition: Path) -> None:
    nest(partition, DEEP)
    (partition / "wide").mkdir()
    for name in ("a", "b", "c"):
        (partition / "wide" / name / "below").mkdir(parents=True)
    directory = Files().add_root(partition.parent)
    with little_room():
        directory.remove_tree("t-0")
    assert list(partition.parent.iterdir()) == []


def test_a_directory_of_any_depth_is_entered(partition: Path) -> None:
    nest(partition, DEEP)
    with little_room():
        directory = Files().add_root(partition.parent).at("t-0")
        with directory.kept():
            for _ in range(DEEP // 2):
                directory = directory.at("d")
            assert "file" in directory.names()
    Files().add_root(partition.parent).remove_tree("t-0")


def test_files_and_links_are_removed_and_what_is_not_there_is_an_error(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (partition / "link").symlink_to(tmp_path / "precious")
    (partition.parent / "t-1").symlink_to(tmp_path / "precious")
    (partition.parent / "file").touch()
    directory = Files().add_root(partition.parent)
    for name in ("t-0", "t-1", "file"):
        directory.remove_tree(name)
    with pytest.raises(FileNotFoundError):
        directory.remove_tree("t-0")
    assert list(partition.parent.iterdir()) == []
    assert (tmp_path / "precious" / "file").exists()


@pytest.mark.parametrize("moved", ["t-0/a", "t-0/a/b"])
def test_what_is_moved_elsewhere_leads_to_nothing_there(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    (partition / "a" / "b" / "c").mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    for name in ("a", "b", "c", "precious"):
        (elsewhere / name).mkdir(parents=True)
    (elsewhere / "file").touch()
    names_in = removing.names_in

    def moving(descriptor: int) -> list[str]:
        if names_in(descriptor) == [] and (partition / "a" / "b" / "c").exists():  # c was entered
            (partition.parent / moved).rename(elsewhere / "moved")
        return names_in(descriptor)

    monkeypatch.setattr(removing, "names_in", moving)
    with pytest.raises(OSError, match="the directory was moved while what is in it was removed") as caught:
        Files().add_root(partition.parent).remove_tree("t-0")
    assert caught.value.errno == errno.ESTALE
    assert str(caught.value.filename).startswith(str(partition / "a"))
    assert sorted(path.name for path in elsewhere.iterdir()) == ["a", "b", "c", "file", "moved", "precious"]


def test_a_link_in_the_place_of_a_directory_is_not_entered(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition / "a").mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    is_left = removing._is_left

    def exchanging(place: int, name: str) -> bool:
        found = is_left(place, name)
        if name == "a":
            (partition / "a").rmdir()
            (partition / "a").symlink_to(tmp_path / "precious")
        return found

    monkeypatch.setattr(removing, "_is_left", exchanging)
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- its number says which
        Files().add_root(partition.parent).remove_tree("t-0")
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)
    assert caught.value.filename == str(partition / "a")
    assert (tmp_path / "precious" / "file").exists()


def test_what_others_remove_meanwhile_is_no_error(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (partition / "a" / "b").mkdir(parents=True)
    (partition / "file").touch()
    names_in = removing.names_in

    def faster(descriptor: int) -> list[str]:
        names = names_in(descriptor)
        (partition / "file").unlink(missing_ok=True)
        if names == ["b"]:
            (partition / "a" / "b").rmdir()
        return names

    monkeypatch.setattr(removing, "names_in", faster)
    Files().add_root(partition.parent).remove_tree("t-0")
    assert list(partition.parent.iterdir()) == []
