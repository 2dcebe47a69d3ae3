"""`cluster`: what each log directory says of the broker and of its partitions, as the files are.

The files of the first log directory are in `cluster` itself, those of the further ones in `1`, `2` and so on. They are
the checkpoints, `meta.properties`, the records that a KRaft broker began with, and kafkafs' own settings of topics. No
other file is ever opened here: one of them is the lock, which a process loses by closing the file. In a store with the
cluster's metadata log there are the views of that besides, from `cluster_views`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import ClusterPath
from kafkafs.tree.cluster_views import VIEW_NAMES, ClusterView
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.store_directory import StoreDirectoryNode
from storage.errors import CorruptMetadataError
from storage.files import CHECKPOINT_BYTES_MAX, read_small_file
from storage.log_dir import META_PROPERTIES_NAME, SETTINGS_NAME, OffsetCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import StoreDirectoryPath
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.node import Node
    from storage.log_dir import LogDir
    from storage.store import Store

_BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_NAMES: Final = (META_PROPERTIES_NAME, SETTINGS_NAME, *(str(each) for each in OffsetCheckpoint), _BOOTSTRAP_NAME)


def cluster_node(path: ClusterPath, context: TreeContext) -> Node:
    """The file, or the directory of a further log directory, at the path; raises `NotThereError`."""
    log_dir = _log_dir(context.store, path)
    name = path.file
    if name is None:
        return ClusterDirectory(path, context, log_dir)
    if path.log_dir is None and name in VIEW_NAMES and context.store.cluster.log() is not None:
        return ClusterView(path, context, name)
    files = context.store.files
    if name not in _NAMES or files.status(log_dir.path / name) is None:
        raise _nothing_at(path)
    return ClusterFile(path, context, log_dir, name)


def _log_dir(store: Store, path: ClusterPath) -> LogDir:
    number = path.log_dir or 0
    if number >= len(store.log_dirs):
        raise _nothing_at(path)
    return store.log_dirs[number]


def _nothing_at(path: ClusterPath) -> NotThereError:
    return NotThereError(f"{path}: there is no such file")


class ClusterDirectory(StoreDirectoryNode):
    """The files of one log directory. With those of the first are the directories of the others, and the views."""

    def __init__(self, path: StoreDirectoryPath | ClusterPath, context: TreeContext, log_dir: LogDir) -> None:
        super().__init__(path, context, log_dir)
        self._metadata = context.store.cluster

    def names(self) -> Iterator[str]:
        """Yield the names of the files, and of the other directories and views."""
        files, directory = self._store.files, self._log_dir.path
        yield from (name for name in _NAMES if files.status(directory / name) is not None)
        if not isinstance(self.path, ClusterPath):
            if self._metadata.log() is not None:
                yield from VIEW_NAMES
            yield from (str(at) for at in range(1, len(self._store.log_dirs)))


class ClusterFile(GeneratedFile):
    """A file as it is in its log directory. Brokers replace such files whole, and so each reading has one version."""

    def __init__(self, path: ClusterPath, context: TreeContext, log_dir: LogDir, name: str) -> None:
        rights = context.rights
        super().__init__(path, context.clock, rights=rights, access=lambda: rights.of_files((log_dir.directory, name)))
        self._files = context.store.files
        self._file = log_dir.path / name

    def generate(self) -> Generated:
        """Read it."""
        data = read_small_file(self._files, self._file, CorruptMetadataError, CHECKPOINT_BYTES_MAX)
        status = self._files.status(self._file)
        return Generated(data, 0 if status is None else status.modified_ms)
