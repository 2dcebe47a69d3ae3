"""A bound directory is missing once its path leads to another one, and is there again once it leads back."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import SymbolicLinkError
from storage.files import Files, OverlayDirectory, bound, real
from storage.log import FollowedLog

if TYPE_CHECKING:
    from storage.files import Directory
    from storage.files.real import RealDirectory


@pytest.fixture
def partition(tmp_path: Path) -> Directory:
    for number in range(2):
        (tmp_path / "store" / f"t-{number}").mkdir(parents=True)
        (tmp_path / "store" / f"t-{number}" / "file").write_bytes(b"%d" % number)
    return bound(Files().add_root(tmp_path / "store").at("t-0"))


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def exchange(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "t-0").rename(store / "other")
    (store / "t-1").rename(store / "t-0")
    (store / "other").rename(store / "t-1")


def test_it_is_missing_while_another_is_at_its_path(partition: Directory, tmp_path: Path) -> None:
    assert partition.read("file") == b"0"
    assert bound(partition) is partition
    exchange(tmp_path)
    assert (partition.own_status(), partition.status("file"), partition.exists()) == (None, None, False)
    for use in (partition.read, partition.open_writing, partition.remove, lambda _: partition.names()):
        with pytest.raises(FileNotFoundError, match="another directory is at its path"):
            use("file")
    with partition.held(), pytest.raises(FileNotFoundError):
        partition.read("file")
    assert OverlayDirectory(partition).status("file") is None
    assert (tmp_path / "store" / "t-0" / "file").read_bytes() == b"1"
    exchange(tmp_path)
    assert partition.read("file") == b"0"


def test_it_is_bound_to_the_other_one_when_that_is_asked_for(partition: Directory, tmp_path: Path) -> None:
    exchange(tmp_path)
    other = bound(partition)
    assert other is not partition
    assert other == partition, "of one path"
    assert other.read("file") == b"1"
    assert pickle.loads(pickle.dumps(partition)).read("file") == b"1", "another process goes by the path"


def test_one_that_was_held_stays_the_same_until_the_block_ends(partition: Directory, tmp_path: Path) -> None:
    with partition.held():
        exchange(tmp_path)
        assert partition.read("file") == b"0"
    assert partition.status("file") is None


def test_a_missing_one_stays_missing(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    missing = bound(Files().add_root(tmp_path / "store").at("t-0"))
    assert not missing.exists()
    (tmp_path / "store" / "t-0").mkdir()
    assert not missing.exists()
    assert bound(missing).exists()


def test_one_that_cannot_be_entered_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    (store / "t-0").mkdir(parents=True)
    (store / "t-1").symlink_to(store / "t-0")
    (store / "t-2").write_bytes(b"")
    root = Files().add_root(store)
    with pytest.raises(SymbolicLinkError):
        bound(root.at("t-1")).names()
    with pytest.raises(NotADirectoryError):
        bound(root.at("t-2")).names()
    log = FollowedLog(Clock(), root.at("t-0"), TopicConfig.resolve({}), producer_expiration_ms=0)
    monkeypatch.setattr(real.RealDirectory, "enter", refuse)
    with pytest.raises(PermissionError):
        bound(root.at("t-0")).names()
    for each in (log, FollowedLog(Clock(), root.at("t-0"), TopicConfig.resolve({}), producer_expiration_ms=0)):
        with pytest.raises(PermissionError):
            _ = each.view


def refuse(directory: RealDirectory) -> int:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), directory.path)


def test_descriptors_are_closed(partition: Directory, tmp_path: Path) -> None:
    before = open_descriptors()
    exchange(tmp_path)
    for _ in range(3):
        assert partition.status("file") is None
        assert bound(partition).exists()
    assert open_descriptors() == before
