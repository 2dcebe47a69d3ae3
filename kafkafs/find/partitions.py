"""The partitions that patterns mean, of those that a store has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.patterns import PartitionPattern
from storage.errors import UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log_dir import Partition
    from storage.store import Store


def matching_partitions(store: Store, texts: Sequence[str]) -> list[Partition]:
    """Return the partitions that patterns match, or all if none is given.

    Raises `UnknownPartitionError` if one matches no partition.
    """
    topics = store.topics
    chosen: dict[Partition, None] = {}
    for text in texts or ("*",):
        pattern = PartitionPattern.of(text)
        named = [topic for topic in topics.inventory.topics if pattern.means_topic(topic)]
        found = [(topic, each) for topic in named for each in topics.partitions(topic) if pattern.means(topic, each)]
        if not found and texts:
            topics.partitions(named[0] if named else pattern.topic)  # which says that there is no such topic
            raise UnknownPartitionError(f"the topic {pattern.topic} has no partition {pattern.partition}")
        chosen |= dict.fromkeys(found)
    return list(chosen)
