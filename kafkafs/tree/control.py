"""`.kafkafs`: the files that belong to no topic."""

from __future__ import annotations

import os
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkafs.locator.views import CONTROL_VIEWS, View
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkafs.locator.paths import ControlPath, StoreFilePath, TreePath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.node import Node
    from storage.files import Access

    _Maker: TypeAlias = Callable[[Any, TreeContext], Node]  # of paths of this view

_LOG_MODE: Final = 0o750
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
        self._makers: dict[View, _Maker] = {
            View.CONTROL: self._directory,
            View.OPTIONS: self._options_file,
            **_MAKERS,
        }
        for view, text in ((View.METRICS, metrics), (View.LOG, log)):
            if text is not None:
                self._makers[view] = partial(_LivingText, text=text)

    def node(self, path: TreePath, context: TreeContext) -> Node:
        """Return the node at a path in `.kafkafs`; raises `NotThereError`."""
        maker = self._makers.get(path.view)
        if maker is None:
            raise NotThereError(f"{path}: there is such a file only in a mount")
        return maker(path, context)

    def _directory(self, path: ControlPath, context: TreeContext) -> Node:
        return ControlDirectory(path, context, [name for name, view in CONTROL_VIEWS.items() if view in self._makers])

    def _options_file(self, path: StoreFilePath, context: TreeContext) -> Node:
        return _StoreText(path, context, lambda: options_text(context.store, context.options, self._options))


class ControlDirectory(StoreDirectoryNode):
    """The directory `.kafkafs`."""

    def __init__(self, path: ControlPath, context: TreeContext, names: Sequence[str]) -> None:
        super().__init__(path, context)
        self._names = names

    def names(self) -> Iterator[str]:
        """Yield the files and the directories that there are."""
        yield from self._names


class _StoreText(GeneratedFile):
    """A text that changes with the store, if at all."""

    def __init__(self, path: StoreFilePath, context: TreeContext, text: Callable[[], str]) -> None:
        super().__init__(path, context.clock, rights=context.rights)
        self._store = context.store
        self._text = text

    def generate(self) -> Generated:
        return Generated(os.fsencode(self._text()), modified_ms(self._store, self._store.log_dirs[0]))


class _LivingText(GeneratedFile):
    """A text that changes all the time."""

    def __init__(self, path: StoreFilePath, context: TreeContext, text: Callable[[], bytes]) -> None:
        super().__init__(path, context.clock, rights=context.rights)
        self._context = context
        self._text = text

    def access(self) -> Access:
        """Return that to the store; the log tells of every partition, and grants others nothing, as the log's file."""
        if self.path.view is not View.LOG:
            return self._context.rights.of_store()
        access = self._context.access_to_all()
        return access._replace(mode=access.mode & _LOG_MODE)

    def generate(self) -> Generated:
        return Generated(self._text(), self._clock.now_ms())


_MAKERS: Final[Mapping[View, _Maker]] = {
    View.README: lambda path, context: _StoreText(path, context, lambda: readme_text(context.store, context.rights)),
    View.VERSION: lambda path, context: _StoreText(path, context, version_text),
    View.OPEN_TRANSACTIONS: OpenTransactionsFile,
    View.STORE_BY_TIME: StoreTimeDirectory,
    View.STORE_TIME: StoreTimeFile,
    View.UNATTACHED: UnattachedDirectory,
    View.GROUPS: GroupsDirectory,
    View.GROUP: GroupFile,
    View.CLUSTER: lambda path, context: ClusterDirectory(path, context, context.store.log_dirs[0]),
    View.CLUSTER_FILE: cluster_node,
    View.CLUSTER_LOG_DIR: cluster_node,
    View.CLUSTER_LOG_DIR_FILE: cluster_node,
}
