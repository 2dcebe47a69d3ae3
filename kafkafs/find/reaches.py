"""The parts of a store's logs that are searched: which partitions, and between which times or offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.find.search import Reach
from kafkafs.locator.patterns import PartitionPattern
from storage.errors import UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.locator.times import Time
    from storage.log import Isolation, LogView
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


def reach_of(view: LogView, since: Time | None, until: Time | None, isolation: Isolation, now_ms: int) -> Reach:
    """Return the part of a log between two times, as `by-time/SINCE..UNTIL` has it; from its start, or to its end."""
    end_offset = max(view.bound(isolation), view.start_offset)
    start = view.start_offset if since is None else _first_from(view, since.resolve(now_ms), end_offset)
    end = end_offset if until is None else _first_from(view, until.resolve(now_ms), end_offset)
    return Reach(view, start, max(start, end), isolation)


def _first_from(view: LogView, time_ms: int, end_offset: int) -> int:
    found = view.find_timestamp(time_ms)
    return end_offset if found is None else min(found.offset, end_offset)
