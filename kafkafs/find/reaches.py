"""The parts of a store's logs that are searched: which partitions, and between which times or offsets."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkafs.find.search import Reach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.locator.times import Time
    from storage.log import Isolation, LogView
    from storage.log_dir import Partition
    from storage.store import Store


def matching_partitions(store: Store, patterns: Sequence[str]) -> list[Partition]:
    """Return the partitions of the topics that patterns of a shell match, or of all topics if none is given.

    Raises `UnknownPartitionError` if one matches no topic.
    """
    topics = store.topics.inventory.topics
    chosen: dict[str, None] = {}
    for pattern in patterns or ("*",):
        found = [topic for topic in topics if fnmatchcase(topic, pattern)]
        if not found and patterns:
            store.topics.partitions(pattern)  # which says that there is none
        chosen |= dict.fromkeys(found)
    return [(topic, partition) for topic in chosen for partition in store.topics.partitions(topic)]


def reach_of(view: LogView, since: Time | None, until: Time | None, isolation: Isolation, now_ms: int) -> Reach:
    """Return the part of a log between two times, as `by-time/SINCE..UNTIL` has it; from its start, or to its end."""
    end_offset = max(view.bound(isolation), view.start_offset)
    start = view.start_offset if since is None else _first_from(view, since.resolve(now_ms), end_offset)
    end = end_offset if until is None else _first_from(view, until.resolve(now_ms), end_offset)
    return Reach(view, start, max(start, end), isolation)


def _first_from(view: LogView, time_ms: int, end_offset: int) -> int:
    found = view.find_timestamp(time_ms)
    return end_offset if found is None else min(found.offset, end_offset)
