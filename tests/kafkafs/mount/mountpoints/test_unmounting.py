"""What is said after unmounting is about the mount that was unmounted, and about no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.mountpoints import holds, unmounting
from kafkafs.mount.mountpoints.holds import Hold, Holder, holds_of
from kafkafs.mount.mountpoints.mounts import Mount

MOUNT = Mount(Path("/mnt"), "fuse.kafkafs", "/store", "0:40", Path("/"))
COPY = Hold(MOUNT._replace(path=Path("/copy"), root=Path("/orders")), None)
AWAY = Hold(MOUNT, Holder(17, "sleep", "4026532177"))
REUSED = Hold(MOUNT._replace(path=Path("/other"), source="/another"), None)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Hold]:
    """Have a process that serves and does not end, and these holds of mounts."""
    held: list[Hold] = []
    monkeypatch.setattr(holds, "holds", lambda: held)
    monkeypatch.setattr(unmounting, "_has_ended", lambda pid, within_s: False)  # noqa: ARG005
    monkeypatch.setattr(unmounting, "is_serving", lambda pid: True)  # noqa: ARG005
    monkeypatch.setattr(unmounting.os, "geteuid", lambda: 0)
    return held


def test_the_number_of_a_device_that_is_anothers_by_now_is_no_hold(held: list[Hold]) -> None:
    held += [REUSED, COPY, AWAY]
    assert holds_of(MOUNT) == [COPY, AWAY]
    held[:] = [REUSED]
    unmounting._check_gone(Path("/mnt"), MOUNT, 1)


def test_all_who_hold_it_are_named(held: list[Hold]) -> None:
    held += [COPY, AWAY]
    with pytest.raises(MountError) as refused:
        unmounting._check_gone(Path("/mnt"), MOUNT, 1)
    holders = "the mount at /copy, sleep (process 17, mount name space 4026532177, at /mnt)"
    assert str(refused.value) == (
        f"/mnt is detached here, but still held by {holders}, so its store stays open: "
        "unmount it there, or end it with `kafkafs umount --force /copy`"
    )


def test_a_process_that_closes_its_store_is_waited_for(held: list[Hold], monkeypatch: pytest.MonkeyPatch) -> None:
    held.append(COPY)
    monkeypatch.setattr(unmounting, "is_serving", lambda pid: False)  # noqa: ARG005
    unmounting._check_gone(Path("/mnt"), MOUNT, 1)


def test_a_hold_that_this_user_may_not_see_is_told(held: list[Hold], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unmounting.os, "geteuid", lambda: 1000)
    assert held == []
    with pytest.raises(MountError, match="process 1 still serves it, in a mount name space that this user may not"):
        unmounting._check_gone(Path("/mnt"), MOUNT, 1)
