"""The paths of a store lead to it from everywhere, and it and its mount point are refused where one is in the other."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints.places import check_apart, resolved
from kafkafs.mount.process import log_path

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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Give `store` and `mnt` beside each other, with links to both."""
    for name in ("store", "mnt", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "to-store").symlink_to("store")
    (tmp_path / "to-mnt").symlink_to("mnt")
    return tmp_path


@pytest.mark.parametrize("store", ["store", "mnt/../store", "to-store", "to-mnt/../store", "none"])
@pytest.mark.parametrize("mount_point", ["mnt", "to-mnt", "mnt/.", "store/../mnt", "new", "none.mnt"])
def test_what_lies_apart_is_taken(place: Path, store: str, mount_point: str) -> None:
    check_apart(place / mount_point, [place / store], {"a log": place / "other" / "log"})


@pytest.mark.parametrize(
    ("mount_point", "store", "sentence"),
    [
        ("store/mnt", "store", "is in the store itself"),
        ("store", "to-store", "is in the store itself"),
        ("to-store/new", "store", "is in the store itself"),
        ("other/../store/new", "store", "is in the store itself"),
        ("mnt", "mnt/store", "would hide the store"),
        ("mnt", "to-mnt/store", "would hide the store"),
        ("new", "new/store", "would hide the store"),
        ("new/..", "store", "would hide the store"),
    ],
)
def test_what_lies_in_the_other_is_refused(place: Path, mount_point: str, store: str, sentence: str) -> None:
    with pytest.raises(MountError, match=sentence):
        check_apart(place / mount_point, [place / "other", place / store], {})


def test_what_else_the_process_opens_lies_apart_too(place: Path) -> None:
    with pytest.raises(MountError, match="would hide the log of the mount"):
        check_apart(place / "mnt", [place / "store"], {"the log of the mount": place / "to-mnt" / "kafkafs" / "log"})


def test_a_log_of_its_own_user_is_named_by_its_directory(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    assert log_path(place / "mnt").parent == place / "state" / "kafkafs"
    assert not (place / "state").exists()


@pytest.mark.parametrize(
    ("bound", "mount_point", "store", "answer"),
    [
        ("store", "bind/mnt", "store", "is in the store itself"),
        ("mnt", "mnt", "bind/store", "would hide the store"),
        ("store/below", "bind/mnt", "store", "is in the store itself"),
        ("other", "bind", "store", "apart"),
        ("store", "mnt", "bind", "apart"),
    ],
)
def test_bind_mounts_are_seen_through(place: Path, bound: str, mount_point: str, store: str, answer: str) -> None:
    code = f"""
import sys
from pathlib import Path
from kafkafs.mount.mountpoints.places import check_apart
from kafkafs.mount.errors import MountError
try:
    check_apart(Path({str(place / mount_point)!r}), [Path({str(place / store)!r})], {{}})
except MountError as error:
    sys.exit(str(error))
sys.exit("apart")
"""
    (place / "bind").mkdir()
    (place / bound).mkdir(exist_ok=True)
    script = f'mount --bind {place / bound} {place / "bind"} || exit 77; exec "$0" -P -c "$1"'
    command = ["unshare", "-m", "--propagation", "private", "bash", "-c", script, sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        pytest.skip(f"this user cannot bind a mount in a name space of his own: {done.stderr.strip()}")
    assert answer in done.stderr
