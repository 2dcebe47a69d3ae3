"""What a file's name tells before the tree is asked."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING, Final

from kafkafs.locator.descent import child
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.paths import PartitionDirectoryPath, PartitionPath, TopicPath
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View

if TYPE_CHECKING:
    from kafkafs.locator.paths import TreePath

_TYPES: Final = {Kind.DIRECTORY: stat.S_IFDIR, Kind.LINK: stat.S_IFLNK}
_RECORD: Final = re.compile(r"[0-9]+(\.[a-z]+)?")


def path_of_name(parent: TreePath, name: str) -> TreePath | None:
    """Return the path of a listed name, as far as the name tells."""
    try:
        return child(parent, name)
    except BadNameError:
        return None


def type_of_path(path: TreePath | None) -> int:
    """Return the type of the node at a path; 0 for no path."""
    return 0 if path is None else _TYPES.get(path.view.kind, stat.S_IFREG)


def can_be_quick(parent: TreePath, name: str) -> bool:
    """True if a node of this name is as a rule found in less than a millisecond, once one like it was.

    Records and `append` files are. Sizes of streams, ranges and names that count from the end may take long.
    """
    if isinstance(parent, PartitionDirectoryPath):
        return parent.view is View.OFFSET and _RECORD.fullmatch(name) is not None
    view = PARTITION_VIEWS.get(name) if isinstance(parent, PartitionPath) else None
    return view is not None and view.kind is Kind.INPUT


def is_directory_of_log(parent: TreePath, name: str) -> bool:
    """True if a node of this name is a partition, or a directory in one, if there is one."""
    if isinstance(parent, TopicPath):
        return name.isdigit()
    view = PARTITION_VIEWS.get(name) if isinstance(parent, PartitionPath) else None
    return view is not None and view.kind is Kind.DIRECTORY
