"""What a file's name tells before the tree is asked."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING, Final

from kafkafs.locator.descent import child
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.paths import (
    ClusterPath,
    ControlPath,
    PartitionDirectory,
    PartitionDirectoryPath,
    PartitionFile,
    PartitionPath,
    RootPath,
    StoreDirectoryPath,
    TimePath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.locator.times import TimeRange

if TYPE_CHECKING:
    from kafkafs.locator.paths import TreePath

_DIRECTORIES: Final = (
    RootPath,
    TopicPath,
    PartitionPath,
    UnattachedPath,
    PartitionDirectoryPath,
    ControlPath,
    StoreDirectoryPath,
)
_RECORD: Final = re.compile(r"[0-9]+(\.[a-z]+)?")


def path_of_name(parent: TreePath, name: str) -> TreePath | None:
    """Return the path of a listed name, as far as the name tells."""
    try:
        return child(parent, name)
    except BadNameError:
        return None


def type_of_path(path: TreePath | None) -> int:
    """Return the type of the node at a path; 0 if only the node itself knows."""
    if path is None or isinstance(path, ClusterPath):
        return 0
    if isinstance(path, _DIRECTORIES):
        return stat.S_IFDIR
    is_link = isinstance(path, TimePath) and not isinstance(path.name.times, TimeRange)
    return stat.S_IFLNK if is_link else stat.S_IFREG


def can_be_quick(parent: TreePath, name: str) -> bool:
    """True if a node of this name is as a rule found in less than a millisecond, once one like it was.

    Records and `append` files are. Sizes of streams, ranges and names that count from the end may take long.
    """
    if isinstance(parent, PartitionDirectoryPath):
        return parent.directory is PartitionDirectory.OFFSET and _RECORD.fullmatch(name) is not None
    return isinstance(parent, PartitionPath) and name.startswith(PartitionFile.APPEND)
