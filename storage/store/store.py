"""A store: one or more log directories, as one broker has them.

`Store` says which topics there are and what holds for them, opens their logs, and makes and deletes topics. It reads
what a broker is writing without changing a byte; to write, it takes the lock that brokers take. What is due when is
left to those who keep a store open.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from enum import Enum
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from storage.commit.commits import Commits
from storage.commit.ledger import Ledger
from storage.config import StoreConfig
from storage.errors import ReadOnlyStoreError, StorageError
from storage.log.followed_log import FollowedLog
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.creation import check_vacant, make_directories, write_store
from storage.log_dir.log_dir import distinct_log_dirs, lock_all
from storage.log_dir.meta_properties import check_agreement
from storage.log_dir.recognition import check_stores
from storage.log_dir.topic_names import CLUSTER_METADATA
from storage.store.beside import Beside
from storage.store.opening import FlushThread, LogOpener, followed_log
from storage.topics.checkpointing import lower_checkpoints, offsets_to_write, write_checkpoints, write_log_start
from storage.topics.open_logs import LogRequest, OpenLogs
from storage.topics.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    from storage.clock import Clock
    from storage.files import Directory, Files
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.topics.open_logs import OpenLog, PartitionLog

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Mode(Enum):
    """What a store is open for."""

    READ_ONLY = "read-only"  # while a broker may be writing; not one byte changes, and no lock is taken
    READ_WRITE = "read-write"  # locked, so that nobody else writes


class Store:
    """Log directories that are open together; made by `open` and `create`, and closed at the end.

    `open_log` says how logs are opened, which is a `LogOpener`'s way unless another is given. Any thread may call
    anything until it is closed. The log of the cluster's metadata is only ever followed: brokers alone change it, and
    recover it at each start, with or without the clean-shutdown marker.

    `unchanged` are log directories in which, as the caller knows, nothing was changed: their markers stay as they were.
    `beside` knows what became of copies and strays.
    """

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        *,
        mode: Mode,
        files: Files,
        clock: Clock,
        config: StoreConfig,
        open_log: OpenLog | None,
        entropy: Callable[[int], bytes],
    ) -> None:
        self.mode = mode
        self.config = config
        self.log_dirs = tuple(log_dirs)
        self.files = files
        self._clock = clock
        self._logs = OpenLogs(LogOpener(in_background=FlushThread()) if open_log is None else open_log)
        self.topics = Topics(
            self.log_dirs,
            self._logs,
            files=files,
            clock=clock,
            config=config,
            entropy=entropy,
            is_writable=mode is Mode.READ_WRITE,
            follow=self.follow_partition,
        )
        self.cluster = self.topics.cluster
        directories = [log_dir.path for log_dir in self.log_dirs]
        self._ledger = Ledger(files, directories)
        self.commits = Commits(self._ledger, files, clock, directories, self.topics, self._opened_log)
        self._clean = {each for each in log_dirs if each.is_clean() and self.has_marker(each)}
        self.unchanged: set[LogDir] = set()
        self.beside = Beside()
        self._checkpointing = RLock()
        self._is_closed = False

    # Opening

    @classmethod
    def open(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        mode: Mode,
        files: Files,
        clock: Clock,
        open_log: OpenLog | None = None,
        broker_settings: Mapping[str, str] = _NONE,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> Self:
        """The store in these log directories, as it is.

        Opened for writing, it counts as not closed properly from then on, and what a crash left of topics that were
        being made or deleted, and of a commit, is finished. Raises `NotAStoreError`, `StoreLockedError`,
        `DuplicatePartitionError`, `CorruptMetadataError` or `ConfigError`; then nothing has changed, and nobody is
        kept out.
        """
        config = StoreConfig.resolve(broker_settings)
        check_stores(files, paths)
        log_dirs = distinct_log_dirs(files, paths)
        with ExitStack() as unlocking:
            if mode is Mode.READ_WRITE:
                lock_all(log_dirs, unlocking)
            check_agreement({str(each.path): each.properties for each in log_dirs if each.properties is not None})
            store = cls(
                log_dirs, mode=mode, files=files, clock=clock, config=config, open_log=open_log, entropy=entropy
            )
            if mode is Mode.READ_WRITE:
                for log_dir in log_dirs:
                    log_dir.remove_clean_marker()
                store.topics.finish_interrupted()
                store.commits.finish_interrupted()
            unlocking.pop_all()
        return store

    @classmethod
    def create(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        files: Files,
        clock: Clock,
        open_log: OpenLog | None = None,
        broker_settings: Mapping[str, str] = _NONE,
        entropy: Callable[[int], bytes] = os.urandom,
        cluster_id: str | None = None,
        node_id: int = 1,
    ) -> Self:
        """A new store, open for writing, in directories that are empty, or that do not exist while their parents do.

        It is that node's of a KRaft cluster, by default of one of its own. Raises `NotAStoreError`, `StoreLockedError`
        or `ConfigError`; then there is no store.
        """
        config = StoreConfig.resolve(broker_settings)
        make_directories(files, [Path(path) for path in paths])
        log_dirs = distinct_log_dirs(files, paths)
        with ExitStack() as unlocking:
            lock_all(log_dirs, unlocking)
            check_vacant(files, [log_dir.path for log_dir in log_dirs])  # somebody else may have been faster
            write_store(clock, log_dirs, entropy, cluster_id=cluster_id, node_id=node_id)
            store = cls(
                log_dirs,
                mode=Mode.READ_WRITE,
                files=files,
                clock=clock,
                config=config,
                open_log=open_log,
                entropy=entropy,
            )
            store._clean.update(log_dirs)
            unlocking.pop_all()
        return store

    @property
    def is_made_here(self) -> bool:
        """Whether kafkafs made the store, and not a broker."""
        return self.topics.settings_file.current.is_made_here

    # Living

    def refresh(self) -> None:
        """See what is there by now; to be called now and then, as a broker may be writing or somebody remove things."""
        if self.mode is Mode.READ_ONLY:
            for log_dir in self.log_dirs:
                log_dir.forget_offsets()
            self.topics.look()
        else:
            self.topics.look_unless_changing()
        inventory = self.topics.inventory
        self._logs.parted.look(inventory)
        for (topic, partition), log in self._logs.open().items():
            place, directory = inventory.log_dir(topic, partition), inventory.directory(topic, partition)
            if isinstance(log, FollowedLog) and place is not None and directory is not None:
                log.checkpointed_start = place.offsets(OffsetCheckpoint.LOG_START).get((topic, partition), 0)
                if str(log.directory) != directory.path:
                    log.move(Path(directory))

    def look_again(self) -> None:
        """Do as `refresh` if partitions may have come or gone: for who does not find one where it was."""
        if self.may_have_changed():
            with suppress(StorageError):  # what is not found says so itself
                self.refresh()

    def may_have_changed(self) -> bool:
        """Whether partitions may have come or gone since that was last looked at; much cheaper than to look."""
        return any(log_dir.may_have_changed() for log_dir in self.log_dirs)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The partition's log, which is opened when it is first asked for.

        Raises `UnknownPartitionError`, and whatever opening raises, or completing a commit that is to be in the log;
        the next call then tries again.
        """
        if self.mode is Mode.READ_WRITE:
            self.commits.finish_for((topic, partition))
        return self._opened_log(topic, partition)

    def _opened_log(self, topic: str, partition: int) -> PartitionLog:
        if self._is_closed:
            raise StorageError("the store is closed", path=self.log_dirs[0].path)
        return self._logs.get((topic, partition), lambda: self.request(topic, partition))

    def request(self, topic: str, partition: int) -> LogRequest:
        """What there is to know of a log before it is opened; raises `UnknownPartitionError`."""
        directory, log_dir = self.topics.place(topic, partition)
        return LogRequest(
            self.files,
            self._clock,
            directory,
            topic,
            partition,
            self.topics.config(topic),
            self.topics.store_config(topic),
            is_writable=self.mode is Mode.READ_WRITE and topic != CLUSTER_METADATA,
            is_clean=self._is_clean(log_dir, (topic, partition)),
            recovery_point=log_dir.offsets(OffsetCheckpoint.RECOVERY_POINT).get((topic, partition), 0),
            start_offset=log_dir.offsets(OffsetCheckpoint.LOG_START).get((topic, partition), 0),
            allows_offset_gaps=self._allows_offset_gaps(log_dir, (topic, partition)),
            lower_checkpoints=lambda offset: lower_checkpoints(log_dir, (topic, partition), offset),
            checkpoint_start=lambda offset: write_log_start(log_dir, (topic, partition), offset),
            withheld=lambda: self._ledger.withheld((topic, partition)),
            look_again=self.look_again,
        )

    def _allows_offset_gaps(self, log_dir: LogDir, partition: Partition) -> bool:
        """Whether the partition was compacted once, or may have been: by a broker, or before that was lost."""
        was_compacted = partition in log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
        is_lost = log_dir.flaw(OffsetCheckpoint.FIRST_DIRTY) is not None
        return was_compacted or is_lost or not self.topics.is_made_here(partition[0])

    def has_marker(self, log_dir: LogDir) -> bool:
        """Whether the log directory has a marker once it is closed properly."""
        return not self.topics.inventory.has_only_metadata(log_dir)

    def was_clean(self, log_dir: LogDir) -> bool:
        """Whether the log directory's marker was there when the store was opened."""
        return log_dir in self._clean

    def _is_clean(self, log_dir: LogDir, partition: Partition) -> bool:
        """Whether whoever had the partition last closed it properly, and nobody tried to open it in vain since."""
        was_closed = log_dir in self._clean or partition in self.topics.made or partition in self._logs.recovered
        return was_closed and partition not in self._logs.failed

    def partitions_to_recover(self) -> list[Partition]:
        """The partitions that were not closed properly: each is recovered when its log is first opened for writing.

        Those are not among them that were opened or recovered since, or for which that failed.
        """
        if self.mode is Mode.READ_ONLY:
            return []
        unclean = [each for each in self.log_dirs if each not in self._clean and self.has_marker(each)]
        logs = self._logs.open_or_recovered()
        opened = {partition for partition, log in logs.items() if not isinstance(log, FollowedLog)}
        done = {*opened, *self._logs.failed, *self.topics.made}
        return [each for log_dir in unclean for each in self._partitions_in(log_dir) if each not in done]

    def recover_unopened(self, topic: str, partition: int, recover: OpenLog) -> bool:
        """Have a partition recovered that was not closed properly; False, and nothing is done, if it is open for that.

        What `recover` gives speaks of the log when the store is closed, unless it is opened until then. Raises
        `UnknownPartitionError`, and what recovering raises; then its log directory stays unclean.
        """
        return self._logs.recover((topic, partition), lambda: recover(self.request(topic, partition)))

    def follow_partition(self, topic: str, partition: int) -> FollowedLog:
        """The partition's log to be looked at alone, for where it cannot be opened to be written; nobody keeps it."""
        return followed_log(self.request(topic, partition))

    def follow(self, directory: Directory) -> FollowedLog:
        """The log in a directory that is no topic's partition, such as a stray one, to be looked at."""
        return FollowedLog(
            self.files,
            self._clock,
            directory,
            self.config.topic({}),
            producer_expiration_ms=self.config.producer_id_expiration_ms,
        )

    # Cleaning up

    def high_watermark(self, topic: str, partition: int, view: LogView) -> int:
        """The offset before which all is replicated: the end of the log, unless it is the replica of a broker.

        Of a replica that is known as of the last checkpoint.
        """
        if self.is_made_here or self.topics.is_made_here(topic):
            return view.end_offset
        _, log_dir = self.topics.place(topic, partition)
        checkpointed = log_dir.offsets(OffsetCheckpoint.HIGH_WATERMARK).get((topic, partition), 0)
        return min(max(checkpointed, view.start_offset), view.end_offset)

    def open_logs(self) -> Mapping[Partition, PartitionLog]:
        """The logs that are open now."""
        return self._logs.open()

    def write_checkpoints(self) -> None:
        """Bring the checkpoints of every log directory up to date, durably."""
        if self.mode is Mode.READ_ONLY:
            raise ReadOnlyStoreError("the store is open for reading only", path=self.log_dirs[0].path)
        with self._checkpointing:
            self._write_checkpoints(self._logs.open())

    def _write_checkpoints(self, logs: Mapping[Partition, PartitionLog]) -> None:
        for log_dir in self._log_dirs_there():
            write_checkpoints(log_dir, *self._checkpointed(log_dir, logs), leads=self.is_made_here)

    def checkpoints_to_write(
        self, log_dir: LogDir, logs: Mapping[Partition, PartitionLog]
    ) -> dict[OffsetCheckpoint, dict[Partition, int]]:
        """What the checkpoints of a log directory say once the store is closed with these logs open."""
        return offsets_to_write(log_dir, *self._checkpointed(log_dir, logs), leads=self.is_made_here)

    def _checkpointed(
        self, log_dir: LogDir, logs: Mapping[Partition, PartitionLog]
    ) -> tuple[set[Partition], dict[Partition, PartitionLog]]:
        return self.beside.checkpointed(self.topics.inventory, log_dir, logs)

    def _log_dirs_there(self) -> list[LogDir]:
        """The log directories that nobody has taken away: nothing is written where another lies in the place of one."""
        return [log_dir for log_dir in self.log_dirs if log_dir.is_there()]

    def _partitions_in(self, log_dir: LogDir) -> Iterable[Partition]:
        inventory = self.topics.inventory
        return (partition for partition in inventory.partitions() if inventory.log_dir(*partition) is log_dir)

    # Closing

    def close(self) -> None:
        """Close every log, say in checkpoints and clean markers how they were left, and let others have the store.

        A log directory is marked as closed properly if all that is in it was, by whoever had it last. Raises the first
        error after all else is done; closing twice is harmless.
        """
        with self._checkpointing, ExitStack() as unlocking:
            if self._is_closed:
                return
            self._is_closed = True
            for log_dir in self.log_dirs:
                unlocking.callback(log_dir.unlock)
            logs = self._logs.open_or_recovered()
            failures = self._logs.close_all()
            if self.mode is Mode.READ_WRITE:
                with suppress(OSError):  # whoever opens the logs next removes what is left
                    self.topics.removals.remove_files()
                self._write_checkpoints(logs)
                for log_dir in self._log_dirs_there():
                    if self.has_marker(log_dir) and self.was_closed_properly(log_dir, logs, failures):
                        log_dir.write_clean_marker(is_unchanged=log_dir in self.unchanged)
            for error in failures.values():
                raise error

    def was_closed_properly(
        self, log_dir: LogDir, logs: Mapping[Partition, PartitionLog], failures: Collection[Partition]
    ) -> bool:
        """Whether all that a broker would recover in a log directory was closed, or recovered, with these logs."""
        was_clean = log_dir in self._clean
        for partition in self._partitions_in(log_dir):
            log = logs.get(partition)
            if partition in failures or partition in self._logs.failed or (log is not None and log.is_poisoned):
                return False
            is_closed = log is not None and not isinstance(log, FollowedLog)
            if not is_closed and not was_clean and partition not in self.topics.made:
                return False
        return self.beside.is_closed(self.topics.inventory, log_dir, was_clean=was_clean)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
