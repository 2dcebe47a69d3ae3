"""A view grants what every file that it shows grants, and nothing that is not certain."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from kafkafs.tree import rights
from kafkafs.tree.rights import Recent, Rights
from storage.clock import Clock
from storage.files import Access, Files, listed
from storage.log_dir import LogDir
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG: Final = f"{0:020}.log"
OWNER: Final = 4321
GROUP: Final = 1234
OTHER: Final = 77


@pytest.fixture
def partition(scratch: Path) -> Path:
    """Make a partition of a user, open to all, with a log, an index and a file that is not the log's."""
    (scratch / "above").mkdir()
    store = scratch / "above" / "store"
    with Store.create([store], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 1)
    path = store / "t-0"
    for name in (LOG, f"{0:020}.index", "notes"):
        (path / name).write_bytes(b"")
    for each in (store, path, *path.iterdir()):
        os.chown(each, OWNER, GROUP)
        each.chmod(0o755 if each.is_dir() else 0o644)
    return path


def access(partition: Path, *, is_shared: bool = False, follows: bool = False) -> Access:
    directory = Files(follows_partitions=follows).add_root(partition.parent)
    return Rights([LogDir(directory)], is_shared=is_shared).of_log(directory.at(partition.name))


def changed(name: str, mode: int, uid: int = OWNER, gid: int = GROUP) -> Callable[[Path], None]:
    def change(partition: Path) -> None:
        os.chown(partition / name, uid, gid)
        (partition / name).chmod(mode)

    return change


@pytest.mark.parametrize(
    ("change", "mode"),
    [
        (changed(LOG, 0o644), 0o755),
        (changed(LOG, 0o600), 0o700),
        (changed(LOG, 0o640), 0o750),
        (changed(LOG, 0o604), 0o705),
        (changed(f"{0:020}.index", 0o600), 0o700),
        (changed("leader-epoch-checkpoint", 0o600), 0o700),
        (changed("quorum-state", 0o600), 0o700),
        (changed(f"{298:020}-{1:010}.checkpoint", 0o600), 0o700),
        (changed("notes", 0o600), 0o755),
        (changed(".", 0o700), 0o700),
        (changed(".", 0o751), 0o750),
        (changed(".", 0o754), 0o750),
        (changed(".", 0o775), 0o755),
        (changed(LOG, 0o644, uid=OTHER), 0o555),
        (changed(LOG, 0o640, uid=OTHER), 0o050),
        (changed(LOG, 0o044, uid=OTHER), 0),
        (changed(LOG, 0o640, gid=OTHER), 0o700),
        (changed(LOG, 0o604, gid=OTHER), 0o700),
        (changed(LOG, 0o600, uid=0, gid=0), 0),
    ],
)
def test_what_a_directory_and_its_files_grant_in_common(
    partition: Path, change: Callable[[Path], None], mode: int
) -> None:
    for name in ("leader-epoch-checkpoint", "quorum-state", f"{298:020}-{1:010}.checkpoint"):
        (partition / name).touch()
        os.chown(partition / name, OWNER, GROUP)
    change(partition)
    assert access(partition) == Access(OWNER, GROUP, mode)


def test_what_is_above_counts_where_others_are_let_in(partition: Path) -> None:
    store = partition.parent
    store.parent.chmod(0o750)
    assert access(partition).mode == 0o755
    assert access(partition, is_shared=True).mode == 0
    os.chown(store.parent, OWNER, GROUP)
    assert access(partition, is_shared=True).mode == 0o750
    store.parent.chmod(0o755)
    store.chmod(0o710)
    assert access(partition, is_shared=True).mode == 0o750


def test_what_is_above_the_target_of_a_link_counts(partition: Path, scratch: Path) -> None:
    disk = scratch / "disk"
    disk.mkdir(mode=0o700)
    partition.rename(disk / "moved")
    partition.symlink_to(disk / "moved")
    assert access(partition, is_shared=True, follows=True).mode == 0
    disk.chmod(0o755)
    assert access(partition, is_shared=True, follows=True) == Access(OWNER, GROUP, 0o755)


def test_what_is_not_opened_closes_nothing(partition: Path) -> None:
    os.mkfifo(partition / f"{1:020}.log", 0o600)
    (partition / f"{2:020}.log").symlink_to("/none")
    (partition.parent / "secret").write_bytes(b"")
    (partition.parent / "secret").chmod(0o600)
    (partition / f"{3:020}.log").hardlink_to(partition.parent / "secret")
    assert access(partition).mode == 0o755


@pytest.mark.parametrize(("most", "mode"), [(5, 0o755), (1, 0)])
def test_too_many_files_grant_nothing(partition: Path, monkeypatch: pytest.MonkeyPatch, most: int, mode: int) -> None:
    monkeypatch.setattr(listed, "ACCESSES_MAX", most)
    assert access(partition) == Access(OWNER, GROUP, mode)


def test_what_is_gone_has_the_access_that_was_known(partition: Path) -> None:
    known = access(partition)
    directory = Files().add_root(partition.parent)
    rights = Rights([LogDir(directory)], is_shared=False)
    assert rights.of_log(directory.at("t-1"), known) == known
    assert rights.of_log(directory.at("t-1")).mode == 0o500


@pytest.mark.parametrize(("taken_s", "kept_s"), [(0.0, 1.0), (0.03, 3.0), (0.5, 5.0), (7.0, 7.0)])
def test_rights_are_kept_for_a_few_seconds_however_long_finding_them_takes(
    monkeypatch: pytest.MonkeyPatch, taken_s: float, kept_s: float
) -> None:
    now_s = used_s = 100.0
    looks = 0

    def find(_: int | None) -> int:
        nonlocal looks, now_s, used_s
        looks += 1
        used_s += taken_s
        now_s += 50 * taken_s  # beside other threads
        return looks

    monkeypatch.setattr(rights, "monotonic", lambda: now_s)
    monkeypatch.setattr(rights, "thread_time", lambda: used_s)
    recent = Recent(find)
    assert recent.get() == 1
    now_s += kept_s - 0.01
    assert recent.get() == 1
    now_s += 0.02
    assert recent.get() == 2
