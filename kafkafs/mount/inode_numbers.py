"""Inode numbers: `st_ino` of the node at a path, until another node takes its place.

Numbers of records and of a partition's views are computed, so they are the same however often the kernel forgets and
asks again. All are below 2^63. A partition that takes the place of another of the same name has another number, and so
has all that is in it; no partition's number is used twice.

    kind 3 bits | partition 20 bits | offset or view 40 bits

A kind is a record's format, or `_VIEW`. Partition 0 is none: its numbers are for nodes outside of this scheme.
"""

from __future__ import annotations

import zlib
from itertools import count
from typing import TYPE_CHECKING, Final

from kafkafs.locator.formats import Format
from kafkafs.locator.offsets import AtOffset
from kafkafs.locator.paths import (
    OffsetPath,
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    UnattachedPath,
)
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View

if TYPE_CHECKING:
    from kafkafs.locator.paths import LogPath, TreePath

ROOT_NUMBER: Final = 1
PARTITIONS_MAX: Final = 1 << 20
OFFSETS_MAX: Final = 1 << 40

_DIGEST: Final = 1 << 39
_KINDS: Final = {form: kind for kind, form in enumerate(Format)}
_VIEW: Final = 7
_VIEWS: Final = {view: number for number, view in enumerate(View, start=1)}
_DIRECTORIES: Final = {_VIEWS[view]: view for view in PARTITION_VIEWS.values() if view.kind is Kind.DIRECTORY}

assert len(_KINDS) <= _VIEW


def log_of(path: TreePath) -> LogPath | None:
    """Return the log that a path belongs to, if any."""
    if isinstance(path, PartitionPath | UnattachedPath):
        return path
    return getattr(path, "log", None)


class InodeNumbers:
    """The numbers of a session."""

    def __init__(self) -> None:
        self._unused = count(ROOT_NUMBER + 1)
        self._partitions: dict[LogPath, tuple[int, int]] = {}  # the identity of each, and its number
        self._logs: dict[int, LogPath] = {}  # by their numbers
        self._partition_numbers = count(1)

    def fresh(self) -> int:
        """Return an unused number outside of all partitions."""
        return next(self._unused)

    def know(self, path: TreePath, identity: int) -> None:
        """Note the node that was found at a path, which may be in a new partition."""
        if isinstance(path, PartitionPath | UnattachedPath):
            known = self._partitions.get(path)
            if known is None or known[0] != identity:
                number = next(self._partition_numbers)
                self._partitions[path] = (identity, number)
                self._logs[number] = path
                if known is not None:
                    self._logs.pop(known[1], None)

    def computed(self, path: TreePath) -> int | None:
        """Return the computed number of a record or a view in a known partition, and None for other paths."""
        match path:
            case OffsetPath(log, name) if isinstance(name.records, AtOffset) and name.records.offset < OFFSETS_MAX:
                return self._computed(_KINDS[name.format], log, name.records.offset)
            case PartitionPath() | UnattachedPath():
                return self._computed(_VIEW, path, 0)
            case PartitionDirectoryPath(log, view) | PartitionFilePath(log, view):
                return self._computed(_VIEW, log, _VIEWS[view])
            case _:
                return None

    def of_name(self, path: TreePath) -> int | None:
        """Return a number that a path in a known partition has every time, where none is computed for it.

        It is no other path's as far as hashes of 39 bits differ, so it may name only what is kept for a moment.
        """
        log = log_of(path)
        return None if log is None else self._computed(_VIEW, log, _DIGEST | hash(str(path)) & _DIGEST - 1)

    def directory_of(self, number: int) -> PartitionDirectoryPath | None:
        """Return the directory in a known partition that has this computed number, if one has it."""
        kind, partition, view = number >> 60, number >> 40 & PARTITIONS_MAX - 1, number & OFFSETS_MAX - 1
        log, directory = self._logs.get(partition), _DIRECTORIES.get(view)
        return None if kind != _VIEW or log is None or directory is None else PartitionDirectoryPath(log, directory)

    def _computed(self, kind: int, log: LogPath, place: int) -> int | None:
        _, partition = self._partitions.get(log, (0, PARTITIONS_MAX))
        return kind << 60 | partition << 40 | place if partition < PARTITIONS_MAX else None


def digest(path: TreePath | None) -> int:
    """Return a number to show where none can be computed. It is stable for a node, but perhaps not unique."""
    return _DIGEST | zlib.crc32(str(path).encode(errors="surrogateescape"))
