"""The logs of a store as the tree finds them: topics that are there, and the source of each partition's views."""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import PartitionPath
from kafkafs.tree.batch_cache import BatchCache
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.log_source import LogSource
from storage.errors import UnknownPartitionError
from storage.partition.followed_log import FollowedLog
from storage.partition.log import Log
from storage.store.store import Mode

if TYPE_CHECKING:
    from pathlib import Path

    from kafkafs.locator.paths import LogPath, UnattachedPath
    from kafkafs.tree.options import TreeOptions
    from storage.clock import Clock
    from storage.store.store import Store

_REFRESH_S: Final = 0.5


class LogSources:
    """The sources of a store's logs, each made when it is first asked for. Any thread may ask."""

    def __init__(self, store: Store, options: TreeOptions, *, clock: Clock) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        self._lock = Lock()  # held while sources are looked up
        self._sources: dict[LogPath, LogSource] = {}
        self._identities = count(1)
        self._refreshed_s = clock.elapsed_s()
        self._batches = BatchCache()

    @property
    def is_writable(self) -> bool:
        """Whether the store is open for writing."""
        return self.store.mode is Mode.READ_WRITE

    def refresh(self) -> None:
        """See which topics a broker has made or deleted, unless that was looked at a moment ago."""
        with self._lock:
            now_s = self._clock.elapsed_s()
            if self.store.mode is Mode.READ_ONLY and now_s - self._refreshed_s >= _REFRESH_S:
                self._refreshed_s = now_s
                self.store.refresh()

    def topics(self) -> list[str]:
        """The topics that are there."""
        self.refresh()
        return list(self.store.topics.inventory.topics)

    def check_topic(self, topic: str) -> None:
        """Raise `NotThereError` if there is no such topic."""
        self.refresh()
        if topic not in self.store.topics.inventory.topics:
            raise NotThereError(f"there is no topic {topic!r}")

    def get(self, path: LogPath) -> LogSource:
        """The source of a log's views; raises `NotThereError` if there is no such log, or what opening it raises."""
        self.refresh()
        if isinstance(path, PartitionPath):
            return self._of_partition(path)
        return self._of_directory(path)

    def _of_partition(self, path: PartitionPath) -> LogSource:
        topic, partition = path.topic.topic, path.partition
        try:
            directory = self.store.topics.directory(topic, partition)
            log = self.store.log(topic, partition)
        except UnknownPartitionError as error:
            with self._lock:
                self._sources.pop(path, None)
            raise NotThereError(str(error)) from None
        assert isinstance(log, Log | FollowedLog)
        with self._lock:
            known = self._sources.get(path)
            if known is None or known.log is not log:
                known = self._sources[path] = self._source(path, topic, partition, directory, log)
            return known

    def _of_directory(self, path: UnattachedPath) -> LogSource:
        name = path.directory
        for log_dir, present in self.store.topics.inventory.unattached:
            if present == name:
                directory = log_dir.path / str(name)
                break
        else:
            with self._lock:
                self._sources.pop(path, None)
            raise NotThereError(f"there is no directory {name}")
        with self._lock:
            known = self._sources.get(path)
            if known is None:
                known = self._sources[path] = self._source(
                    path, name.topic, name.partition, directory, self.store.follow(directory)
                )
            return known

    def _source(self, path: LogPath, topic: str, partition: int, directory: Path, log: Log | FollowedLog) -> LogSource:
        return LogSource(
            path,
            topic,
            partition,
            directory,
            log,
            self._options,
            files=self.store.files,
            log_dir=next(log_dir for log_dir in self.store.log_dirs if log_dir.path == directory.parent),
            identity=next(self._identities),
            writable=log if isinstance(log, Log) else None,
            batches=self._batches,
        )
