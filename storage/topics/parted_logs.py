"""Followed logs whose partitions are gone: kept for their readers, who go on once a partition is back.

A partition may be away for longer than it takes to look where it is: while an operator moves its directory, or while
its disk is mounted again. It is the same partition if its topic's id is the same. The logs are held weakly: one that
nothing follows is forgotten.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from storage.errors import StorageError
from storage.log.partition_metadata import read_topic_id

if TYPE_CHECKING:
    from storage.files import Directory
    from storage.log.followed_log import FollowedLog
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.inventory import Inventory

    Sizes = dict[str, int]

logger = logging.getLogger(__name__)


class _Parted(NamedTuple):
    """The partition of a log, and what was in the directory that may become the partition's again."""

    partition: Partition
    sizes: Sizes | None = None


class PartedLogs:
    """The logs that a store has parted with, because their partitions were gone. Any thread may use this."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._logs: WeakKeyDictionary[FollowedLog, _Parted] = WeakKeyDictionary()

    def part(self, partition: Partition, log: FollowedLog) -> None:
        """The partition is gone."""
        with self._lock:
            self._part(partition, log)

    def take(self, partition: Partition) -> FollowedLog | None:
        """Hand over the log of a partition that is back; None if there is none."""
        if not self._logs:  # as a rule
            return None
        with self._lock:
            for log, parted in list(self._logs.items()):
                if parted.partition == partition and not log.is_parted:
                    del self._logs[log]
                    return log
        return None

    def look(self, inventory: Inventory) -> None:
        """See which partitions are back, or are gone once more."""
        with self._lock:
            for log, parted in list(self._logs.items()):
                directory = inventory.directory(*parted.partition)
                if log.is_parted:
                    if directory is not None:
                        self._look_at(log, parted, directory)
                elif directory is None:
                    self._part(parted.partition, log)
                elif log.directory != directory:
                    log.move(directory)

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for log in list(self._logs):
                log.close()
            self._logs.clear()

    def _part(self, partition: Partition, log: FollowedLog) -> None:
        log.part()
        self._logs[log] = _Parted(partition)
        logger.warning(
            "%s-%d is gone from %s: open readers get nothing new until the partition is back",
            *partition,
            Path(log.directory).parent,
        )

    def _look_at(self, log: FollowedLog, parted: _Parted, directory: Directory) -> None:
        """Go on with a log whose partition has a directory again, if it is the same one and all of it is there."""
        topic_id, sizes = None, None
        with suppress(StorageError, OSError):  # while it is on its way, anything may be missing
            topic_id, sizes = read_topic_id(directory), _sizes(directory)
        if None not in (topic_id, log.topic_id) and topic_id != log.topic_id:
            del self._logs[log]
            logger.warning(
                "%s-%d in %s is another topic of the same name: readers of the one before get nothing new",
                *parted.partition,
                Path(directory).parent,
            )
        elif topic_id == log.topic_id or log.topic_id is None:
            if sizes is not None and (log.is_whole_with(sizes) or sizes == parted.sizes):
                log.move(directory)
                logger.warning("%s-%d is back, in %s", *parted.partition, Path(directory).parent)
            else:
                self._logs[log] = parted._replace(sizes=sizes)


def _sizes(directory: Directory) -> Sizes:
    found = ((name, directory.status(name)) for name in directory.names())
    return {name: status.size_bytes for name, status in found if status is not None}
