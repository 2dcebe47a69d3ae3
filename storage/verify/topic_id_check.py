"""Whether the partitions of a topic say that they are of the same topic: which of them does not.

A topic that is deleted and made again has another id. A partition that was left from before, or was put here from
elsewhere, is a stray to the broker, which takes it out of service.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from storage.ids import format_id
from storage.log.partition_metadata import PARTITION_METADATA_NAME
from storage.log_dir.directory_names import DirectoryState
from storage.verify.finding import Finding, FindingKind, damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from storage.verify.log_dir_check import PartitionPlace


def other_topics(
    topic_ids: Iterable[tuple[PartitionPlace, UUID]], rightful: Mapping[str, UUID] | None
) -> Iterator[Finding]:
    """A finding for each partition whose topic's id is not the one that most partitions of that name have.

    Where no id is that of most of them, all are named: which ones are right is not known. Where the cluster's own ids
    are known, they are the `rightful` ones. A partition with another is then no damage but a stray, of which
    `ClusterCheck` tells; only a copy on its way has to be of the same topic.
    """
    by_topic: defaultdict[str, list[tuple[PartitionPlace, UUID]]] = defaultdict(list)
    for place, topic_id in topic_ids:
        by_topic[place.partition[0]].append((place, topic_id))
    for topic, found in by_topic.items():
        if rightful is None:
            yield from _disagreements(topic, found)
        elif topic in rightful:
            copies = [each for each in found if each[0].state is not DirectoryState.CURRENT]
            for place, topic_id in copies:
                if topic_id != rightful[topic]:
                    yield _of_another_topic(place, topic_id, f"the cluster's {topic} has", rightful[topic])


def _disagreements(topic: str, found: Sequence[tuple[PartitionPlace, UUID]]) -> Iterator[Finding]:
    (usual, most), *others = Counter(topic_id for _, topic_id in found).most_common()
    if not others:
        return
    is_tie = others[0][1] == most
    for place, topic_id in sorted(found, key=lambda each: (each[0].partition, each[0].log_dir, each[0].name)):
        if is_tie:
            reason = f"the partitions of {topic} disagree about its id: this one has {format_id(topic_id)}"
            yield place.located(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
        elif topic_id != usual:
            yield _of_another_topic(place, topic_id, f"the other partitions of {topic} have", usual)


def _of_another_topic(place: PartitionPlace, topic_id: UUID, others: str, usual: UUID) -> Finding:
    ids = f"its id is {format_id(topic_id)}, and {others} {format_id(usual)}"
    reason = f"the partition is of another topic: {ids}"
    return place.located(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
