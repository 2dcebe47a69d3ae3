"""`retention.plan` has the lines of the plan, for writers and readers, and says that strays are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_logs import NOW_MS, StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.files import Files
from storage.store.cleaning import StoreRetention
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

STRAY = "orders-0.0123456789abcdef0123456789abcdef-stray"


def text(store: Store, clock: StandingClock, path: str) -> str:
    tree = Tree(store, TreeOptions(), clock=clock, sizes=SizeCache(Files(), None), control=ControlNodes())
    file = tree.node(parse_path(path, store.topics.inventory.topics))
    assert isinstance(file, File)
    found = bytes(file.open().read(0, 100_000))
    assert file.attributes().size_bytes == len(found)
    return found.decode()


def test_the_plan_is_there_in_every_partition(tmp_path: Path) -> None:
    clock = StandingClock()
    with Store.create([tmp_path], files=Files(), clock=clock) as store:
        store.topics.create("orders", 1, {"retention.ms": "1000"})
        log = store.log("orders", 0)
        log.append_as_leader(sent([(NOW_MS - 500, b"first")]))
        assert text(store, clock, "orders/0/retention.plan").startswith("orders-0: nothing is to be deleted")
        clock.ms += 501
        planned = "".join(f"{line}\n" for line in StoreRetention(store, clock).plan("orders", 0).lines())
        assert text(store, clock, "orders/0/retention.plan") == planned
        assert "roll and delete offset 0, " in planned
        assert "time: its newest record is 1001 ms (1 s 1 ms) old, more than retention.ms=1000" in planned
    (tmp_path / "orders-0").rename(tmp_path / STRAY)
    with Store.open([tmp_path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as store:
        said = text(store, clock, f".kafkafs/unattached/{STRAY}/retention.plan")
        assert said == f"{STRAY}: nothing is deleted, because the topic's settings are unknown\n"


def test_a_store_that_is_read_shows_the_same(tmp_path: Path) -> None:
    clock = StandingClock()
    with Store.create([tmp_path], files=Files(), clock=clock) as store:
        store.topics.create("orders", 1, {"retention.bytes": "0"})
        store.log("orders", 0).append_as_leader(sent(b"first"))
        expected = text(store, clock, "orders/0/retention.plan")
        with Store.open([tmp_path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as read:
            assert text(read, clock, "orders/0/retention.plan") == expected
