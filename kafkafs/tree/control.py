"""`.kafkafs`: the files that belong to no topic."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import (
    ClusterPath,
    ControlPath,
    GroupPath,
    StoreDirectory,
    StoreDirectoryPath,
    StoreFile,
    StoreFilePath,
    StoreTimePath,
)
from kafkafs.tree.cluster_files import ClusterDirectory, cluster_node
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.groups_directory import GroupFile, GroupsDirectory
from kafkafs.tree.open_transactions_file import OpenTransactionsFile
from kafkafs.tree.store_directory import StoreDirectoryNode, modified_ms
from kafkafs.tree.store_texts import options_text, readme_text, version_text
from kafkafs.tree.store_times import StoreTimeDirectory, StoreTimeFile
from kafkafs.tree.unattached_directory import UnattachedDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.node import Node

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class ControlNodes:
    """The nodes in `.kafkafs` of one tree.

    `options` are the mount's own options by their names; `metrics` and `log` return the bytes of those files, which
    exist only if these functions are given.
    """

    def __init__(
        self,
        *,
        options: Mapping[str, object] = _NOTHING,
        metrics: Callable[[], bytes] | None = None,
        log: Callable[[], bytes] | None = None,
    ) -> None:
        self._options = options
        self._living = {
            file: text for file, text in ((StoreFile.METRICS, metrics), (StoreFile.LOG, log)) if text is not None
        }

    def node(self, path: TreePath, context: TreeContext) -> Node:
        """Return the node at a path in `.kafkafs`; raises `NotThereError`."""
        match path:
            case ControlPath():
                return ControlDirectory(path, context, self._living)
            case StoreFilePath(file):
                return self._file(path, file, context)
            case StoreDirectoryPath(StoreDirectory.BY_TIME):
                return StoreTimeDirectory(path, context.store)
            case StoreDirectoryPath(StoreDirectory.UNATTACHED):
                return UnattachedDirectory(path, context)
            case StoreDirectoryPath(StoreDirectory.GROUPS):
                return GroupsDirectory(path, context)
            case GroupPath():
                return GroupFile(path, context)
            case StoreDirectoryPath(StoreDirectory.CLUSTER):
                return ClusterDirectory(path, context, context.store.log_dirs[0])
            case StoreTimePath():
                return StoreTimeFile(path, context)
            case ClusterPath():
                return cluster_node(path, context)
        raise NotThereError(f"{path}: there is no such file")

    def _file(self, path: StoreFilePath, file: StoreFile, context: TreeContext) -> Node:
        store = context.store
        match file:
            case StoreFile.README:
                return _StoreText(path, context, lambda: readme_text(store))
            case StoreFile.VERSION:
                return _StoreText(path, context, version_text)
            case StoreFile.OPTIONS:
                return _StoreText(path, context, lambda: options_text(store, context.options, self._options))
            case StoreFile.TRANSACTIONS:
                return OpenTransactionsFile(path, context)
        if file not in self._living:
            raise NotThereError(f"{path}: there is such a file only in a mount")
        return _LivingText(path, context, self._living[file])


class ControlDirectory(StoreDirectoryNode):
    """The directory `.kafkafs`."""

    def __init__(self, path: ControlPath, context: TreeContext, living: Mapping[StoreFile, object]) -> None:
        super().__init__(path, context.store)
        self._living = living

    def names(self) -> Iterator[str]:
        """The files and the directories that there are."""
        yield from (StoreFile.README, StoreFile.VERSION, StoreFile.OPTIONS, *self._living, StoreFile.TRANSACTIONS)
        yield from StoreDirectory


class _StoreText(GeneratedFile):
    """A text that changes with the store, if at all."""

    def __init__(self, path: StoreFilePath, context: TreeContext, text: Callable[[], str]) -> None:
        super().__init__(path, context.clock)
        self._store = context.store
        self._text = text

    def generate(self) -> Generated:
        return Generated(os.fsencode(self._text()), modified_ms(self._store, self._store.log_dirs[0]))


class _LivingText(GeneratedFile):
    """A text that changes all the time."""

    def __init__(self, path: StoreFilePath, context: TreeContext, text: Callable[[], bytes]) -> None:
        super().__init__(path, context.clock)
        self._text = text

    def generate(self) -> Generated:
        return Generated(self._text(), self._clock.now_ms())
