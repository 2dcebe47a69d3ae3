"""The place that a path leads to is found without a question to any mount of kafkafs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkafs.mount.mountpoints import mounts
from kafkafs.mount.mountpoints.mounts import FILE_SYSTEM_TYPE, Mount, place_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give a directory with links in it, whose own path has none."""
    place = tmp_path.resolve()
    (place / "a" / "b").mkdir(parents=True)
    (place / "link").symlink_to("a/b")
    (place / "a" / "up").symlink_to("../link")
    (place / "whole").symlink_to(place / "a")
    (place / "loop").symlink_to("loop")
    return place


@pytest.mark.parametrize(
    "path",
    ["a/b", "link", "link/..", "whole/up", "whole/up/../missing", "a/../link/x/../y", "missing/../a", ".", "link/."],
)
def test_it_is_where_the_kernel_goes(place: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_of(place / path) == (place / path).resolve()
    monkeypatch.chdir(place / "a")
    assert place_of(Path("..", path)) == (place / path).resolve()


def test_links_without_an_end_are_refused(place: Path) -> None:
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        place_of(place / "loop")


def test_nothing_in_a_mount_is_looked_at(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount = Mount(place / "a", FILE_SYSTEM_TYPE, "/store", "0:40", Path("/"))
    monkeypatch.setattr(mounts, "mounts", lambda: [mount])
    looked_at: list[str] = []
    readlink = os.readlink

    def noted(path: str | os.PathLike[str]) -> str:
        looked_at.append(os.fspath(path))
        return readlink(path)

    monkeypatch.setattr(os, "readlink", noted)
    assert place_of(place / "whole" / "up" / ".." / "b") == place / "a" / "b"
    assert not [path for path in looked_at if Path(path).is_relative_to(place / "a")]
    assert str(place / "whole") in looked_at


def test_mount_points_with_odd_names_are_listed() -> None:
    names = ["/a\x0cb", "/c\rd", "/e\x1cf", "/g\u2028h", "/i\x85j", os.fsdecode(b"/k\xffl")]
    listed = "".join(f"36 35 0:{at} / {name} rw - fuse.kafkafs s\\040t rw\n" for at, name in enumerate(names))
    found = mounts.mounts_in(os.fsencode(listed))
    assert [(str(each.path), each.source) for each in found] == [(name, "s t") for name in names]
