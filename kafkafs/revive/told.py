"""What the disks tell of partitions besides the directories that are taken: the lines of checkpoints, what is left out.

A directory may be gone while a checkpoint still has a line for it. The line says that the partition was there, and how
much of it was replicated. It may also outlive a topic that was deleted: without a directory of the topic, or a metadata
log that has it, it makes no topic.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from storage.ids import format_id
from storage.log_dir import CLUSTER_METADATA, DirectoryState, OffsetCheckpoint
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from kafkafs.revive.disks import Candidate, Disk
    from storage.internal import ClusterImage
    from storage.log_dir import DirectoryName, Partition
    from storage.replicas import Replica

_NAMED_MAX: Final = 5
_OF_A_BROKER: Final = (OffsetCheckpoint.HIGH_WATERMARK, OffsetCheckpoint.RECOVERY_POINT)
"""The checkpoints that have a line for every partition of the log directory."""


class Told:
    """The lines of all disks' checkpoints, by topic."""

    def __init__(self, disks: Sequence[Disk]) -> None:
        self._lines: dict[str, dict[int, list[Disk]]] = defaultdict(lambda: defaultdict(list))
        self._names: dict[tuple[Disk, str], dict[int, list[DirectoryName]]] = defaultdict(lambda: defaultdict(list))
        for disk in disks:
            lines = {partition for checkpoint in _OF_A_BROKER for partition in disk.offsets(checkpoint)}
            for topic, number in sorted(lines):
                self._lines[topic][number].append(disk)
            for name in disk.names:
                self._names[disk, name.topic][name.partition].append(name)
        self._lines.pop(CLUSTER_METADATA, None)

    def lost_topics(self, image: ClusterImage) -> set[str]:
        """Return the topics that the metadata log and a checkpoint have, unless a broker was deleting them."""
        states: dict[str, set[DirectoryState]] = defaultdict(set)
        for (_, topic), names in self._names.items():
            states[topic].update(name.state for found in names.values() for name in found)
        known = self._lines.keys() & image.topic_ids.keys()
        return {topic for topic in known if states[topic] != {DirectoryState.DELETE}}

    def only_told_lines(self, image: ClusterImage, topics: Sequence[str]) -> Iterator[str]:
        """Yield a sentence about the topics that only checkpoints have, of those that were chosen if any were."""
        there = {topic for _, topic in self._names} | image.topic_ids.keys()
        found = sorted(topic for topic in self._lines.keys() - there if not topics or topic in topics)
        if found:
            yield (
                f"only checkpoints have the topics {_listed(found)}: they were deleted, or all of their directories "
                "are gone; nothing is made of them"
            )

    def numbers(self, topic: str, topic_id: UUID | None) -> set[int]:
        """Return the numbers of a topic's partitions that checkpoints have."""
        return {
            number
            for number, disks in self._lines.get(topic, {}).items()
            if any(self._is_of(disk, (topic, number), topic_id) for disk in disks)
        }

    def missing(self, partition: Partition, topic_id: UUID | None) -> tuple[int | None, tuple[int, int]]:
        """Return a partition's high watermark, and the offsets that would be missing if no disk had any of it."""
        topic, number = partition
        told = self._lines.get(topic, {}).get(number, [])
        disks = [disk for disk in told if self._is_of(disk, partition, topic_id)]
        watermarks = [disk.offset(OffsetCheckpoint.HIGH_WATERMARK, partition) for disk in disks]
        watermark = max((each for each in watermarks if each is not None), default=None)
        begin = max((disk.offset(OffsetCheckpoint.LOG_START, partition) or 0 for disk in disks), default=0)
        return watermark, (begin, max(begin, watermark or 0))

    def _is_of(self, disk: Disk, partition: Partition, topic_id: UUID | None) -> bool:
        """Return False if the line of a disk is of another topic of this name, by the directories beside it."""
        topic, number = partition
        by_number = self._names.get((disk, topic))
        if topic_id is None or by_number is None:
            return True
        names = by_number.get(number) or [name for found in by_number.values() for name in found]
        return any(disk.topic_id(name)[0] in (None, topic_id) for name in names)


def left_out_lines(disks: Iterable[Disk], states: frozenset[DirectoryState], topics: Sequence[str]) -> Iterator[str]:
    """Yield a sentence about the -stray and one about the -future directories of these topics that are not taken."""
    for state in (DirectoryState.STRAY, DirectoryState.FUTURE):
        if state in states:
            continue
        found = [
            str(disk.directory.path_of(str(name)))
            for disk in disks
            for name in disk.names
            if name.state == state and (not topics or name.topic in topics)
        ]
        if found:
            yield f"left out, unless --include {state.removeprefix('-')} takes them in: {_listed(found)}"


def namesake_notes(topic: str, chosen: UUID, why: str, sources: Sequence[tuple[Candidate, Replica]]) -> Iterator[str]:
    """Yield which topic of the name is revived and why, how to have another, and each directory that is left out."""
    others = [each for each in sources if each[0].topic_id not in (None, chosen)]
    count = 1 + len({candidate.topic_id for candidate, _ in others})
    yield (
        f"{count} topics of this name are on the disks; the one with the id {format_id(chosen)} is revived, because "
        f"{why}; to have another, move the directories of the others away, or its own into an empty directory, and "
        f"revive that by itself, with the same options, --topics {topic} and another --into"
    )
    for candidate, replica in others:
        assert candidate.topic_id is not None
        offsets = offsets_text(replica.base_offset, replica.end_offset)
        yield f"left out {candidate.directory}: {offsets} of the topic with the id {format_id(candidate.topic_id)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{more}"
