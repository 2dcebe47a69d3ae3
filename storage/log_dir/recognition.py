"""Recognising a store: the one rule by which every command takes a directory for a log directory, or refuses it.

A log directory has `meta.properties`, an offset checkpoint or our settings file at its top, or a partition directory
with a segment in it. A directory that is called like a partition proves nothing: `polkit-1` is one in many systems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.errors import NotAStoreError
from storage.files import absolute_path
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.meta_properties import META_PROPERTIES_NAME
from storage.log_dir.names import parse_directory_name
from storage.log_dir.settings_file import SETTINGS_NAME
from storage.segment.names import Kind, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.files import Directory

CLEAN_MARKER_NAME: Final = ".kafka_cleanshutdown"
LOCK_NAME: Final = ".lock"
LOST_AND_FOUND: Final = "lost+found"
BACKUPS_NAME: Final = "kafkafs-backups.json"
"""The file of a directory of backups, whose runs lie in it."""
REVIVING_NAME: Final = "kafkafs-reviving.json"
"""The file of a store that is being revived: partitions may be missing until it is gone."""
RUN_MANIFEST_NAME: Final = "kafkafs-backup.jsonl"
"""The file of a backup's run, which shares files with other runs: nothing may be written to it."""

_OWN_NAMES: Final = (META_PROPERTIES_NAME, SETTINGS_NAME, *OffsetCheckpoint)
_EMPTY_NAMES: Final = frozenset({LOCK_NAME, LOST_AND_FOUND, CLEAN_MARKER_NAME})
_LOOKED_AT_MAX: Final = 1000  # of the directories below one that is no store


def check_stores(directories: Sequence[Directory]) -> None:
    """Raise `NotAStoreError` unless the directories are log directories.

    Of several, some may be bare, as a disk is that was added to a broker.
    """
    empty = []
    for directory in directories:
        _check_is_directory(directory)
        if _has_own_file(directory):  # no name is listed, of which there may be very many
            continue
        names = directory.names()
        if is_log_dir(directory, names):
            continue
        if not _EMPTY_NAMES.issuperset(names):
            raise NotAStoreError(_reason(directory, names), path=directory)
        empty.append(directory)
    if len(empty) == len(directories):
        raise NotAStoreError(
            "there is neither a meta.properties nor a partition in it: the directory is empty",
            path=empty[0],
        )


def check_revived(directory: Directory) -> None:
    """Raise `NotAStoreError` for a log directory that a revival has begun with and not finished."""
    if directory.status(REVIVING_NAME) is not None:
        raise NotAStoreError(
            "a revival was begun here and not finished, so that partitions may be missing: run the same kafkafs revive "
            "again first",
            path=directory,
        )


def is_bare(directory: Directory) -> bool:
    """True if nothing that a store has is in the directory: at most a lock, and a marker that was left in it."""
    try:
        return _EMPTY_NAMES.issuperset(directory.names())
    except FileNotFoundError:
        return True  # as in an object store, which has no empty directories


def is_log_dir(directory: Directory, names: Iterable[str]) -> bool:
    """True if the directory, which has these names in it, is a store's. Costs a listing of a few partitions at most."""
    here = set(names)
    if any(_is_file(directory, name) for name in _OWN_NAMES if name in here):
        return True
    return any(parse_directory_name(name) is not None and has_segment(directory.at(name)) for name in sorted(here))


def has_segment(directory: Directory) -> bool:
    """True if the directory has a segment in it, be it one that is deleted or about to be put in place."""
    try:
        names = map(parse_name, directory.names())
        return any(name is not None and name.kind is Kind.LOG for name in names)
    except OSError:
        return False


def _has_own_file(directory: Directory) -> bool:
    return any(_is_file(directory, name) for name in _OWN_NAMES)


def _check_is_directory(directory: Directory) -> None:
    status = directory.own_status()
    if status is None:
        raise NotAStoreError("there is no such directory", path=directory)
    if not status.is_directory:
        raise NotAStoreError("a store is a directory, and this is a file", path=directory)


def _reason(directory: Directory, names: Sequence[str]) -> str:
    """Return why the directory is no store, and which one may have been meant."""
    if has_segment(directory):
        parent = absolute_path(directory).rpartition("/")[0]
        return f"this is a partition directory, and no store; its store is its parent, {parent}"
    below = next((name for name in sorted(names)[:_LOOKED_AT_MAX] if _is_kept(directory.at(name))), None)
    meant = "" if below is None else f"; {directory.path_of(below)} is one"
    return f"this is no store: there is neither a meta.properties nor a partition with a segment in it{meant}"


def _is_kept(directory: Directory) -> bool:
    """True if the directory says itself that it is a store's."""
    return any(_is_file(directory, name) for name in _OWN_NAMES[:2])


def _is_file(directory: Directory, name: str) -> bool:
    try:
        status = directory.status(name)
    except OSError:
        return False
    return status is not None and not status.is_directory
