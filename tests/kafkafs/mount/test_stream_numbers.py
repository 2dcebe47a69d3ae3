"""A stream whose content was replaced has another number, whether or not the kernel still knows the one before."""

from __future__ import annotations

import pytest

from kafkafs.locator.paths import (
    PartitionFilePath,
    PartitionPath,
    RootPath,
    TopicPath,
)
from kafkafs.locator.views import View
from kafkafs.mount.caching import DIRECTORY, GROWING
from kafkafs.mount.inodes import Inodes
from kafkafs.tree.node import Attributes, Directory, File

PARTITION = PartitionPath(TopicPath("t"), 0)


def place(kind: type[Directory | File], path: object, identity: int, lineage: int) -> File:
    made = type("Made", (kind,), {"attributes": lambda _: Attributes(), "open": None, "names": None})
    return made(path, identity=identity, lineage=lineage)  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_each_lineage_has_its_number(*, is_forgotten: bool) -> None:
    inodes = Inodes(place(Directory, RootPath(), 0, 0), Attributes())
    parent = inodes.found(inodes[1], "0", place(Directory, PARTITION, 1, 1), Attributes(), DIRECTORY)
    path = PartitionFilePath(PARTITION, View.VALUES)
    numbers = []
    for identity, lineage in [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4)]:
        inode = inodes.found(parent, "values", place(File, path, identity, lineage), Attributes(), GROWING)
        numbers.append(inode.number)
        if is_forgotten:
            inodes.forget(inode.key, 1)
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3] != numbers[4] != numbers[0]
