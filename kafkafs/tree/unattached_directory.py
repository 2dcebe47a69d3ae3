"""`unattached`: the partition directories that are no topic's partitions, because they are stray, moving or deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tree.store_directory import StoreDirectoryNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import StoreDirectoryPath
    from kafkafs.tree.context import TreeContext


class UnattachedDirectory(StoreDirectoryNode):
    """The unattached directories of all log directories; of two with one name, the first is shown."""

    def __init__(self, path: StoreDirectoryPath, context: TreeContext) -> None:
        super().__init__(path, context)
        self._sources = context.sources

    def names(self) -> Iterator[str]:
        """Those that are there, in order."""
        self._sources.refresh()
        yield from sorted({str(name) for _, name in self._store.topics.inventory.unattached})
