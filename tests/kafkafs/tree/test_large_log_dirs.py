"""A log directory of very many names: callers do not wait while it is listed again."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import pytest

from kafkafs.content import SizeCache
from kafkafs.locator.paths import TopicPath
from kafkafs.tree import topic_directory
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.errors import CorruptMetadataError
from storage.files import Files
from storage.log_dir import log_dir
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S: Final = 60


class Hours(Clock):
    """Time of which an hour passes at each look."""

    hours = 0

    def elapsed_s(self) -> float:
        self.hours += 1
        return self.hours * 3600.0


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """Provide the tree of a store in which there are many names."""
    monkeypatch.setattr(log_dir, "LARGE_DIRECTORY_BYTES", 1)
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as made:
        made.topics.create("first", 1)
    with Store.open([tmp_path / "store"], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        yield Tree(store, TreeOptions(), clock=Hours(), sizes=SizeCache(Files(), None), control=ControlNodes())


def test_callers_go_on_with_what_was_there_while_it_is_listed(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, go_on = tree.context.sources, threading.Event()
    refresh, began = sources.store.refresh, threading.Event()

    def slowly() -> None:
        began.set()
        assert go_on.wait(DEADLINE_S)
        refresh()

    monkeypatch.setattr(sources.store, "refresh", slowly)
    (tmp_path / "store" / "second-0").mkdir()
    assert sources.topics() == ["first"]
    assert began.wait(DEADLINE_S)
    assert sources.topics() == ["first"]
    go_on.set()
    tree.close()
    assert sources.topics() == ["first", "second"]
    tree.close()


def test_the_next_caller_gets_what_kept_it_from_being_listed(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tree.context.sources

    def fail() -> None:
        raise CorruptMetadataError("it is broken")

    with monkeypatch.context() as patch:
        patch.setattr(sources.store, "refresh", fail)
        sources.refresh()
        tree.close()
        with pytest.raises(CorruptMetadataError, match="it is broken"):
            sources.refresh()
    sources.refresh()
    tree.close()
    sources.refresh()
    tree.close()


@pytest.mark.parametrize("looked_at_max", [2, 3])
def test_the_time_of_a_topic_of_very_many_partitions_is_the_stores(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked_at_max: int
) -> None:
    store = tmp_path / "store"
    for number in (1, 2):
        (store / f"first-{number}").mkdir()
    for number, seconds in enumerate((1000, 3000, 2000)):
        os.utime(store / f"first-{number}", (seconds, seconds))
    os.utime(store, (4000, 4000))
    tree.context.sources.refresh()
    tree.close()
    monkeypatch.setattr(topic_directory, "_LOOKED_AT_MAX", looked_at_max)
    expected = 3_000_000 if looked_at_max == 3 else 4_000_000
    assert tree.node(TopicPath("first")).attributes().modified_ms == expected
