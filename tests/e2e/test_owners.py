"""What root writes through a mount or with a command into another user's store is that user's, who goes on with it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from mounts import DEADLINE_S, store_mounting
from other_users import NOBODY, SETPRIV

from storage.clock import Clock
from storage.files import Files
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


@pytest.fixture
def store(scratch: Path) -> Path:
    """Make a store of small segments that belongs to another user, and whose records no other user may read."""
    path = scratch / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 1, {"segment.bytes": "100"})
    run("append", path, "t/0/append", stdin="one\ntwo\n")
    for each in (path, *path.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    for each in (path / "t-0").iterdir():
        each.chmod(0o600)
    return path


def run(*arguments: object, stdin: str = "") -> str:
    command = [sys.executable, "-P", "-m", "kafkafs", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def owners(store: Path) -> set[tuple[int, int]]:
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in (store, *store.rglob("*"))}


def modes(partition: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in partition.iterdir()}


def test_a_mount_of_root_leaves_a_users_store_that_users(scratch: Path, store: Path) -> None:
    with store_mounting(scratch) as mounts:
        mounted = mounts(store, "-o", "allow_other")
        script = f"""
            mkdir u &&
            for n in 1 2 3 4 5 6; do echo $n$n$n$n$n$n$n$n$n >> t/0/append; echo $n >> u/0/append; done &&
            echo retention.ms=5 > u/config && mkdir t/1 && echo x >> t/1/append && echo 2 > t/0/log-start-offset &&
            {SETPRIV} bash -c "mkdir v && echo x >> v/0/append"
        """
        done = mounted.run(script)
        assert (done.returncode, done.stderr) == (0, "")
        assert mounted.end() == 0
    assert len(list((store / "t-0").glob("*.log"))) > 2
    assert {name.name for name in store.iterdir()} >= {"t-1", "u-0", "v-0"}
    assert owners(store) == {(NOBODY, NOBODY)}
    assert modes(store / "t-0") == modes(store / "t-1") == {0o600}


def test_commands_of_root_leave_a_users_store_that_users(store: Path) -> None:
    for number in range(6):
        run("append", store, "t/0/append", stdin=f"{number}\n" * 9)
    run("topics", "create", store, "u")
    run("topics", "config", store, "t", "cleanup.policy=compact")
    (store / ".kafka_cleanshutdown").unlink()
    for index in (*store.glob("*/*.index"), *store.glob("*/*.snapshot")):
        index.unlink()
    (store / "recovery-point-offset-checkpoint").unlink()
    run("recover", store, "--apply")
    run("compact", store, "--apply")
    assert owners(store) == {(NOBODY, NOBODY)}
    assert not any(mode & 0o077 for mode in modes(store / "t-0"))


def test_copies_by_root_grant_no_more_than_a_users_store(scratch: Path, store: Path) -> None:
    (store / ".kafka_cleanshutdown").touch()
    backups, salvaged, revived = scratch / "backups", scratch / "salvaged", scratch / "revived"
    salvaged.mkdir(mode=0o755)
    run("backup", store, backups)
    run("salvage", store, "t/0", salvaged)
    run("revive", store, "--into", revived)
    files = [each for top in (backups / "runs", salvaged, revived) for each in top.rglob("*") if each.is_file()]
    assert {each.parent.name for each in files} >= {"t-0", "salvaged", "revived"}
    assert [each for each in files if each.stat().st_mode & 0o077] == []
    for run_of_backup in (backups / "runs").iterdir():
        assert run_of_backup.stat().st_mode & 0o077 == 0
    assert revived.stat().st_mode & 0o077 == 0


def test_copies_by_root_into_a_users_directory_are_roots(scratch: Path, store: Path) -> None:
    """Otherwise that user could read what is made of records that only root may read."""
    (store / ".kafka_cleanshutdown").touch()
    backups, salvaged, revived = made = [scratch / name for name in ("backups", "salvaged", "revived")]
    for each in made:
        each.mkdir()
        os.chown(each, NOBODY, NOBODY)
    for each in (store, *store.rglob("*")):
        os.chown(each, 0, 0)
    run("backup", store, backups)
    run("salvage", store, "t/0", salvaged)
    run("revive", store, "--into", revived)
    files = [each for top in made for each in top.rglob("*")]
    assert {each.parent.name for each in files} >= {"t-0", "salvaged", "revived", "runs"}
    assert {(each.lstat().st_uid, each.lstat().st_gid) for each in files} == {(0, 0)}
