"""The root: a directory for each topic, the times of all partitions, and `.kafkafs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.paths import BY_TIME_NAME, CONTROL_NAME, RootPath
from kafkafs.tree.errors import InvalidInputError, NotPermittedError
from kafkafs.tree.node import Attributes, Directory
from kafkafs.tree.store_directory import modified_ms
from storage.errors import InvalidTopicError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.log_sources import LogSources
    from kafkafs.tree.options import TreeOptions


class RootDirectory(Directory):
    """The root of the tree. Making a directory in it makes a topic."""

    def __init__(self, sources: LogSources, options: TreeOptions) -> None:
        super().__init__(RootPath())
        self._sources = sources
        self._options = options

    def attributes(self) -> Attributes:
        """Writable if topics can be made, and as old as the last change in the store's directories."""
        store = self._sources.store
        newest_ms = max(modified_ms(store, log_dir) for log_dir in store.log_dirs)
        return Attributes(modified_ms=newest_ms, is_writable=self._sources.is_writable)

    def names(self) -> Iterator[str]:
        """The topics, `by-time` unless a topic is called so, and `.kafkafs`; a topic of that name is not listed."""
        topics = [topic for topic in self._sources.topics() if topic != CONTROL_NAME]
        yield CONTROL_NAME
        yield from topics
        if BY_TIME_NAME not in topics:
            yield BY_TIME_NAME

    def make(self, name: str) -> None:
        """Make a topic, with as many partitions as the options say."""
        try:
            self._sources.store.topics.create(name, self._options.default_partitions)
        except InvalidTopicError as error:
            raise InvalidInputError(str(error)) from None

    def remove(self, name: str) -> None:
        """Delete a topic with all its records, if the options allow that."""
        if name in {CONTROL_NAME, BY_TIME_NAME} and name not in self._sources.topics():
            raise NotPermittedError(f"{name} is no topic, and cannot be removed")
        self._sources.check_topic(name)
        if not self._options.may_delete:
            raise NotPermittedError(f"topics are deleted only where the mount has the option allow_delete ({name})")
        self._sources.store.topics.delete(name)
