"""From paths to nodes.

A `Tree` finds the node at a path in a store, for a mount or a command. What is removed from the store leaves the tree
within a second. What cannot be opened is an error only at its own path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.descent import child
from kafkafs.locator.errors import AmbiguousNameError, BadNameError
from kafkafs.locator.paths import (
    ConfigPath,
    DamagedRangePath,
    OffsetPath,
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    TimePath,
    TopicPath,
    UnattachedPath,
)
from kafkafs.tree.config_file import ConfigFile
from kafkafs.tree.context import TreeContext
from kafkafs.tree.errors import AmbiguousPathError, NotThereError
from kafkafs.tree.generated_file import GeneratedFile
from kafkafs.tree.partition_directory import PartitionNode
from kafkafs.tree.partition_views import view_node
from kafkafs.tree.root import RootDirectory
from kafkafs.tree.topic_directory import TopicDirectory

if TYPE_CHECKING:
    from kafkafs.content import SizeCache
    from kafkafs.locator.paths import LogPath, TreePath
    from kafkafs.tree.control import ControlNodes
    from kafkafs.tree.node import Node
    from kafkafs.tree.options import TreeOptions
    from storage.clock import Clock
    from storage.files import Access
    from storage.store import Store


class Tree:
    """The tree of one store, through one set of options. Any thread may ask it for nodes."""

    def __init__(
        self, store: Store, options: TreeOptions, *, clock: Clock, sizes: SizeCache, control: ControlNodes
    ) -> None:
        self.context = TreeContext(store, options, clock=clock, sizes=sizes)
        self._control = control

    def close(self) -> None:
        """End what runs beside; the store is closed after it."""
        self.context.sources.close()

    def child(self, parent: TreePath, name: str) -> Node:
        """Return the node of a name in a directory; raises `NotThereError` if there is none."""
        if isinstance(parent, RootPath):
            self.context.sources.refresh()
        try:
            return self.node(child(parent, name, self.context.store.topics.inventory.topics))
        except AmbiguousNameError as error:
            raise AmbiguousPathError(f"{parent}: {error}") from None
        except BadNameError as error:
            raise NotThereError(str(error)) from None

    def node(self, path: TreePath) -> Node:
        """Return the node at a path; raises `NotThereError`, and what opening the log raises."""
        context = self.context
        match path:
            case (
                OffsetPath()
                | PartitionFilePath()
                | TimePath()
                | PartitionDirectoryPath()
                | SegmentPath()
                | DamagedRangePath()
            ):
                return view_node(path, context.sources.get(path.log), context)
            case PartitionPath() | UnattachedPath():
                return PartitionNode(path, context.sources.get(path), context)
            case TopicPath(topic):
                context.sources.check_topic(topic)
                return TopicDirectory(path, context.sources)
            case ConfigPath(topic):
                context.sources.check_topic(topic.topic)
                return ConfigFile(path, context, topic.topic)
            case RootPath():
                return RootDirectory(context.sources, context.options)
            case _:
                return self._control.node(path, context)

    def is_narrower(self, node: Node | None, log: LogPath | None, granted: Access | None) -> bool:
        """Return True if not all users may have what these show now whom the attributes of the file `granted` it.

        Rights that are not known to have been granted count as too wide.
        """
        context = self.context
        if not context.rights.is_shared:
            return False
        if isinstance(node, GeneratedFile) and (access := node.access()) is not None:
            return granted is None or context.rights.is_narrower(access, granted)
        source = None if log is None else context.sources.known(log)
        if source is None:
            return False
        return granted is None or context.rights.is_narrower(source.access(), granted)
