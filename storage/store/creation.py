"""Making a store: log directories that a broker of the same cluster takes for its own.

The settings file is written last and makes the store; until then a crash leaves directories that are as good as empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import NotAStoreError
from storage.ids import format_id, random_id
from storage.small_file import TEMPORARY_SUFFIX
from storage.store.log_dir import LOCK_NAME, LogDir
from storage.store.properties import META_PROPERTIES_NAME, MetaProperties, write_meta_properties
from storage.store.topic_settings import SETTINGS_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from storage.clock import Clock
    from storage.files import Files

_META_VERSION: Final = 1
_UNFINISHED: Final = frozenset(
    {
        LOCK_NAME,
        META_PROPERTIES_NAME,
        f"{META_PROPERTIES_NAME}{TEMPORARY_SUFFIX}",
        f"{SETTINGS_NAME}{TEMPORARY_SUFFIX}",
    }
)


def is_vacant(files: Files, path: Path) -> bool:
    """Whether a store can be made at the path: nothing is there, or an empty directory, or what a crash left of one."""
    try:
        return _UNFINISHED.issuperset(files.names(path))
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def make_directories(files: Files, paths: Sequence[Path]) -> None:
    """Have a vacant directory at each path; raises `NotAStoreError`, and makes none, where that cannot be."""
    for path in paths:
        if not is_vacant(files, path):
            raise NotAStoreError("a store can be made of an empty directory only", path=path)
        if files.status(path.parent) is None:
            raise NotAStoreError(
                f"neither it nor {path.parent}, which it would be made in, exists; make that first", path=path
            )
    for path in paths:
        if files.status(path) is None:
            files.make_directory(path)
            files.sync_directory(path.parent)


def write_identities(
    files: Files,
    clock: Clock,
    log_dirs: Sequence[LogDir],
    entropy: Callable[[int], bytes],
    *,
    cluster_id: str | None,
    node_id: int,
) -> None:
    """Say in vacant directories, which are locked, that they are of this node; of a new cluster if none is given."""
    cluster_id = cluster_id or format_id(random_id(entropy))
    for log_dir in log_dirs:
        properties = MetaProperties(_META_VERSION, cluster_id, node_id, random_id(entropy))
        write_meta_properties(files, log_dir.path, properties, clock.now_ms())
        log_dir.properties = properties
