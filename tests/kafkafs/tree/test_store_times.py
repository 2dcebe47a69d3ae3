"""What a time costs that is looked up in all partitions: one look at each log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.locator.paths import StoreDirectoryPath
from kafkafs.locator.views import View
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.files import Files, NamedFiles
from storage.files.real import RealDirectory
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.store import Mode, Store
from storage.topics.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 12


class Passing(StandingClock):
    """Time in which the store is due to be looked at again whenever somebody asks."""

    def elapsed_s(self) -> float:
        self.ms += 1000
        return self.ms / 1000


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def counting(self: object, *args: object, **more: object) -> object:
            found[name] += 1
            return method(self, *args, **more)

        monkeypatch.setattr(owner, name, counting)

    count(FollowedLog, "_look")
    count(RealDirectory, "open_file")
    count(RealDirectory, "enter")
    count(LogSource, "__init__")
    count(Topics, "_inventory")
    return found


def test_each_log_is_looked_at_once(tmp_path: Path, counted: Counter[str]) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=StandingClock()) as store:
        store.topics.create("t", PARTITIONS)
        for number in range(PARTITIONS):
            log = store.log("t", number)
            assert isinstance(log, Log)
            log.append_as_leader(sent([(NOW_MS - 1000, b"a"), (NOW_MS + 1000, b"b")]))
    clock = Passing()
    with Store.open([tmp_path / "store"], mode=Mode.READ_ONLY, files=Files(), clock=clock) as store:
        sizes = SizeCache(NamedFiles(), None)
        tree = Tree(store, TreeOptions(), clock=clock, sizes=sizes, control=ControlNodes())
        counted.clear()
        file = tree.child(StoreDirectoryPath(View.STORE_BY_TIME), str(NOW_MS))
        assert isinstance(file, File)
        text = bytes(file.open().read(0, 10_000)).decode()
        sizes.close()
    assert text.splitlines() == [f"t:{number}:1" for number in range(PARTITIONS)]
    assert counted["_look"] == PARTITIONS
    assert counted["__init__"] == 0, "the views of a partition take more than its log"
    assert counted["_inventory"] <= 2
    # Of a short log: whose it is, its end, the leader epochs, the commits twice, and the time; of a topic, its id.
    assert counted["open_file"] <= 6 * PARTITIONS + 8
    # The directory for the look and for the question, and the store's for the commits.
    assert counted["enter"] <= 4 * PARTITIONS + 8
