"""Patterns of a shell for partitions, as commands take them: `ord*`, `orders/0`, `ord*/[0-3]`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple, Self


class PartitionPattern(NamedTuple):
    """A pattern for topics, and one for the numbers of their partitions; without the second, all partitions."""

    topic: str
    partition: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Return what a user's text means."""
        topic, slash, partition = text.partition("/")
        return cls(topic, partition if slash else "*")

    def means_topic(self, topic: str) -> bool:
        """Return True for a topic that the first pattern matches."""
        return fnmatchcase(topic, self.topic)

    def means(self, topic: str, partition: int) -> bool:
        """Return True for a partition that both patterns match."""
        return self.means_topic(topic) and fnmatchcase(str(partition), self.partition)
