"""Every row of the table of views is a node of its kind, and nothing else is."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from memory_logs import sent

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.locator.views import CONTROL_VIEWS, PARTITION_VIEWS, Kind, Level, View
from kafkafs.render.batch_lines import new_lines
from kafkafs.render.intake import new_intake
from kafkafs.render.key_values import KeyValueSyntax
from kafkafs.tree.append_file import AppendFile
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.node import Directory, File, Link, WritableFile
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.partition_views import MAKERS
from kafkafs.tree.stream_file import StreamFile
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.files import Files
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLES = {
    View.RECORD: "orders/0/offset/0",
    View.RECORD_RANGE: "orders/0/offset/all",
    View.TIME: "orders/0/by-time/2001-01-01",
    View.TIME_RANGE: "orders/0/by-time/2001-01-01..",
    View.SEGMENT: f"orders/0/segments/{0:020}.log",
    View.SEGMENT_TEXT: f"orders/0/segments/{0:020}.log.txt",
    View.STORE_TIME: ".kafkafs/by-time/now",
    View.CLUSTER_FILE: ".kafkafs/cluster/meta.properties",
    View.CLUSTER_LOG_DIR: ".kafkafs/cluster/1",
    View.CLUSTER_LOG_DIR_FILE: ".kafkafs/cluster/1/meta.properties",
}
CLASSES = {
    Kind.DIRECTORY: Directory,
    Kind.LINK: Link,
    Kind.SETTING: WritableFile,
    Kind.STREAM: StreamFile,
    Kind.INPUT: AppendFile,
}


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    control = ControlNodes(metrics=lambda: b"", log=lambda: b"")
    log_dirs = [tmp_path / "a", tmp_path / "b"]
    with (
        Store.create(log_dirs, files=Files(), clock=Clock()) as store,
        closing(SizeCache(Files(), None)) as sizes,
    ):
        store.topics.create("orders", 1)
        store.log("orders", 0).append_as_leader(sent(b"value"))
        yield Tree(store, TreeOptions(), clock=Clock(), sizes=sizes, control=control)


def example(view: View) -> str:
    return EXAMPLES.get(view) or view.path.replace("<topic>", "orders").replace("<partition>", "0")


@pytest.mark.parametrize("view", [view for view in View if "<" not in example(view)], ids=lambda view: view.name)
def test_a_view_is_a_node_of_its_kind(tree: Tree, view: View) -> None:
    node = tree.node(parse_path(example(view)))
    assert node.path.view in {view, View.STORE_BY_TIME}
    assert isinstance(node, CLASSES.get(view.kind, File))
    assert isinstance(node, WritableFile) == view.is_written
    assert isinstance(node, StreamFile) == (view.kind is Kind.STREAM)
    assert isinstance(node, AppendFile) == (view.kind is Kind.INPUT)


def test_rows_without_an_example_have_names_that_a_store_gives() -> None:
    assert {view for view in View if "<" in example(view)} == {
        *(View.DAMAGED_RANGE, View.STORE_TIME_AT_ROOT, View.UNATTACHED_LOG, View.GROUP, View.CLUSTER_VIEW)
    }


def test_every_view_of_a_partition_has_a_maker() -> None:
    assert set(MAKERS) == {view for view in View if view.level is Level.PARTITION}


def test_directories_list_the_views_of_the_table(tree: Tree) -> None:
    for path, names in (("orders/0", PARTITION_VIEWS), (".kafkafs", CONTROL_VIEWS)):
        node = tree.node(parse_path(path))
        assert isinstance(node, Directory)
        assert list(node.names()) == list(names)


@pytest.mark.parametrize("view", View, ids=lambda view: view.name)
def test_streams_have_lines_and_inputs_an_intake_and_nothing_else_has(view: View) -> None:
    for kind, error, ask in (
        (Kind.STREAM, KeyError, lambda: new_lines(view, "orders", 0)),
        (Kind.INPUT, ValueError, lambda: new_intake(view, KeyValueSyntax())),
    ):
        if view.kind is kind:
            ask()
        else:
            with pytest.raises(error):
                ask()
