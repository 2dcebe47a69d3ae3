"""The paths of a store lead to it from everywhere, and links that lead to nothing are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.log_directories import resolved

if TYPE_CHECKING:
    from pathlib import Path


def test_links_are_followed_and_nothing_need_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a,b").mkdir()
    (tmp_path / "link").symlink_to("a,b")
    monkeypatch.chdir(tmp_path)
    relative = tmp_path.relative_to(tmp_path)
    found = resolved([relative / "link", relative / "link" / "new", relative / "a,b" / ".." / "x"])
    assert found == [tmp_path / "a,b", tmp_path / "a,b" / "new", tmp_path / "x"]


def test_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("gone")
    with pytest.raises(MountError, match=r"first is a link to .*gone, which does not exist: make that") as refused:
        resolved([tmp_path, tmp_path / "first"])
    assert refused.value.exit_code == 2


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "loop", tmp_path / "loop" / "store"):
        with pytest.raises(MountError, match=r"^[^;]*loop[^;]*: Too many levels of symbolic links$") as refused:
            resolved([path])
        assert refused.value.exit_code == 2
