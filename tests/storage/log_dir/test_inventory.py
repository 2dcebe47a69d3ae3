"""Inventories share the topics that are as they were, and tell what changed from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.files import Files
from storage.log_dir.inventory import Inventory
from storage.log_dir.log_dir import LogDir

if TYPE_CHECKING:
    from pathlib import Path


def made_log_dir(path: Path, *names: str) -> LogDir:
    for name in names:
        (path / name).mkdir(parents=True)
    return LogDir(Files().directory(path))


def inventory_of(*log_dirs: LogDir, earlier: Inventory | None = None) -> Inventory:
    return Inventory.of({each: each.scan() for each in log_dirs}, (), earlier)


def test_topics_that_are_as_they_were_are_not_made_again(tmp_path: Path) -> None:
    log_dir = made_log_dir(tmp_path, "a-0", "b-1", "b-0", "c-0")
    before = inventory_of(log_dir)
    assert list(before.in_order()) == [("a", 0), ("b", 0), ("b", 1), ("c", 0)]
    (tmp_path / "c-1").mkdir()
    (tmp_path / "d-0").mkdir()
    later = inventory_of(log_dir, earlier=before)
    assert list(later.in_order()) == [("a", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1), ("d", 0)]
    assert [topic for topic, partitions in before.topics.items() if later.topics[topic] is partitions] == ["a", "b"]
    assert list(before.topics["c"]) == [0]


def test_what_is_gone_or_moved_is_told(tmp_path: Path) -> None:
    one = made_log_dir(tmp_path / "one", "a-0", "a-1", "b-0", "c-0")
    two = made_log_dir(tmp_path / "two", "d-0")
    before = inventory_of(one, two)
    assert before.changed_in(before) == (set(), set())
    (tmp_path / "one/a-1").rename(tmp_path / "two/a-1")
    (tmp_path / "one/b-0").rmdir()
    (tmp_path / "two/e-0").mkdir()
    later = inventory_of(one, two, earlier=before)
    assert before.changed_in(later) == ({("b", 0)}, {("a", 1)})
    assert later.changed_in(before) == ({("e", 0)}, {("a", 1)})
