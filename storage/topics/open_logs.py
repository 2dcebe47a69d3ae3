"""The logs that a store has open: each is opened when it is first asked for, and once.

How a log is opened, and what that takes after a crash, is up to the function that is handed in.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from storage.errors import StorageError
from storage.log.followed_log import FollowedLog
from storage.topics.parted_logs import PartedLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.config import StoreConfig, TopicConfig
    from storage.files import Directory, Files
    from storage.log.followed_log import UncommittedRange
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition

logger = logging.getLogger(__name__)


class PartitionLog(Protocol):
    """What a store needs of a log; `close` brings everything to disk, with a producer snapshot, unless it is poisoned.

    What it says of itself stays true after it was closed.
    """

    config: TopicConfig

    @property
    def view(self) -> LogView:
        """The log as it is now."""

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""

    @property
    def is_poisoned(self) -> bool:
        """Whether writing failed, so that what is on disk is unknown."""

    def close(self) -> None:
        """Let go of every file. Closing twice is harmless."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """All that there is to know about a log before it is opened.

    If it `is_clean`, everything in it is on disk in the form that a closed log has; otherwise everything below
    `recovery_point` is on disk. It begins at `start_offset` or later, and `allows_offset_gaps` if a broker had it. Call
    `lower_checkpoints` before a truncation, so that no checkpoint says more of the log than the offset at which it then
    ends, and `checkpoint_start` before its start moves, so that the checkpoint says where to. A follower of the log
    does not show what is `withheld`, and calls `look_again` before it says that the log is gone.
    """

    files: Files
    clock: Clock
    directory: Directory
    topic: str
    partition: int
    config: TopicConfig
    store_config: StoreConfig
    is_writable: bool
    is_clean: bool
    recovery_point: int
    start_offset: int
    allows_offset_gaps: bool
    lower_checkpoints: Callable[[int], None]
    checkpoint_start: Callable[[int], None]
    withheld: Callable[[], UncommittedRange]
    look_again: Callable[[], None]


if TYPE_CHECKING:
    OpenLog: TypeAlias = Callable[[LogRequest], PartitionLog]


class OpenLogs:
    """Logs by their partitions. Any thread may ask; opening one holds up nobody who wants another.

    `failed` are those whose last opening or closing did not succeed, and may have left anything behind. `parted` are
    those of others whose partitions were gone, for when the partitions are back. `recovered` are those that were
    recovered without being opened.
    """

    def __init__(self, open_log: OpenLog) -> None:
        self._open_log = open_log
        self._lock = Lock()  # held while the slots are looked at, never while a log is opened or closed
        self._slots: dict[Partition, _Slot] = {}
        self.failed: set[Partition] = set()
        self.parted = PartedLogs()
        self.recovered: dict[Partition, PartitionLog] = {}

    def get(self, partition: Partition, request: Callable[[], LogRequest]) -> PartitionLog:
        """The partition's log, opened as the request says unless it is open."""
        while True:
            with self._lock:
                slot = self._slots.setdefault(partition, _Slot())
            with slot.lock:
                if slot.is_closed:
                    continue  # by somebody who came in between; there is a new slot, or there will be
                if slot.log is None:
                    asked = request()
                    slot.log = self.parted.take(partition)
                if slot.log is None:
                    self.failed.add(partition)
                    slot.log = self._open_log(asked)
                    self.failed.discard(partition)
                return slot.log

    def recover(self, partition: Partition, recover: Callable[[], PartitionLog]) -> bool:
        """Recover a log without opening it; False, and nothing is done, if it is open to be written.

        A caller that asks for the log waits until this is done. Raises what `recover` raises.
        """
        with self._lock:
            slot = self._slots.setdefault(partition, _Slot())
        with slot.lock:
            if slot.is_closed or (slot.log is not None and not isinstance(slot.log, FollowedLog)):
                return False
            self.failed.add(partition)
            self.recovered[partition] = recover()
            self.failed.discard(partition)
            return True

    def open_or_recovered(self) -> dict[Partition, PartitionLog]:
        """Those that are open, and those that were recovered without being opened, or while they were only followed."""
        writable = {partition: log for partition, log in self.open().items() if not isinstance(log, FollowedLog)}
        return {**self.open(), **self.recovered, **writable}

    def open(self) -> dict[Partition, PartitionLog]:
        """Those that are open."""
        with self._lock:
            return {partition: slot.log for partition, slot in self._slots.items() if slot.log is not None}

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
        """Close every log; gives the errors of those that could not be closed properly."""
        failures: dict[Partition, StorageError | OSError] = {}
        self.parted.close()
        for partition in self.open():
            try:
                self.close(partition)
            except (StorageError, OSError) as error:
                failures[partition] = error
        return failures

    def discard(self, partitions: Collection[Partition]) -> None:
        """Close logs of which nothing is wanted any more, so that it is all the same whether that succeeds.

        Those of others are kept for who follows them: their partitions may come back.
        """
        for partition in partitions:
            log = self.open().get(partition)
            try:
                if isinstance(log, FollowedLog):
                    self._part(partition)
                else:
                    self.close(partition)
            except (StorageError, OSError) as error:
                logger.warning("closing %s-%d, which is gone: %s", *partition, error)
            self.recovered.pop(partition, None)


class _Slot:
    """A place for a log, which stays empty while it is being opened."""

    __slots__ = ("is_closed", "lock", "log")

    def __init__(self) -> None:
        self.is_closed = False
        self.lock = Lock()
        self.log: PartitionLog | None = None
