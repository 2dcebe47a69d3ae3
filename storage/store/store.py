"""A store: one or more log directories, as one broker has them.

`Store` says which topics there are and what holds for them, opens their logs, and makes and deletes topics. It reads
what a broker is writing without changing a byte; to write, it takes the lock that brokers take. What is due when is
left to those who keep a store open.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from enum import Enum
from functools import partial
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from storage.budget import MEMORY
from storage.commit.commits import Commits
from storage.commit.ledger import Ledger
from storage.config import StoreConfig
from storage.errors import ReadOnlyStoreError, StorageError
from storage.files import bound
from storage.log.followed_log import FollowedLog
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.creation import check_vacant, make_directories, write_store
from storage.log_dir.log_dir import distinct_log_dirs
from storage.log_dir.meta_properties import check_agreement
from storage.log_dir.names import CLUSTER_METADATA
from storage.log_dir.recognition import check_stores
from storage.store.log_dirs_kept import locked_log_dirs
from storage.store.log_opener import FlushThread, LogOpener, LogRequest
from storage.store.shutdown import Shutdown
from storage.topics.checkpointing import LogOffsets, PartitionCheckpoints
from storage.topics.open_logs import OpenLogs
from storage.topics.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from storage.clock import Clock
    from storage.files import Directory, Files
    from storage.log.followed_log import UncommittedRange
    from storage.log.log import Log
    from storage.log.view import LogView
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.store.log_opener import OpenLog
    from storage.topics.open_logs import PartitionLog

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Mode(Enum):
    """The purpose for which a store is open."""

    READ_ONLY = "read-only"  # while a broker may be writing; not one byte changes, and no lock is taken
    READ_WRITE = "read-write"  # locked, so that no other process writes


class Store:
    """Log directories that are open together; made by `open` and `create`, and closed at the end.

    `open_log` opens the logs that are written, as a `LogOpener` does. Any thread may call anything until the store is
    closed. The log of the cluster's metadata is only ever followed: brokers alone change it, and recover it at each
    start, with or without the clean-shutdown marker.
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
        self._open_log = LogOpener(in_background=FlushThread()) if open_log is None else open_log
        self._logs = OpenLogs()
        self.topics = Topics(
            self.log_dirs,
            self._logs,
            clock=clock,
            config=config,
            entropy=entropy,
            is_writable=mode is Mode.READ_WRITE,
            follow=self.follow_partition,
        )
        self.cluster = self.topics.cluster
        directories = [log_dir.directory for log_dir in self.log_dirs]
        self._ledger = Ledger(directories)
        self.commits = Commits(self._ledger, clock, directories, self.topics, self._opened_to_write)
        self.shutdown = Shutdown(self.log_dirs, self.topics)
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
        completes_commit: bool = True,
    ) -> Self:
        """Open the store in these log directories, as it is.

        Opened for writing, it counts as not closed properly from then on. What a crash left of topics that were being
        made or deleted is finished, and so is a commit, unless the caller says that nothing `completes_commit` yet.
        Raises `NotAStoreError`, `StoreLockedError`, `DuplicatePartitionError`, `CorruptMetadataError` or `ConfigError`;
        then nothing has changed, and the store is not locked.
        """
        config = StoreConfig.resolve(broker_settings)
        directories = [files.add_root(Path(path)) for path in paths]
        with ExitStack() as unlocking:
            if mode is Mode.READ_WRITE:
                log_dirs = locked_log_dirs(directories, unlocking, check_stores)
            else:
                check_stores(directories)
                log_dirs = distinct_log_dirs(directories)
            check_agreement({str(each.path): each.properties for each in log_dirs if each.properties is not None})
            store = cls(
                log_dirs, mode=mode, files=files, clock=clock, config=config, open_log=open_log, entropy=entropy
            )
            if mode is Mode.READ_WRITE:
                for log_dir in log_dirs:
                    log_dir.remove_clean_marker()
                store.topics.finish_interrupted()
                if completes_commit:
                    store.commits.finish_interrupted()
                store.commits.remove_old()
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
        directories = [files.add_root(Path(path)) for path in paths]
        make_directories(files, directories)
        with ExitStack() as unlocking:
            log_dirs = locked_log_dirs(directories, unlocking, check_vacant)
            check_vacant(directories)  # somebody else may have been faster
            write_store(clock, log_dirs, entropy, cluster_id=cluster_id, node_id=node_id)
            mode = Mode.READ_WRITE
            store = cls(
                log_dirs, mode=mode, files=files, clock=clock, config=config, open_log=open_log, entropy=entropy
            )
            store.shutdown.count_as_clean()
            unlocking.pop_all()
        return store

    @property
    def is_made_here(self) -> bool:
        """True if kafkafs made the store, and not a broker."""
        return self.topics.is_store_made_here

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
        self._logs.tell_followers(inventory, self.log_dirs)

    def look_again(self) -> None:
        """Do as `refresh` if partitions may have come or gone: for callers that miss one."""
        if self.may_have_changed():
            with suppress(StorageError):  # what is not found says so itself
                self.refresh()

    def may_have_changed(self) -> bool:
        """True if partitions may have come or gone since that was last looked at; much cheaper than to look."""
        return any(log_dir.may_have_changed() for log_dir in self.log_dirs)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The partition's log, which is opened when it is first asked for: to be written where it can be.

        Raises `UnknownPartitionError`, what opening raises, and what completing a commit raises that is to be in the
        log; the next call then tries again.
        """
        if self.mode is Mode.READ_WRITE:
            self.commits.finish_for((topic, partition))
        return self._opened_log(topic, partition)

    def log_to_write(self, topic: str, partition: int) -> Log:
        """As `log`; raises `ReadOnlyStoreError` for a log that is only followed."""
        return _to_write(self.log(topic, partition), self)

    def _opened_to_write(self, topic: str, partition: int) -> Log:
        return _to_write(self._opened_log(topic, partition), self)

    def _opened_log(self, topic: str, partition: int) -> PartitionLog:
        if self._is_closed:
            raise StorageError("the store is closed", path=self.log_dirs[0].path)
        return self._logs.get((topic, partition), lambda: self._opener(topic, partition))

    def _opener(self, topic: str, partition: int) -> Callable[[], PartitionLog]:
        """Return what opens the log; raises `UnknownPartitionError`.

        Raises `MustWaitError` in a thread that may not wait: recovery may take long.
        """
        if self.mode is Mode.READ_ONLY or topic == CLUSTER_METADATA:
            return partial(self.follow_partition, topic, partition)
        MEMORY.check_lease()
        _, log_dir = self.topics.location(topic, partition)
        checkpoints = PartitionCheckpoints(log_dir, (topic, partition))
        return partial(self._open_log, self.request(topic, partition), checkpoints)

    def request(self, topic: str, partition: int) -> LogRequest:
        """All that recovery has to know of a log; raises `UnknownPartitionError`, and as `Topics.topic_id` does."""
        directory, log_dir = self.topics.location(topic, partition)
        self.topics.topic_id(topic)  # no log is written by settings that may be another topic's
        return LogRequest(
            self._clock,
            bound(directory),
            (topic, partition),
            self.topics.config(topic),
            self.topics.store_config(topic).producer_id_expiration_ms,
            is_clean=self._is_clean(log_dir, (topic, partition)),
            recovery_point=log_dir.offsets(OffsetCheckpoint.RECOVERY_POINT).get((topic, partition), 0),
            start_offset=log_dir.offsets(OffsetCheckpoint.LOG_START).get((topic, partition), 0),
            allows_offset_gaps=self._allows_offset_gaps(log_dir, (topic, partition)),
        )

    def _allows_offset_gaps(self, log_dir: LogDir, partition: Partition) -> bool:
        """True if the partition was compacted once, or may have been: by a broker, or before that was lost."""
        was_compacted = partition in log_dir.offsets(OffsetCheckpoint.FIRST_DIRTY)
        is_lost = log_dir.flaw(OffsetCheckpoint.FIRST_DIRTY) is not None
        return was_compacted or is_lost or not self.topics.is_made_here(partition[0])

    def _is_clean(self, log_dir: LogDir, partition: Partition) -> bool:
        """True if the partition was closed properly, and no opening of it has failed since."""
        was_clean = self.shutdown.was_clean(log_dir)
        was_closed = was_clean or partition in self.topics.made or partition in self._logs.recovered
        return was_closed and partition not in self._logs.failed

    def partitions_to_recover(self) -> list[Partition]:
        """The partitions that were not closed properly: each is recovered when its log is first opened for writing.

        Those are not among them that were opened or recovered since, or for which that failed.
        """
        if self.mode is Mode.READ_ONLY:
            return []
        done = {*self._logs.written(), *self._logs.recovered, *self._logs.failed, *self.topics.made}
        return [each for each in self.shutdown.unclean_partitions() if each not in done]

    def recover_unopened(
        self, topic: str, partition: int, recover: Callable[[LogRequest], LogOffsets]
    ) -> LogOffsets | None:
        """Recover a partition that was not closed properly; None, and nothing is done, if it is open for writing.

        What `recover` returns goes into the checkpoints when the store is closed, unless the log is opened until then.
        Raises `UnknownPartitionError`, and what recovering raises; then its log directory stays unclean.
        """
        return self._logs.recover((topic, partition), lambda: partial(recover, self.request(topic, partition)))

    def follow_partition(
        self, topic: str, partition: int, *, withheld: Callable[[], UncommittedRange] | None = None
    ) -> FollowedLog:
        """The partition's log, to be read only, for where it cannot be opened to be written. The caller keeps it.

        It shows nothing of a commit under way, or of what the caller says is `withheld` instead.
        """
        directory, log_dir = self.topics.location(topic, partition)
        return FollowedLog(
            self._clock,
            directory,
            self.topics.config(topic),
            start_offset=log_dir.offsets(OffsetCheckpoint.LOG_START).get((topic, partition), 0),
            recovery_point=log_dir.offsets(OffsetCheckpoint.RECOVERY_POINT).get((topic, partition), 0),
            producer_expiration_ms=self.topics.store_config(topic).producer_id_expiration_ms,
            withheld=partial(self._ledger.withheld, (topic, partition)) if withheld is None else withheld,
            look_again=self.look_again,
        )

    def follow(self, directory: Directory) -> FollowedLog:
        """The log in a directory that is no topic's partition, such as a stray one, to be looked at."""
        return FollowedLog(
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
        _, log_dir = self.topics.location(topic, partition)
        checkpointed = log_dir.offsets(OffsetCheckpoint.HIGH_WATERMARK).get((topic, partition), 0)
        return min(max(checkpointed, view.start_offset), view.end_offset)

    def open_logs(self) -> Mapping[Partition, PartitionLog]:
        """The logs that are open now."""
        return self._logs.open()

    def log_if_open(self, topic: str, partition: int) -> PartitionLog | None:
        """Return a partition's log if it is open now."""
        return self._logs.find((topic, partition))

    def written_logs(self) -> Mapping[Partition, Log]:
        """Those of the open logs that are open to be written."""
        return self._logs.written()

    def write_checkpoints(self) -> None:
        """Bring the checkpoints of every log directory up to date, durably."""
        if self.mode is Mode.READ_ONLY:
            raise ReadOnlyStoreError("the store is open for reading only", path=self.log_dirs[0].path)
        with self._checkpointing:
            self.shutdown.write_checkpoints(_offsets_of(self._logs.written()))

    # Closing

    def close(self) -> None:
        """Close every log, say in checkpoints and clean markers how they were left, and unlock the log directories.

        A log directory is marked as closed properly if all its logs were, also by earlier processes. Raises the first
        error after all else is done; closing twice is harmless.
        """
        with self._checkpointing, ExitStack() as unlocking:
            if self._is_closed:
                return
            self._is_closed = True
            for log_dir in self.log_dirs:
                unlocking.callback(log_dir.unlock)
            written = self._logs.written()
            failures = self._logs.close_all()
            if self.mode is Mode.READ_WRITE:
                with suppress(OSError):  # the next opening of the logs removes what is left
                    self.topics.removals.remove_files()
                self.shutdown.write_checkpoints({**self._logs.recovered, **_offsets_of(written)})
                poisoned = (partition for partition, log in written.items() if log.is_poisoned)
                failed = {*failures, *self._logs.failed, *poisoned}
                self.shutdown.write_markers({*written, *self._logs.recovered}, failed)
            for error in failures.values():
                raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _offsets_of(logs: Mapping[Partition, Log]) -> dict[Partition, LogOffsets]:
    return {partition: LogOffsets.of(log) for partition, log in logs.items()}


def _to_write(log: PartitionLog, store: Store) -> Log:
    if isinstance(log, FollowedLog):
        raise ReadOnlyStoreError("the store is open for reading only", path=store.log_dirs[0].path)
    return log
