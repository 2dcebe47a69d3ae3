"""The logs of a store for the tree: its topics, and the source of each partition's views."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.paths import PartitionPath
from kafkafs.tree.batch_cache import BatchCache
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.opened_logs import OpenedLogs
from storage.errors import StorageError, UnknownPartitionError
from storage.files import taking_turns
from storage.log import Log
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkafs.locator.paths import LogPath, UnattachedPath
    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.rights import Rights
    from storage.clock import Clock
    from storage.log import FollowedLog
    from storage.log_dir import Inventory, LogDir
    from storage.store import Store

_REFRESH_S: Final = 0.5


class _Found(NamedTuple):
    """A source, and the state of the store when it was found."""

    source: LogSource
    inventory: Inventory


class _Opened(NamedTuple):
    """An open log. `refusal` is the error that keeps a writable log from being written."""

    topic: str
    partition: int
    directory: Path
    log: Log | FollowedLog
    refusal: OSError | None


class LogSources:
    """The sources of a store's logs, each made at its first use. Any thread may call it."""

    def __init__(self, store: Store, options: TreeOptions, *, clock: Clock, rights: Rights) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self._rights = rights
        self._lock = Lock()  # held while sources are looked up
        self._sources: dict[LogPath, _Found] = {}
        self._identities = count(1)
        self._refreshed_s = clock.elapsed_s()
        self._refreshing: Thread | None = None  # under way beside
        self._failure: Exception | None = None  # of the last one, which the next caller gets
        self._batches = BatchCache()
        self._logs = OpenedLogs(store, clock)

    @property
    def is_writable(self) -> bool:
        """True if the store is open for writing."""
        return self.store.mode is Mode.READ_WRITE

    def refresh(self) -> None:
        """Notice topics that were made, deleted or removed by other processes, unless that was done a moment ago.

        If a log directory has thousands of names, a thread lists it, and callers go on with what it listed before.
        Raises the error that ended the last such listing.
        """
        now_s = self._clock.elapsed_s()
        if now_s - self._refreshed_s < _REFRESH_S:
            return
        with self._lock:
            if now_s - self._refreshed_s < _REFRESH_S:
                return
            self._refreshed_s = now_s
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            if self.is_writable and not self.store.may_have_changed():
                return
            if not any(log_dir.is_large for log_dir in self.store.log_dirs):
                self.store.refresh()
            elif self._refreshing is None:
                self._refreshing = Thread(target=self._refresh_beside, name="kafkafs-refresh", daemon=True)
                self._refreshing.start()

    def _refresh_beside(self) -> None:
        try:
            with taking_turns():
                self.store.refresh()
        except (StorageError, OSError) as error:
            self._failure = error
        finally:
            self._refreshed_s = self._clock.elapsed_s()
            self._refreshing = None

    def close(self) -> None:
        """Wait for a listing that is under way."""
        refreshing = self._refreshing
        if refreshing is not None:
            refreshing.join()

    def topics(self) -> list[str]:
        """The topics that are there."""
        self.refresh()
        return list(self.store.topics.inventory.topics)

    def check_topic(self, topic: str) -> None:
        """Raise `NotThereError` if there is no such topic."""
        self.refresh()
        if topic not in self.store.topics.inventory.topics:
            self.store.look_again()
        if topic not in self.store.topics.inventory.topics:
            raise NotThereError(self.store.topics.inventory.lack_of(topic))

    def get(self, path: LogPath) -> LogSource:
        """The source of a log's views; raises `NotThereError` if there is no such log, or what opening it raises."""
        self.refresh()
        before = self.store.topics.inventory
        try:
            return self._get(path)
        except NotThereError:  # it may have been moved, and another thread may have noticed
            self.store.look_again()
            if self.store.topics.inventory is before:
                raise
            return self._get(path)

    def known(self, path: LogPath) -> LogSource | None:
        """Return the source of a log's views if it was made."""
        found = self._sources.get(path)
        return None if found is None else found.source

    def log(self, topic: str, partition: int) -> Log | FollowedLog:
        """A partition's log; raises `UnknownPartitionError` if there is no such log, or what opening it raises."""
        return self._logs.get(topic, partition)[0]

    def footing(self, path: LogPath) -> Hashable | None:
        """Return what stays the same while an open log only grows; None if the log is not open."""
        found = self._sources.get(path)
        if found is None or not isinstance(path, PartitionPath):
            return None
        if self.store.log_if_open(path.topic.topic, path.partition) is not found.source.log:
            return None
        visible = found.source.visible()
        return visible.identity, visible.view.start_offset

    def _get(self, path: LogPath) -> LogSource:
        inventory = self.store.topics.inventory
        found = self._sources.get(path)
        if found is not None and found.inventory is inventory and found.source.refusal is None:
            return found.source  # nothing has come or gone since
        try:
            opened = self._of_partition(path) if isinstance(path, PartitionPath) else self._of_directory(path)
        except NotThereError:
            with self._lock:
                self._sources.pop(path, None)
            raise
        with self._lock:
            found = self._sources.get(path)
            if found is None or found.source.log is not opened.log:
                source = self._source(path, opened)
            else:
                source = found.source
                source.move(opened.directory, self._log_dir(opened.directory))
            self._sources[path] = _Found(source, inventory)
        return source

    def _of_partition(self, path: PartitionPath) -> _Opened:
        topic, partition = path.topic.topic, path.partition
        try:
            directory = Path(self.store.topics.directory(topic, partition))
            return _Opened(topic, partition, directory, *self._logs.get(topic, partition))
        except UnknownPartitionError as error:
            raise NotThereError(str(error)) from None

    def _of_directory(self, path: UnattachedPath) -> _Opened:
        name = path.directory
        for log_dir, present in self.store.topics.inventory.unattached:
            if present == name:
                found = self._sources.get(path)
                directory = log_dir.path / str(name)
                log = self.store.follow(log_dir.directory.at(str(name))) if found is None else found.source.log
                return _Opened(name.topic, name.partition, directory, log, None)
        raise NotThereError(f"there is no directory {name}")

    def _log_dir(self, directory: Path) -> LogDir:
        return next(log_dir for log_dir in self.store.log_dirs if log_dir.path == directory.parent)

    def _source(self, path: LogPath, opened: _Opened) -> LogSource:
        log, directory = opened.log, opened.directory
        return LogSource(
            path,
            opened.topic,
            opened.partition,
            directory,
            log,
            self._options,
            files=self.store.files,
            log_dir=self._log_dir(directory),
            identity=next(self._identities),
            writable=log if isinstance(log, Log) else None,
            refusal=opened.refusal,
            batches=self._batches,
            rights=self._rights,
        )
