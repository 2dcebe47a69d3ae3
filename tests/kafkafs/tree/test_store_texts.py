"""The texts of `.kafkafs`, for stores at any path."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from memory_logs import StandingClock

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.store_texts import in_a_line
from kafkafs.tree.tree import Tree
from storage.files import Files
from storage.properties import parse_properties
from storage.store.store import Store


def test_a_path_stays_one_line() -> None:
    odd = "/a\nmode=read-only\\b\x0b\r\t\x1c\u2028/\x85 é,=:#\udcff"
    line = r"/a\nmode=read-only\\b\u000B\r\t\u001C\u2028/\u0085 é,=:#" + "\udcff"
    assert in_a_line(Path(odd)) == line
    assert parse_properties(f"store={line}") == {"store": odd}


def test_a_store_at_any_path_tells_it(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"x\xff\ny=1")
    clock = StandingClock()
    with (
        Store.create([path], files=Files(), clock=clock) as store,
        closing(SizeCache(Files(), None)) as sizes,
    ):
        tree = Tree(store, TreeOptions(), clock=clock, sizes=sizes, control=ControlNodes())
        line = b"%b/x\xff\\ny=1\n" % os.fsencode(tmp_path)
        for name, start in (("options", b"store="), ("README", b"    ")):
            node = tree.node(parse_path(f"/.kafkafs/{name}"))
            assert isinstance(node, File)
            assert b"\n%b%b" % (start, line) in node.open().read(0, 1 << 20)
