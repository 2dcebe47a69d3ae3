"""What a look at a store costs: nothing that grows with its partitions, unless something has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.log.followed_log import FollowedLog
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Stores

PARTITIONS = 20


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that were read and the directories that were listed."""
    found: list[str] = []
    for name in ("open_reading", "names"):
        method = getattr(MemoryFiles, name)

        def noted(self, path, method=method):
            found.append(str(path))
            return method(self, path)

        monkeypatch.setattr(MemoryFiles, name, noted)
    return found


def filled(stores: Stores) -> None:
    with stores.open() as store:
        store.topics.create("t", PARTITIONS)
        for number in range(PARTITIONS):
            log = store.log("t", number)
            log.start_offset = log.end_offset = 7


def test_a_store_that_did_not_change_is_not_read_again(stores, store, read) -> None:
    store.close()
    filled(stores)
    reader = stores.read()
    logs = [reader.log("t", number) for number in range(PARTITIONS)]
    for _ in range(2):  # what was seen once may have changed since without another time
        reader.refresh()
    inventory = reader.topics.inventory
    read.clear()
    for _ in range(3):
        reader.refresh()
        assert all(log.checkpointed_start == 7 for log in logs)
    assert read == []
    assert reader.topics.inventory is inventory


def test_what_changed_alone_is_read_again(stores, store, read) -> None:
    store.close()
    filled(stores)
    reader = stores.read()
    log = reader.log("t", 2)
    for _ in range(3):
        reader.refresh()
    inventory = reader.topics.inventory
    own = [number for number, log_dir in reader.topics.partitions("t").items() if str(log_dir.path) == "/a"]
    lines = "".join(f"t {number} 9\n" for number in own)
    stores.files.directory("/a").replace("log-start-offset-checkpoint", f"0\n{len(own)}\n{lines}".encode())
    read.clear()
    reader.refresh()
    assert sorted(read) == ["/a", "/a/log-start-offset-checkpoint"]
    assert reader.topics.inventory is inventory, "the same names make the same inventory"
    logs = {number: reader.log("t", number) for number in range(PARTITIONS)}
    assert {number: each.checkpointed_start for number, each in logs.items()} == {
        number: 9 if number in own else 7 for number in range(PARTITIONS)
    }
    assert log is logs[2]


def test_a_log_that_is_opened_between_two_looks_is_told_what_changed_meanwhile(stores, store) -> None:
    """It was made with what the checkpoints said before."""
    store.close()
    filled(stores)
    reader = stores.read()
    reader.log("t", 0)
    reader.refresh()
    reader.refresh()
    log = reader.log("t", 1)
    assert isinstance(log, FollowedLog)
    log.checkpointed_start = 3
    reader.refresh()
    assert log.checkpointed_start == 7
