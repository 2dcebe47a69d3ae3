"""Making a store: log directories that a broker of the same cluster takes for its own.

The settings file, which is the first thing written and the last, says whether a store is being made or is made. So a
crash leaves directories that are as good as empty, and no other store's identity is ever overwritten.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import NotAStoreError
from storage.files import TEMPORARY_SUFFIX
from storage.ids import format_id, random_id
from storage.log_dir.meta_properties import META_PROPERTIES_NAME, MetaProperties, write_meta_properties
from storage.log_dir.recognition import LOCK_NAME, LOST_AND_FOUND
from storage.log_dir.settings_file import SETTINGS_NAME, SettingsFileContents, read_settings_file, write_settings_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from storage.clock import Clock
    from storage.files import Directory, Files
    from storage.log_dir.log_dir import LogDir

_META_VERSION: Final = 1
_NOTHING: Final = frozenset({LOCK_NAME, LOST_AND_FOUND, f"{SETTINGS_NAME}{TEMPORARY_SUFFIX}"})
_BEGUN: Final = _NOTHING | {SETTINGS_NAME, META_PROPERTIES_NAME, f"{META_PROPERTIES_NAME}{TEMPORARY_SUFFIX}"}


def are_vacant(directories: Sequence[Directory]) -> bool:
    """True if a store can be made of these: each is empty, or does not exist, or has what a crash left of a new one.

    A directory is empty that has nothing but the `lost+found` of a file system in it.

    Whether what is to be made can be, as in a directory that does not exist, is not asked.
    """
    return _first_occupied(directories) is None


def make_directories(files: Files, directories: Sequence[Directory]) -> None:
    """Make the missing directories, all of which must be vacant; raises `NotAStoreError`, and makes none, otherwise."""
    check_vacant(directories)
    parents = [files.directory(Path(directory).parent) for directory in directories]
    for directory, parent in zip(directories, parents, strict=True):
        if parent.own_status() is None:
            raise NotAStoreError(f"its parent {parent} does not exist; make that first", path=directory)
    for directory, parent in zip(directories, parents, strict=True):
        if directory.own_status() is None:
            directory.make()
            parent.sync()


def check_vacant(directories: Sequence[Directory], *, is_replaced: bool = False) -> None:
    """Raise `NotAStoreError` where something is that a new store cannot be.

    A directory that is replaced by another may not even have a `lost+found` in it.
    """
    occupied = _first_occupied(directories, {LOST_AND_FOUND} if is_replaced else set())
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
    write_settings_file(log_dirs[0].directory, SettingsFileContents(is_begun=True))
    cluster_id = cluster_id or format_id(random_id(entropy))
    for log_dir in log_dirs:
        properties = MetaProperties(_META_VERSION, cluster_id, node_id, random_id(entropy))
        write_meta_properties(log_dir.directory, properties, clock.now_ms())
        log_dir.properties = properties
    write_settings_file(log_dirs[0].directory, SettingsFileContents(is_made_here=True, cluster_id=cluster_id))


def _first_occupied(directories: Sequence[Directory], forbidden: Collection[str] = ()) -> Directory | None:
    listings = [(directory, _names(directory)) for directory in directories]
    first, names_of_first = listings[0]
    settings = None if names_of_first is None else read_settings_file(first)
    allowed = (_BEGUN if settings is not None and settings.is_begun else _NOTHING).difference(forbidden)
    for directory, names in listings:
        if names is None or not allowed.issuperset(names):
            return directory
    return None


def _names(directory: Directory) -> list[str] | None:
    """List the directory, which may not exist yet; None if something else is there."""
    try:
        return directory.names()
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        return None
