"""The base of the directories that show the store and not a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tree.node import Attributes, Directory

if TYPE_CHECKING:
    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.context import TreeContext
    from storage.log_dir import LogDir
    from storage.store import Store


class StoreDirectoryNode(Directory):
    """A directory that is as old as a log directory's last change: the store's first one, unless another is given."""

    def __init__(self, path: TreePath, context: TreeContext, log_dir: LogDir | None = None) -> None:
        super().__init__(path)
        store = context.store
        self._store = store
        self._rights = context.rights
        self._log_dir = log_dir or store.log_dirs[0]

    def attributes(self) -> Attributes:
        """Report the log directory's time."""
        return Attributes(modified_ms=modified_ms(self._store, self._log_dir), access=self._rights.of_store())


def modified_ms(store: Store, log_dir: LogDir) -> int:
    """Return when an entry of the log directory was last made, renamed or removed."""
    status = store.files.status(log_dir.path)
    return 0 if status is None else status.modified_ms
