"""What the mount keeps for descriptors and inodes is bounded, and made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from kafkafs.content.descriptor_memory import KeptMemory
from kafkafs.locator.paths import RootPath, TopicPath
from kafkafs.mount import listing
from kafkafs.mount.caching import DIRECTORY, MOMENTARY
from kafkafs.mount.dispatch import Pace
from kafkafs.mount.inodes import LARGE_BYTES, Inode, Inodes, Placed
from kafkafs.mount.listing import Listing
from kafkafs.tree.node import Attributes, Directory, Node
from storage.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

NAMES = [str(number) for number in range(5000)]


class Large(Directory):
    def names(self) -> Iterator[str]:
        return iter(NAMES)


class Holding(Node):
    def __init__(self, path: TopicPath, held_bytes: int) -> None:
        super().__init__(path)
        self._held_bytes = held_bytes

    def attributes(self) -> Attributes:
        return Attributes()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes


def test_many_listings_drop_their_names_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(64 << 20)
    assert budget.take(64 << 20)
    kept = KeptMemory(4 << 20, budget=budget)
    monkeypatch.setattr(listing, "KEPT", kept)
    node = Large(RootPath())
    inode = Inode(1, 1, Placed(RootPath(), 0, 0, 0), Attributes(), DIRECTORY, None, b"")
    listings = [Listing(inode, node, Pace()) for _ in range(20)]
    found: list[list[str]] = [[] for _ in listings]

    async def list_in_turns() -> None:
        while any(len(names) < len(NAMES) + 2 for names in found):  # a slow listing gives fewer at a time
            for each, names in zip(listings, found, strict=True):
                names += [entry.name for entry in (await each.entries(len(names)))[:1500]]
                assert kept.kept_bytes <= 4 << 20
            assert sum(bool(each._window) for each in listings) < 5

    trio.run(list_in_turns)
    assert all(names == [".", "..", *NAMES] for names in found)
    for each in listings:
        each.close()
    assert kept.kept_bytes == 0


def test_nodes_are_kept_by_what_they_hold() -> None:
    inodes = Inodes(Large(RootPath()), Attributes())
    root = inodes[1]
    found = []
    for number in range(100):
        node = Holding(TopicPath(f"t{number}"), LARGE_BYTES)
        found.append(inodes.found(root, f"t{number}", node, Attributes(), MOMENTARY))
    assert sum(each.kept_node is not None for each in found) == 16
    assert found[-1].kept_node is not None
