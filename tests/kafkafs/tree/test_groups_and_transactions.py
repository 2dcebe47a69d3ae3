"""`.kafkafs/groups` and `.kafkafs/transactions`, as the topics that they are made from grow."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from group_stores import commit, end, transaction, write
from memory_logs import StandingClock

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree import context
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import DamagedError, NotThereError, TooManyPartitionsError
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.tree import Tree
from storage.internal import offsets, transactions
from storage.log.log import Log
from storage.store.store import Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator


class Shown:
    """The tree of a store in memory, and its clock."""

    def __init__(self, store: Store, clock: StandingClock, sizes: SizeCache) -> None:
        self.store = store
        self.clock = clock
        self.sizes = sizes
        self.tree = self.tree_with(TreeOptions())

    def tree_with(self, options: TreeOptions) -> Tree:
        return Tree(self.store, options, clock=self.clock, sizes=self.sizes, control=ControlNodes())

    def names(self, path: str) -> list[str]:
        return list(self.tree.node(parse_path(path)).names())  # type: ignore[union-attr]

    def node(self, path: str) -> object:
        return self.tree.node(parse_path(path))


@pytest.fixture
def made() -> Iterator[Shown]:
    clock = StandingClock()
    files = MemoryFiles()
    with (
        Store.create(["/a"], files=files, clock=clock) as store,
        closing(SizeCache(files, None)) as sizes,
    ):
        store.topics.create("orders", 2)
        yield Shown(store, clock, sizes)


def test_groups_are_followed(made: Shown) -> None:
    made.store.topics.create(offsets.TOPIC, 1)
    commit(made.store, "bill ing", "orders", 0, 0)
    commit(made.store, "x" * 300, "elsewhere", 1, 5)
    made.clock.ms += 1000
    short, long = sorted(made.names("/.kafkafs/groups"), reverse=True)
    assert short == "bill%20ing"
    assert long.startswith("%sha256-")
    names, row = opened(made, f"/.kafkafs/groups/{short}")
    assert dict(zip(names, row, strict=True)) == {
        "group": "bill ing",
        "topic": "orders",
        "partition": "0",
        "committedOffset": "0",
        "startOffset": "-",
        "endOffset": "0",
        "lag": "0",
        "ageSeconds": "1",
        "metadata": "-",
        "memberId": "-",
        "instanceId": "-",
        "clientId": "-",
        "host": "-",
        "state": "Empty",
        "kind": "Classic",
        "logStartOffset": "0",
        "outOfRange": "-",
    }
    assert opened(made, f"/.kafkafs/groups/{long}")[1][:7] == ["x" * 300, "elsewhere", "1", "5", "-", "-", "-"]
    write(made.store, "orders", b"k", b"v")
    commit(made.store, "x" * 300, "elsewhere", 1, None)
    made.clock.ms += 1000
    assert opened(made, f"/.kafkafs/groups/{short}")[1][5:8] == ["1", "1", "2"]
    assert made.names("/.kafkafs/groups") == [short]
    for name in (long, "none"):
        with pytest.raises(NotThereError):
            made.node(f"/.kafkafs/groups/{name}")


def test_committed_offsets_that_the_log_does_not_have_are_marked(made: Shown) -> None:
    made.store.topics.create(offsets.TOPIC, 1)
    for _ in range(4):
        write(made.store, "orders", b"k", b"v")
    for group, offset in (("below", 1), ("first", 2), ("last", 4), ("above", 5)):
        commit(made.store, group, "orders", 0, offset)
    log = made.store.log("orders", 0)
    assert isinstance(log, Log)
    log.advance_start(2)
    shown = {}
    for group in made.names("/.kafkafs/groups"):
        names, row = opened(made, f"/.kafkafs/groups/{group}")
        found = dict(zip(names, row, strict=True))
        shown[group] = (found["startOffset"], found["logStartOffset"], found["endOffset"], found["outOfRange"])
    assert shown == {
        "below": ("-", "2", "4", "BelowLogStart"),
        "first": ("-", "2", "4", "-"),
        "last": ("-", "2", "4", "-"),
        "above": ("-", "2", "4", "AboveLogEnd"),
    }


def test_the_start_of_a_tiered_log_is_not_known(made: Shown) -> None:
    made.store.topics.create(offsets.TOPIC, 1)
    write(made.store, "orders", b"k", b"v")
    commit(made.store, "billing", "orders", 0, 0)
    log = made.store.log("orders", 0)
    assert isinstance(log, Log)
    log.advance_start(1)
    made.store.topics.change_config("orders", {"remote.storage.enable": "true"})
    names, row = opened(made, "/.kafkafs/groups/billing")
    found = dict(zip(names, row, strict=True))
    assert (found["logStartOffset"], found["outOfRange"]) == ("-", "-")


def test_what_an_open_transaction_holds_up(made: Shown) -> None:
    made.store.topics.create(transactions.TOPIC, 1)
    write(made.store, "orders", b"k", b"v", partition=1)
    transaction(made.store, "paid", 7, transactions.TransactionState.ONGOING, 0, 1)
    transaction(made.store, "ended", 8, transactions.TransactionState.COMPLETE_COMMIT)
    write(made.store, "orders", b"k", b"v", partition=1, producer_id=7)
    write(made.store, "orders", b"k", b"v", partition=1, producer_id=9)  # without a known coordinator
    write(made.store, "orders", b"k", b"v", partition=0, producer_id=8)  # which hangs
    made.clock.ms += 60_000
    names, *rows = opened(made, "/.kafkafs/transactions")
    abort = "kafka-transactions.sh --bootstrap-server BROKER:9092 abort --topic orders"
    assert [" ".join(row) for row in rows] == [
        f"paid 7 0 Ongoing 60 60000 orders-0,orders-1 orders-1@1 {abort} --partition 1 --start-offset 1",
        f"ended 8 0 CompleteCommit 60 60000 orders-0 orders-0@0 {abort} --partition 0 --start-offset 0",
        f"- 9 0 - 60 - orders-1 - {abort} --partition 1 --start-offset 2",
    ]
    assert len(names) == len(rows[0])
    end(made.store, "orders", 1, 7, committed=True)
    transaction(made.store, "paid", 7, transactions.TransactionState.COMPLETE_COMMIT)
    made.clock.ms += 1000
    rows = opened(made, "/.kafkafs/transactions")[1:]
    assert [(row[1], row[7]) for row in rows] == [("8", "orders-0@0"), ("9", "orders-1@2")]


@pytest.mark.parametrize("path", ["/.kafkafs/transactions", "/by-time/now"])
def test_a_store_of_too_many_partitions_is_not_asked(made: Shown, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(context, "PARTITIONS_ASKED_MAX", 1)
    monkeypatch.setattr(made.store, "log", None)
    node = made.node(path)
    assert node.attributes().size_bytes is None
    with pytest.raises(TooManyPartitionsError, match="the store has 2 partitions, and no more than 1 are asked"):
        node.open().read(0, 1)
    monkeypatch.undo()
    made.clock.ms += 2000
    made.node(path).open().read(0, 1)


def opened(shown: Shown, path: str) -> list[list[str]]:
    """The fields of each line of a file as it is now."""
    data = bytes(shown.node(path).open().read(0, 1 << 20)).decode()
    return [line.split("\t") for line in data.splitlines()]


def test_what_cannot_be_read_is_an_error_at_the_end_unless_damage_is_skipped(made: Shown) -> None:
    made.store.topics.create(offsets.TOPIC, 1)
    commit(made.store, "billing", "orders", 0, 0)
    write(made.store, offsets.TOPIC, b"\0\x63k", b"v")
    made.clock.ms += 1000
    node = made.tree.node(parse_path("/.kafkafs/groups/billing"))
    assert node.attributes().size_bytes is None
    reading = node.open()  # type: ignore[union-attr]
    data = reading.read(0, 1 << 20)
    assert data.endswith(b"\tClassic\t0\t-\n")
    with pytest.raises(DamagedError, match="a kind that is not known here"):
        reading.read(len(data), 1)
    node = made.tree_with(TreeOptions(damage=Damage.SKIP)).node(parse_path("/.kafkafs/groups/billing"))
    assert node.attributes().size_bytes == len(data)
    assert node.xattrs() == {"user.kafkafs.skipped": b"1"}
