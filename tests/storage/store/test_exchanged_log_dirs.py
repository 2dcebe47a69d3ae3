"""A link leads to another directory while a store is opened: nothing is written to one that was not recognized."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.errors import NotAStoreError, StorageError
from storage.files import Files
from storage.log_dir.log_dir import LogDir
from storage.store import Mode, Store
from storage.store import store as store_module
from storage.store.store_recovery import recover_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from storage.files import Directory

REPLACED = "the log directory was replaced by another while it was open; nothing was written to that one"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store that is reached by a link, and a directory of another user's."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with Store.create([tmp_path / "one"], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1)
    (tmp_path / "store").symlink_to("one")
    return tmp_path / "store"


def exchange(path: Path, name: str) -> None:
    new = path.with_name("new")
    new.symlink_to(name)
    new.rename(path)


def others(path: Path) -> list[str]:
    return sorted(each.name for each in (path.parent / "other").iterdir())


def exchanging(path: Path, check: Callable[[Sequence[Directory]], None]) -> Callable[[Sequence[Directory]], None]:
    """Return a check after which the link leads elsewhere."""

    def checked(directories: Sequence[Directory]) -> None:
        check(directories)
        exchange(path, "other")

    return checked


def test_what_was_not_recognized_is_not_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "check_stores", exchanging(path, store_module.check_stores))
    with pytest.raises(StorageError, match=REPLACED):
        Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock())
    assert others(path) == ["file"]
    exchange(path, "one")
    monkeypatch.undo()
    Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()).close()  # nothing has it locked


def test_an_exchange_for_a_moment_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = LogDir.lock

    def locked(log_dir: LogDir) -> None:
        exchange(path, "other")
        lock(log_dir)
        exchange(path, "one")

    monkeypatch.setattr(LogDir, "lock", locked)
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        assert list(store.topics.inventory.topics) == ["t"]
    assert others(path) == ["file"]


def test_no_store_is_made_in_a_directory_that_was_not_looked_at(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    exchange(path, "empty")
    make_directories = store_module.make_directories

    def made(files: Files, directories: Sequence[Directory]) -> None:
        make_directories(files, directories)
        exchange(path, "other")

    monkeypatch.setattr(store_module, "make_directories", made)
    with pytest.raises(NotAStoreError, match="a store can be made of an empty directory only"):
        Store.create([path], files=Files(), clock=Clock())
    assert others(path) == ["file"]


def test_recovery_stays_in_the_log_directory_that_it_looked_at(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()
    announced: list[str] = []

    def announce(name: str, number: int, count: int) -> None:
        del number, count
        announced.append(name)
        exchange(path, "other")

    told: list[object] = []
    recover_store([path], files=Files(), clock=Clock(), announce=announce, tell=told.append)
    assert announced == ["t-0"]
    assert others(path) == ["file"]


def test_recovery_writes_to_no_directory_that_it_did_not_look_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is empty would be taken for a disk that was just added."""
    (path.parent / "other" / "file").unlink()
    (path.parent / "two").mkdir()
    second = path.with_name("second")
    second.symlink_to("one")
    exchange(path, "one")
    closed = Store.close

    def exchanged(store: Store) -> None:
        closed(store)
        if store.mode is Mode.READ_ONLY:
            exchange(second, "other")

    monkeypatch.setattr(Store, "close", exchanged)
    with pytest.raises(StorageError, match=REPLACED):
        recover_store([second], files=Files(), clock=Clock(), announce=lambda *_: None, tell=lambda _: None)
    assert others(path) == []


@pytest.mark.parametrize("mode", Mode)
def test_a_directory_that_is_not_there_is_said_as_ever(tmp_path: Path, mode: Mode) -> None:
    (tmp_path / "file").touch()
    for name, said in (("missing", "there is no such directory"), ("file", "this is a file")):
        with pytest.raises(NotAStoreError, match=said):
            Store.open([tmp_path / name], mode=mode, files=Files(), clock=Clock())
