"""A store is served at a place that is made once the store is held, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from kafkafs.mount import serving
from kafkafs.mount.log import RecentLines
from kafkafs.mount.options import MountOptions
from storage.errors import StoreLockedError

if TYPE_CHECKING:
    from pathlib import Path


def test_who_is_refused_the_store_does_not_touch_the_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(*_: object) -> NoReturn:
        pytest.fail("the mount point was made by a process that does not have the store")

    monkeypatch.chdir(tmp_path)

    def refused(*_: object) -> NoReturn:
        raise StoreLockedError("another process has it", path=tmp_path / "store")

    monkeypatch.setattr(serving, "mount_point", not_yet)
    monkeypatch.setattr(serving, "opened_store", refused)
    with pytest.raises(StoreLockedError):
        serving.serve(
            [tmp_path / "store"],
            tmp_path / "mnt",
            MountOptions(),
            recent=RecentLines(),
            doing=lambda _: None,
            ready=lambda: pytest.fail("it is mounted"),
        )
    assert not (tmp_path / "mnt").exists()
