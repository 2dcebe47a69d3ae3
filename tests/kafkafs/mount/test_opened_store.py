"""What goes wrong with a mount's store is said, with what to do: when it is opened, and when it is closed."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from waiting import until

from kafkafs.mount.errors import MountError
from kafkafs.mount.maintenance import recovered_beside
from kafkafs.mount.opened_store import opened_store
from kafkafs.mount.options import parse_options
from kafkafs.mount.process import Awaited, Parting, parting
from storage.clock import Clock
from storage.errors import PoisonedLogError
from storage.files import FileLock
from storage.store.store import Mode

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT = parse_options([])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store with a topic, which is closed properly."""
    path = tmp_path / "store"
    said = Parting()
    with opened_store([path], DEFAULT, said) as store:
        store.topics.create("orders", 2)
        store.log("orders", 0)
    assert said.word == ""
    return path


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_store_that_cannot_be_locked_says_how_it_can_be_mounted(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_: FileLock, name: str, descriptor: int) -> None:
        os.close(descriptor)
        raise OSError(number, os.strerror(number), name)

    monkeypatch.setattr(FileLock, "__init__", refuse)
    with pytest.raises(MountError) as refused, opened_store([path], DEFAULT, Parting()):
        pass
    reason = f"{path}/.lock: {os.strerror(number)}"
    assert str(refused.value) == f"{path} cannot be opened for writing ({reason}): mount it with -o ro"
    with opened_store([path], parse_options(["ro"]), Parting()) as store:
        assert store.mode is Mode.READ_ONLY


def test_a_log_that_failed_is_the_last_word(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = Parting()
    with opened_store([path], DEFAULT, said) as store:
        for partition in (1, 0):
            log = store.log("orders", partition)
            with pytest.raises(PoisonedLogError), log._poison.poisoning:  # type: ignore[attr-defined]
                raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert said.word == (
        "its store was not closed properly: writing to orders-0, orders-1 has failed, as the mount's log says; "
        "the next mount recovers what was stored"
    )
    assert said.word in caplog.text


def test_what_is_recovered_is_said_at_the_mount_and_when_it_is(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path / ".kafka_cleanshutdown").unlink()
    caplog.set_level(logging.INFO)
    with opened_store([path], DEFAULT, Parting()) as store:
        assert f"{path} was not closed properly: each of 2 partitions is recovered in the background" in caplog.text
        assert "orders-0 was recovered" not in caplog.text
        store.log("orders", 0)
    assert "orders-0 was recovered: nothing to repair" in caplog.text
    assert "orders-1 was recovered" not in caplog.text


def test_nothing_is_said_of_a_store_that_was_closed_properly(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with opened_store([path], DEFAULT, Parting()) as store:
        store.log("orders", 0)
    assert "recovered" not in caplog.text


def test_what_no_request_wants_is_recovered_beside_the_mount(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marker = path / ".kafka_cleanshutdown"
    marker.unlink()
    caplog.set_level(logging.INFO)
    with opened_store([path], DEFAULT, Parting()) as store, recovered_beside(store, Clock()) as recover:
        recover()
        until(lambda: "2 logs were recovered" in caplog.text, lambda: caplog.text)
        assert store.open_logs() == {}
    assert marker.exists()


def test_a_mount_that_never_answered_has_nothing_recovered(path: Path) -> None:
    marker = path / ".kafka_cleanshutdown"
    marker.unlink()
    with opened_store([path], DEFAULT, Parting()) as store, recovered_beside(store, Clock()):
        pass
    assert not marker.exists()


class TestParting:
    def test_all_who_are_connected_hear_the_word(self) -> None:
        with ExitStack() as stack:
            with parting() as said:
                awaited = [stack.enter_context(Awaited(os.getpid())) for _ in range(3)]
                said.word = "this went wrong"
            assert [each.word() for each in awaited] == ["this went wrong"] * 3

    def test_nothing_is_heard_of_what_went_well(self) -> None:
        with ExitStack() as stack:
            with parting():
                awaited = stack.enter_context(Awaited(os.getpid()))
            assert awaited.word() == ""

    def test_a_process_that_says_nothing_keeps_no_one(self) -> None:
        for pid in (os.getpid(), None):
            with Awaited(pid) as awaited:
                assert awaited.word() == ""
        with parting() as said:
            said.word = "unheard"
