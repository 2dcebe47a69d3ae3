"""The topics and partitions of a built store, in memory and in the builder's files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from storage.config import check_topic_setting
from storage.errors import InvalidTopicError, UnknownPartitionError
from storage.ids import format_id, parse_id, random_id
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.names import CLUSTER_METADATA
from storage.log_dir.settings_file import KnownTopic
from storage.topics.topics import PARTITIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPartition:
    """A log that was written, and its `stats`.

    A cleaner begins at `first_dirty_offset`; without it, no offset is missing in the log.
    """

    base_offset: int
    start_offset: int
    end_offset: int
    first_dirty_offset: int | None
    stats: dict[str, Any]

    def offset(self, checkpoint: OffsetCheckpoint) -> int | None:
        """Return the partition's offset in a checkpoint of the new store; None if it has none there."""
        match checkpoint:
            case OffsetCheckpoint.LOG_START:
                return self.start_offset if self.start_offset > self.base_offset else None
            case OffsetCheckpoint.FIRST_DIRTY:
                return self.first_dirty_offset
            case _:
                return self.end_offset


@dataclass(frozen=True, slots=True)
class BuiltTopic:
    """A topic of the new store."""

    known: KnownTopic
    partitions: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the topic as JSON values."""
        known = self.known
        return {
            "topicId": None if known.topic_id is None else format_id(known.topic_id),
            "isMadeHere": known.is_made_here,
            "settings": dict(known.settings),
            "partitions": self.partitions,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Return the topic from the values of `to_json`."""
        topic_id = None if found["topicId"] is None else parse_id(found["topicId"])
        known = KnownTopic(topic_id, found["isMadeHere"], MappingProxyType(dict(found["settings"])))
        return cls(known, tuple(found["partitions"]))


def built_topics(
    store: Store,
    names: Sequence[str] | None,
    settings: Mapping[str, str],
    *,
    partitions: int | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> dict[str, BuiltTopic]:
    """Return these topics of a store, or all but the cluster's metadata, with their settings and these added.

    With another number of partitions each gets a new topic id. Raises `UnknownPartitionError` for a topic that the
    store does not have, `InvalidTopicError` for one that cannot be copied, and `ConfigError`.
    """
    there = store.topics.inventory.topics
    if names is None:
        names = [name for name in there if name != CLUSTER_METADATA]
    if CLUSTER_METADATA in names:
        raise InvalidTopicError(f"{CLUSTER_METADATA} is the cluster's own log, which is changed by brokers alone")
    if partitions is not None and not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidTopicError(f"a topic has from 1 to {PARTITIONS_MAX} partitions, not {partitions}")
    if not names:
        raise UnknownPartitionError("there is no topic in the store", path=store.log_dirs[0].path)
    added = {key: check_topic_setting(key, value) for key, value in settings.items()}
    topics = {}
    for name in dict.fromkeys(names):
        numbers = tuple(store.topics.partitions(name))
        known = store.topics.known(name)
        if known.topic_id is None or partitions is not None:
            known = replace(known, topic_id=random_id(entropy))
        known = replace(known, settings=MappingProxyType({**known.settings, **added}))
        store.config.topic(known.settings)
        topics[name] = BuiltTopic(known, numbers if partitions is None else tuple(range(partitions)))
    return topics
