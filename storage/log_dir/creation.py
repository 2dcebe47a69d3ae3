"""Making a store: log directories that a broker of the same cluster takes for its own.

The settings file, which is the first thing written and the last, says whether a store is being made or is made. So a
crash leaves directories that are as good as empty, and no other store's identity is ever overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import NotAStoreError
from storage.files import TEMPORARY_SUFFIX
from storage.ids import format_id, random_id
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, MetaProperties, write_meta_properties
from storage.log_dir.recognition import LOCK_NAME, LOST_AND_FOUND
from storage.log_dir.settings_file import SETTINGS_NAME, TopicSettings, read_topic_settings, write_topic_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from storage.clock import Clock
    from storage.files import Files
    from storage.log_dir.log_dir import LogDir

_META_VERSION: Final = 1
_NOTHING: Final = frozenset({LOCK_NAME, LOST_AND_FOUND, f"{SETTINGS_NAME}{TEMPORARY_SUFFIX}"})
_BEGUN: Final = _NOTHING | {SETTINGS_NAME, META_PROPERTIES_NAME, f"{META_PROPERTIES_NAME}{TEMPORARY_SUFFIX}"}


def are_vacant(files: Files, paths: Sequence[Path]) -> bool:
    """True if a store can be made at the paths: at each is nothing, or an empty directory, or what a crash left of one.

    A directory is empty that has nothing but the `lost+found` of a file system in it.

    Whether what is to be made can be, as in a directory that does not exist, is not asked.
    """
    return _first_occupied(files, paths) is None


def make_directories(files: Files, paths: Sequence[Path]) -> None:
    """Have a vacant directory at each path; raises `NotAStoreError`, and makes none, where that cannot be."""
    check_vacant(files, paths)
    for path in paths:
        if files.status(path.parent) is None:
            raise NotAStoreError(f"its parent {path.parent} does not exist; make that first", path=path)
    for path in paths:
        if files.status(path) is None:
            files.make_directory(path)
            files.sync_directory(path.parent)


def check_vacant(files: Files, paths: Sequence[Path], *, is_replaced: bool = False) -> None:
    """Raise `NotAStoreError` where something is that a new store cannot be.

    A directory that is replaced by another may not even have a `lost+found` in it.
    """
    occupied = _first_occupied(files, paths, {LOST_AND_FOUND} if is_replaced else set())
    if occupied is not None:
        raise NotAStoreError("a store can be made of an empty directory only", path=occupied)


def write_store(
    clock: Clock,
    log_dirs: Sequence[LogDir],
    entropy: Callable[[int], bytes],
    *,
    cluster_id: str | None,
    node_id: int,
) -> None:
    """Make a store of vacant directories, which are locked: that node's of the cluster, or of a new one."""
    write_topic_settings(log_dirs[0].directory, TopicSettings(is_begun=True))
    cluster_id = cluster_id or format_id(random_id(entropy))
    for log_dir in log_dirs:
        properties = MetaProperties(_META_VERSION, cluster_id, node_id, random_id(entropy))
        write_meta_properties(log_dir.directory, properties, clock.now_ms())
        log_dir.properties = properties
    write_topic_settings(log_dirs[0].directory, TopicSettings(is_made_here=True, cluster_id=cluster_id))


def _first_occupied(files: Files, paths: Sequence[Path], forbidden: Collection[str] = ()) -> Path | None:
    for path in paths:
        files.add_root(path)
    settings = None if _names(files, paths[0]) is None else read_topic_settings(files.directory(paths[0]))
    allowed = (_BEGUN if settings is not None and settings.is_begun else _NOTHING).difference(forbidden)
    for path in paths:
        names = _names(files, path)
        if names is None or not allowed.issuperset(names):
            return path
    return None


def _names(files: Files, path: Path) -> list[str] | None:
    """List the directory, which may not exist yet; None if something else is there."""
    try:
        return files.names(path)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return None
