"""A topic: its settings, and a directory for each partition that the store has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.locator.views import View
from kafkafs.tree.errors import InvalidInputError
from kafkafs.tree.node import Attributes, Directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.locator.paths import TopicPath
    from kafkafs.tree.log_sources import LogSources

_LOOKED_AT_MAX: Final = 10_000
"""Of how many partitions the time is asked for one of the topic: that takes a third of a second."""


class TopicDirectory(Directory):
    """The directory of a topic that is there. Making the next number in it adds a partition."""

    def __init__(self, path: TopicPath, sources: LogSources) -> None:
        super().__init__(path)
        self._topic = path.topic
        self._sources = sources

    def attributes(self) -> Attributes:
        """Writable if partitions can be added, and as old as the last change in its partitions' directories.

        Of very many partitions none is looked at: it is as old as the last change in the store's directories then.
        """
        store = self._sources.store
        partitions = store.topics.partitions(self._topic)
        if len(partitions) > _LOOKED_AT_MAX:
            found = (log_dir.directory.own_status() for log_dir in store.log_dirs)
        else:
            directories = (store.topics.directory(self._topic, each) for each in partitions)
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
