"""The topics that a store is to have which is built out of another, and what is to hold for them there."""

from __future__ import annotations

import os
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from storage.config import check_topic_setting
from storage.errors import InvalidTopicError, UnknownPartitionError
from storage.ids import random_id
from storage.log_dir.topic_names import CLUSTER_METADATA
from storage.rewrite.store_builder import BuiltTopic
from storage.topics.topics import PARTITIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.store.store import Store


def built_topics(
    store: Store,
    names: Sequence[str] | None,
    settings: Mapping[str, str],
    *,
    partitions: int | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> dict[str, BuiltTopic]:
    """These topics of a store, or all of them but the cluster's own log, with their settings and these in addition.

    With another number of partitions each is another topic of the same name. Raises `UnknownPartitionError` for a topic
    that is not there, `InvalidTopicError` for one that cannot be copied, and `ConfigError`.
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
