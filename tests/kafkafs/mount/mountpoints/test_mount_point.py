"""Of several processes that mount at one directory one does, and none takes the directory from under another."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints import mount_point as module
from kafkafs.mount.mountpoints.mount_point import check_mount_point, claimed, mount_point

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("file", "is not a directory"),
        ("full", "is not empty"),
        ("none/mnt", "make that first"),
        ("store/mnt", "is in the store itself"),
        ("loop", "Too many levels of symbolic links"),
        ("dangling", "is not a directory"),
        ("mnt", ""),
        ("empty", ""),
    ],
)
def test_a_look_before_changes_nothing(tmp_path: Path, place: str, sentence: str) -> None:
    (tmp_path / "file").touch()
    for name in ("full", "store", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("gone")
    before = sorted(tmp_path.rglob("*"))
    if sentence:
        with pytest.raises(MountError, match=sentence):
            check_mount_point(tmp_path / place, [tmp_path / "store"])
    else:
        check_mount_point(tmp_path / place, [tmp_path / "store"])
    assert sorted(tmp_path.rglob("*")) == before


def test_one_process_at_a_time_mounts_at_a_place(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(MountError, match="another process mounts there just now"),
        claimed(tmp_path),
    ):
        pass
    with claimed(tmp_path):
        pass


def test_a_place_that_was_removed_is_not_mounted_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "mnt"
    with pytest.raises(MountError, match="has removed it: try again"), claimed(place):
        pass
    place.mkdir()
    real = fcntl.flock

    def remove_first(descriptor: int, operation: int) -> None:
        place.rmdir()
        real(descriptor, operation)

    monkeypatch.setattr(module.fcntl, "flock", remove_first)
    with pytest.raises(MountError, match="has removed it: try again"), claimed(place):
        pass


def test_one_that_another_process_mounts_at_is_not_removed(tmp_path: Path) -> None:
    place = tmp_path / "mnt"
    with mount_point(place, [tmp_path / "store"]):
        descriptor = os.open(place, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert place.is_dir()
    os.close(descriptor)


def test_one_that_is_not_empty_any_more_stays(tmp_path: Path) -> None:
    place = tmp_path / "mnt"
    with mount_point(place, [tmp_path / "store"]):
        (place / "file").touch()
    assert (place / "file").exists()
