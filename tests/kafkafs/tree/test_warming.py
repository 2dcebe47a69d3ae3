"""What is to be counted is found from any path down, without a log being opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from kafkafs.tree.warming import counted_paths
from storage.clock import Clock
from storage.errors import UnknownPartitionError
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = f"{0:020d}.log"


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as store:
        store.topics.create("by-time", 1)
        store.topics.create("orders", 2)
    (tmp_path / "store" / "gone-0.6f6c5a6b6c7d4e8f9a0b1c2d3e4f5a6b-stray").mkdir()
    with Store.open([tmp_path / "store"], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        yield Tree(store, TreeOptions(), clock=Clock(), sizes=SizeCache(Files(), None), control=ControlNodes())


def counted(tree: Tree, text: str) -> list[str]:
    return [str(path) for path in counted_paths(tree, parse_path(text, tree.context.store.topics.inventory.topics))]


def test_from_a_partition_up_those_are_the_streams(tree: Tree) -> None:
    streams = ["values", "keys", "records.jsonl"]
    assert counted(tree, "orders/1") == [f"/orders/1/{each}" for each in streams]
    assert counted(tree, "orders") == [f"/orders/{number}/{each}" for number in (0, 1) for each in streams]
    assert counted(tree, "/") == [*(f"/by-time/0/{each}" for each in streams), *counted(tree, "orders")]
    assert tree.context.store.open_logs() == {}
    directory = ".kafkafs/unattached/gone-0.6f6c5a6b6c7d4e8f9a0b1c2d3e4f5a6b-stray"
    assert counted(tree, directory) == [f"/{directory}/{each}" for each in streams]


def test_the_texts_of_segments_are_counted_where_they_are_asked_for(tree: Tree) -> None:
    log = Path(tree.context.store.topics.directory("orders", 0)) / LOG
    log.touch()
    log.with_suffix(".index").touch()
    assert counted(tree, "orders/0/segments") == [f"/orders/0/segments/{LOG}.txt"]
    assert counted(tree, f"orders/0/segments/{LOG}.txt") == [f"/orders/0/segments/{LOG}.txt"]


@pytest.mark.parametrize(
    "path",
    [
        ".kafkafs",
        "orders/config",
        "orders/0/offset",
        "orders/0/offset/all",
        "orders/0/info",
        f"orders/0/segments/{LOG}",
    ],
)
def test_nothing_else_takes_counting(tree: Tree, path: str) -> None:
    assert counted(tree, path) == []


def test_what_is_not_there_cannot_be_looked_into(tree: Tree) -> None:
    for path in ("none", "orders/9/segments"):
        with pytest.raises((NotThereError, UnknownPartitionError)):
            counted(tree, path)
