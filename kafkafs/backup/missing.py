"""The log directories that a store has and a run would lack: on a disk that is not mounted, or not named by the user.

A run without one of them is sound, and has fewer partitions. Nothing but a sentence would tell it from one of a store
whose topics were deleted, so it is refused unless the user accepts it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.errors import StorageError
from storage.files import absolute_path
from storage.ids import format_id, is_reserved
from storage.log_dir import RUN_MANIFEST_NAME
from storage.topics import bare_directories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from kafkafs.backup.manifest import Manifest
    from storage.internal import ClusterImage
    from storage.log_dir import Partition
    from storage.store import Store

_LOG_DIRS_KEYS: Final = ("log.dirs", "log.dir")


def missing_log_dirs(store: Store, earlier: Iterable[Manifest]) -> list[str]:
    """Return a sentence about each log directory that the store seems to lack now.

    They are known by the broker's settings, by its metadata log, and by the complete run among the earlier ones.
    """
    found = empty_log_dirs(store)
    if any(each.directory.status(RUN_MANIFEST_NAME) is not None for each in store.log_dirs):
        return found  # a run, which has the partitions of all log directories in one
    return [*found, *_of_settings(store), *_of_metadata(store), *_of_earlier(store, earlier)]


def empty_log_dirs(store: Store) -> list[str]:
    """Return a sentence about each log directory that has nothing in it: a broker writes a file into each it has."""
    bare = bare_directories([each.directory for each in store.log_dirs])
    return [f"{each.path} is empty: its disk may not be mounted" for each in bare]


def _of_settings(store: Store) -> Iterator[str]:
    """Yield what `log.dirs` has besides the store's, which may be the same under other paths."""
    if not any(key in store.config.broker for key in _LOG_DIRS_KEYS):
        return
    named = dict.fromkeys(map(absolute_path, store.config.log_dirs))
    here = {absolute_path(each.path) for each in store.log_dirs}
    if len(named) > len(here):
        yield from (f"{path} is in the broker's log.dirs, and was not named" for path in named if path not in here)


def _of_metadata(store: Store) -> Iterator[str]:
    """Yield log directories by their ids that partitions of this broker are in, if these partitions are not here."""
    node_id = store.cluster.node_id
    ids = {None if each.properties is None else each.properties.directory_id for each in store.log_dirs}
    if node_id is None or None in ids:
        return
    found: dict[UUID, set[Partition]] = {}
    with suppress(StorageError, OSError):  # what cannot be read is damage, and named as such
        log = store.cluster.log()
        found = {} if log is None else log.ask(lambda image: _by_log_dir(image, node_id))
    here = store.topics.inventory.partitions()
    for directory_id in sorted(found.keys() - ids):
        absent = len(found[directory_id] - here)
        if absent:
            place = f"the log directory with the id {format_id(directory_id)}"
            yield f"{place}, in which this broker has {_partitions(absent)} by the metadata log, was not named"


def _by_log_dir(image: ClusterImage, node_id: int) -> dict[UUID, set[Partition]]:
    """Return the node's partitions by the log directory that they are in."""
    found: dict[UUID, set[Partition]] = {}
    for partition, directory_id in image.assigned_to(node_id).items():
        if directory_id is not None and not is_reserved(directory_id):
            found.setdefault(directory_id, set()).add(partition)
    return found


def _of_earlier(store: Store, earlier: Iterable[Manifest]) -> Iterator[str]:
    """Yield log directories of the run before whose partitions are not in the store any more, and that it lacks."""
    here = {absolute_path(each.path) for each in store.log_dirs}
    partitions = store.topics.inventory.partitions()
    for manifest in earlier:
        if manifest.tail is None:
            continue
        absent: dict[str, int] = {}
        for partition in manifest.lacking(partitions):
            log_dir = absolute_path(partition.log_dir)
            if log_dir not in here:
                absent[log_dir] = absent.get(log_dir, 0) + 1
        for log_dir, count in sorted(absent.items()):
            verb = "is" if count == 1 else "are"
            yield f"{log_dir}, from which the run before has {_partitions(count)} that {verb} not here, was not named"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"
