"""A process may be killed before its request is read: then there is nothing to read, and no other may wait."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mounts import require_fuse, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted

TREE = Path(__file__).with_name("memory_tree.py")
ALWAYS_READY = """
import os, runpy, select, sys

class Poll:
    def register(self, *_):
        pass

    def poll(self, *_):
        return [(0, 0)]

select.poll = Poll
sys.argv.pop(0)
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""As if each request were there when it was looked for, and withdrawn before it was read."""


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    """Mount the tree in a process that takes the kernel's requests for withdrawn again and again."""
    require_fuse()
    (tmp_path / "store").mkdir()
    mounted = serving(
        [sys.executable, "-c", ALWAYS_READY, TREE, tmp_path / "mnt", tmp_path / "store"], tmp_path / "mnt"
    )
    yield mounted
    mounted.remove()


def test_an_answer_that_waits_comes_without_another_request(mounted: Mounted) -> None:
    for number in range(3):
        done = mounted.run(f"echo line {number} >> orders/0/append && tail -n 1 orders/0/values")
        assert (done.returncode, done.stdout) == (0, f"line {number}\n"), mounted.said()


def test_the_mount_ends_as_any_other(mounted: Mounted) -> None:
    assert mounted.run("cat orders/0/offset/0").stdout == "one"
    assert mounted.end() == 0, mounted.said()
    assert not mounted.path.exists()
