"""A log directory that is kept open stays the same one, and says when its path leads to another."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Final

import pytest

from storage.errors import SpecialFileError
from storage.files import Files, OverlayDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Directory

BROKER: Final = (1234, 5678)
as_root: Final = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a log directory that is reached by a link, and another one that the link may lead to."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "t-0").mkdir()
    (tmp_path / "store").symlink_to("one")
    return tmp_path / "store"


def exchange(store: Path, name: str) -> None:
    new = store.with_name("new")
    new.symlink_to(name)
    new.rename(store)


def test_what_is_kept_open_stays_the_same_and_knows_when_its_path_does_not_lead_to_it(store: Path) -> None:
    directory = Files().add_root(store)
    assert not directory.is_kept
    with directory.kept(), directory.kept():
        assert directory.is_kept
        exchange(store, "other")
        directory.open_writing("file", create=True).close()
        assert sorted(directory.names()) == ["file", "t-0"]
        assert directory.own_status() is None
        assert directory.at("t-0").own_status() is None
        assert not directory.is_in_place()
        reached = directory.reached_status()
        assert reached is not None
        assert reached.identity[1] == (store.parent / "one").stat().st_ino
        exchange(store, "one")
        assert directory.exists()
        assert directory.is_in_place()
    exchange(store, "other")
    assert directory.names() == []
    assert directory.is_in_place()


def test_a_root_that_is_kept_open_is_returned_again(store: Path) -> None:
    files = Files()
    directory = files.add_root(store)
    with directory.kept():
        assert files.add_root(store) is directory
        assert not pickle.loads(pickle.dumps(directory)).is_kept
    assert files.add_root(store) is not directory


def test_a_lock_keeps_a_directory_open_that_was_kept(store: Path) -> None:
    directory = Files().add_root(store)
    with directory.kept():
        lock = directory.lock(".lock")
    exchange(store, "other")
    assert ".lock" in directory.names()
    lock.release()
    assert directory.names() == []


@pytest.fixture
def linked(store: Path) -> Path:
    """Give the log directory to a user, and put a hard link to a file of root's in it and in a partition."""
    victim = store.parent / "victim"
    victim.write_bytes(b"precious")
    for name in ("one", "one/t-0"):
        os.chown(store.parent / name, *BROKER)
        (store.parent / name / "file").hardlink_to(victim)
    return victim


@as_root
@pytest.mark.parametrize("name", ["", "t-0"])
def test_the_owner_who_counts_is_that_of_the_directory_that_is_kept_open(store: Path, linked: Path, name: str) -> None:
    root = Files().add_root(store)
    with root.kept():
        exchange(store, "other")  # which is root's, as the file is
        directory: Directory = root.at(name) if name else root
        for each in (directory, OverlayDirectory(directory)):
            with pytest.raises(SpecialFileError, match="is a hard link to a file of user 0"):
                each.open_writing("file")
        assert "file" in directory.strangers()
    assert linked.read_bytes() == b"precious"


@as_root
@pytest.mark.usefixtures("linked")
@pytest.mark.parametrize("name", ["", "t-0"])
def test_the_owner_who_counts_is_that_of_the_directory_in_which_the_file_was_opened(
    store: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = Files().add_root(store)
    directory = root.at(name) if name else root
    open_file = os.open

    def exchanging(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        found = open_file(path, flags, mode, dir_fd=dir_fd)
        if path == "file":
            exchange(store, "other")
        return found

    monkeypatch.setattr(os, "open", exchanging)
    with pytest.raises(SpecialFileError, match="is a hard link to a file of user 0"):
        directory.open_reading("file")


@as_root
def test_what_root_makes_is_the_owners_of_the_directory_that_is_kept_open(store: Path) -> None:
    os.chown(store.parent / "one", *BROKER)
    directory = Files().add_root(store)
    with directory.kept():
        exchange(store, "other")
        directory.open_writing("file", create=True).close()
        directory.at("t-1").make()
    for name in ("file", "t-1"):
        found = (store.parent / "one" / name).stat()
        assert (found.st_uid, found.st_gid) == BROKER
