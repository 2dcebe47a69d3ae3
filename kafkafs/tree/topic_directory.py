"""A topic: its settings, and a directory for each partition that the store has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.views import View
from kafkafs.tree.errors import InvalidInputError
from kafkafs.tree.node import Attributes, Directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import TopicPath
    from kafkafs.tree.log_sources import LogSources


class TopicDirectory(Directory):
    """The directory of a topic that is there. Making the next number in it adds a partition."""

    def __init__(self, path: TopicPath, sources: LogSources) -> None:
        super().__init__(path)
        self._topic = path.topic
        self._sources = sources

    def attributes(self) -> Attributes:
        """Writable if partitions can be added, and as old as the last change in its partitions' directories."""
        store = self._sources.store
        directories = (store.topics.directory(self._topic, each) for each in store.topics.partitions(self._topic))
        found = (store.files.partition(directory).own_status() for directory in directories)
        modified_ms = max((status.modified_ms for status in found if status is not None), default=0)
        return Attributes(modified_ms=modified_ms, is_writable=self._sources.is_writable)

    def names(self) -> Iterator[str]:
        """The partitions in their order, and `config`."""
        yield from map(str, self._sources.store.topics.partitions(self._topic))
        yield str(View.CONFIG)

    def make(self, name: str) -> None:
        """Add the partition of this number, which must be the next."""
        topics = self._sources.store.topics
        following = str(max(topics.partitions(self._topic)) + 1)
        if name != following:
            raise InvalidInputError(f"the next partition of {self._topic} is {following}, not {name}")
        topics.add_partition(self._topic)
