"""Whether the partitions of a topic say that they are of the same topic: which of them does not.

A topic that is deleted and made again has another id. A partition that was left from before, or was put here from
elsewhere, is a stray to the broker, which takes it out of service.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from storage.ids import format_id
from storage.partition.metadata import PARTITION_METADATA_NAME
from storage.segment.finding import Finding, FindingKind, damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from uuid import UUID

    from storage.store.log_dir_check import PartitionPlace


def other_topics(topic_ids: Iterable[tuple[PartitionPlace, UUID]]) -> Iterator[Finding]:
    """A finding for each partition whose topic's id is not the one that most partitions of that name have.

    Where no id is that of most of them, all are named: which ones are right is not known.
    """
    by_topic: defaultdict[str, list[tuple[PartitionPlace, UUID]]] = defaultdict(list)
    for place, topic_id in topic_ids:
        by_topic[place.partition[0]].append((place, topic_id))
    for topic, found in by_topic.items():
        (usual, most), *others = Counter(topic_id for _, topic_id in found).most_common()
        if not others:
            continue
        is_tie = others[0][1] == most
        for place, topic_id in sorted(found, key=lambda each: (each[0].partition, each[0].log_dir, each[0].name)):
            if is_tie:
                reason = f"the partitions of {topic} disagree about its id: this one has {format_id(topic_id)}"
            elif topic_id != usual:
                reason = (
                    f"the partition is of another topic: its id is {format_id(topic_id)}, and the other partitions of "
                    f"{topic} have {format_id(usual)}"
                )
            else:
                continue
            yield place.located(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
