"""The logs that a store has open: each is opened when it is first asked for, and once.

The store says how: a log is opened to be written, or followed.
"""

from __future__ import annotations

import logging
import operator
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from storage.budget import MEMORY
from storage.errors import StorageError
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.topics.parted_logs import PartedLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from storage.config import TopicConfig
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.inventory import Inventory
    from storage.log_dir.log_dir import LogDir
    from storage.topics.checkpointing import LogOffsets

PartitionLog: TypeAlias = Log | FollowedLog
"""A log as a store has it: open to be written, or followed."""

logger = logging.getLogger(__name__)


class OpenLogs:
    """Logs by their partitions. Any thread may ask; opening one holds up no caller who wants another.

    `failed` are those whose last opening or closing failed, and may have left anything on disk. `parted` are followed
    logs whose partitions were gone, for when the partitions are back. `recovered` are those that were recovered without
    being opened.
    """

    def __init__(self) -> None:
        self._lock = Lock()  # held while the slots are looked at, never while a log is opened or closed
        self._slots: dict[Partition, _Slot] = {}
        self._new: set[Partition] = set()  # opened since followers were last told
        self._told: tuple[object, ...] = ()  # what they were told
        self.failed: set[Partition] = set()
        self.parted = PartedLogs()
        self.recovered: dict[Partition, LogOffsets] = {}

    def get(self, partition: Partition, prepare: Callable[[], Callable[[], PartitionLog]]) -> PartitionLog:
        """Return the partition's log, and open it by `prepare` if necessary.

        Raises `MustWaitError` in a thread that may not wait while another opens the log.
        """
        while True:
            with self._lock:
                slot = self._slots.setdefault(partition, _Slot())
            MEMORY.acquire(slot.lock)
            try:
                if slot.is_closed:
                    continue  # by another thread; there is a new slot, or there will be
                if slot.log is None:
                    slot.log = self._opened(partition, prepare())
                    with self._lock:
                        self._new.add(partition)
                return slot.log
            finally:
                slot.lock.release()

    def _opened(self, partition: Partition, open_log: Callable[[], PartitionLog]) -> PartitionLog:
        log: PartitionLog | None = self.parted.take(partition)
        if log is None:
            self.failed.add(partition)
            log = open_log()
            self.failed.discard(partition)
        return log

    def recover(self, partition: Partition, prepare: Callable[[], Callable[[], LogOffsets]]) -> LogOffsets | None:
        """Recover a log without opening it, by `prepare`; None, and nothing is done, if it is being written.

        A caller that asks for the log waits until this is done. Raises what recovering raises.
        """
        with self._lock:
            slot = self._slots.setdefault(partition, _Slot())
        with slot.lock:
            if slot.is_closed or (slot.log is not None and not isinstance(slot.log, FollowedLog)):
                return None
            recover = prepare()
            self.failed.add(partition)
            offsets = self.recovered[partition] = recover()
            self.failed.discard(partition)
            return offsets

    def open(self) -> dict[Partition, PartitionLog]:
        """Those that are open."""
        with self._lock:
            return {partition: slot.log for partition, slot in self._slots.items() if slot.log is not None}

    def find(self, partition: Partition) -> PartitionLog | None:
        """Return a partition's log if it is open."""
        with self._lock:
            slot = self._slots.get(partition)
        return None if slot is None else slot.log

    def written(self) -> dict[Partition, Log]:
        """Those that are open to be written."""
        return {partition: log for partition, log in self.open().items() if not isinstance(log, FollowedLog)}

    def tell_followers(self, inventory: Inventory, log_dirs: Sequence[LogDir]) -> None:
        """Tell the logs that are followed where they are by now, and from which offset on.

        If neither has changed, only those are told that were opened since the last call.
        """
        with self._lock:
            new, self._new = self._new, set()
        is_known = all(map(operator.is_, self._told, _to_tell(inventory, log_dirs)))
        if is_known and not new:
            return
        for topic, partition in new if is_known else self.open():
            log = self.find((topic, partition))
            found, directory = inventory.log_dir(topic, partition), inventory.directory(topic, partition)
            if isinstance(log, FollowedLog) and found is not None and directory is not None:
                log.checkpointed_start = found.offsets(OffsetCheckpoint.LOG_START).get((topic, partition), 0)
                if log.directory != directory:
                    log.move(directory)
        self._told = _to_tell(inventory, log_dirs)

    def _part(self, partition: Partition) -> None:
        with self._lock:
            slot = self._slots.pop(partition, None)
        if slot is not None:
            with slot.lock:
                slot.is_closed = True
                if isinstance(slot.log, FollowedLog):
                    self.parted.part(partition, slot.log)

    def configure(self, topic: str, config: TopicConfig) -> None:
        """Let this hold for the topic's logs, those included that are being opened with what held before."""
        with self._lock:
            slots = [slot for partition, slot in self._slots.items() if partition[0] == topic]
        for slot in slots:
            with slot.lock:
                if slot.log is not None:
                    slot.log.config = config

    def close(self, partition: Partition) -> None:
        """Close the partition's log, if it is open; a later `get` opens it again.

        Raises as the log's `close` does. Then, and after an exception that has nothing to do with the log, the
        partition is among those that `failed`.
        """
        with self._lock:
            slot = self._slots.pop(partition, None)
        if slot is not None:
            with slot.lock:
                slot.is_closed = True
                if slot.log is not None:
                    self.failed.add(partition)
                    slot.log.close()
                    self.failed.discard(partition)

    def close_all(self) -> dict[Partition, StorageError | OSError]:
        """Close every log; returns the errors of those that could not be closed properly."""
        failures: dict[Partition, StorageError | OSError] = {}
        self.parted.close()
        for partition in self.open():
            try:
                self.close(partition)
            except (StorageError, OSError) as error:
                failures[partition] = error
        return failures

    def discard(self, partitions: Collection[Partition]) -> None:
        """Close the logs of partitions that are gone; an error is logged, and does not matter.

        Logs that are followed are kept for their readers: the partitions may come back.
        """
        for partition in partitions:
            log = self.find(partition)
            try:
                if isinstance(log, FollowedLog):
                    self._part(partition)
                else:
                    self.close(partition)
            except (StorageError, OSError) as error:
                logger.warning("closing %s-%d, which is gone: %s", *partition, error)
            self.recovered.pop(partition, None)


def _to_tell(inventory: Inventory, log_dirs: Sequence[LogDir]) -> tuple[object, ...]:
    """Return what followers are told, as objects that are replaced when they change."""
    return (inventory, *(log_dir.known_offsets(OffsetCheckpoint.LOG_START) for log_dir in log_dirs))


class _Slot:
    """A place for a log, which stays empty while it is being opened."""

    __slots__ = ("is_closed", "lock", "log")

    def __init__(self) -> None:
        self.is_closed = False
        self.lock = Lock()
        self.log: PartitionLog | None = None
