"""The plan of a revival: what comes from which disk and why, what is lost against the others, what is not known.

Making the plan reads every batch of every replica once, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.revive.disks import unreadable
from kafkafs.revive.holding import hold, is_unknown
from kafkafs.revive.known import FROM_BOOTSTRAP, is_compacted, known_settings
from kafkafs.revive.told import Told, left_out_lines, namesake_notes
from storage.errors import InvalidTopicError, UnknownPartitionError
from storage.internal import offsets, shares, transactions
from storage.log_dir import CLUSTER_METADATA, DirectoryName, DirectoryState, OffsetCheckpoint
from storage.replicas import compose, scan_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from kafkafs.revive.disks import Candidate, Disk
    from kafkafs.revive.holding import Held
    from kafkafs.revive.known import Cluster, Known
    from storage.log_dir import Partition
    from storage.replicas import Composition, Replica

    Advance = Callable[[str, int, int], None]

EMPTY_PARTITIONS_MAX: Final = 10_000
"""How many partitions of a topic may be on no disk. The name of one directory can tell of billions."""

COUNTED: Final = {offsets.TOPIC: "groups", transactions.TOPIC: "transactional ids", shares.TOPIC: "share groups"}
"""The topics in which brokers find a key by the number of partitions, and the keys."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to revive: of which topics, up to which time, and from which directories besides current ones."""

    topics: tuple[str, ...] = ()
    until_ms: int | None = None
    states: frozenset[DirectoryState] = frozenset({DirectoryState.CURRENT})

    @property
    def undeletes(self) -> bool:
        """True if what is about to be deleted counts."""
        return DirectoryState.DELETE in self.states


class Source(NamedTuple):
    """A directory with a replica, and what was found in it."""

    candidate: Candidate
    replica: Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """A partition to be revived; without a `composition` none is taken in, and it begins empty.

    `high_watermark` is the largest that a disk's checkpoint has, None if none has one. Of a partition that ends before
    it, `missing_offsets` are the first that was replicated once and the one after the last. `remote` are the first
    offset of a tiered log and the one up to which it is in remote storage only.
    """

    partition: Partition
    composition: Composition | None
    sources: tuple[Source, ...]
    high_watermark: int | None
    missing_offsets: tuple[int, int]
    leader_epoch: int
    first_dirty: int | None
    remote: tuple[int, int] | None

    @property
    def missing(self) -> int:
        """How many offsets were replicated once and are on no disk."""
        begin, end = self.missing_offsets
        return end - begin

    @property
    def has_losses(self) -> bool:
        """True if offsets are missing, damaged on every disk, or in a replica with a history of its own only."""
        found = self.composition
        return self.missing > 0 or (found is not None and bool(found.gaps or found.divergences))

    @property
    def start_offset(self) -> int:
        """The first offset."""
        return 0 if self.composition is None else self.composition.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return 0 if self.composition is None else self.composition.end_offset

    @property
    def size_bytes(self) -> int:
        """The size of its log."""
        return 0 if self.composition is None else self.composition.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic to be revived. `topic_id` is None where none is known, so that one is made.

    `notes` are sentences about it. `compacted` is None where that is unknown.
    """

    name: str
    topic_id: UUID | None
    partitions: tuple[PartitionPlan, ...]
    known: Known
    held: Held
    compacted: bool | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan; `notes` are sentences about the disks and about what is left out.

    `not_chosen` are the topics that the disks have and the choice of topics leaves out. `on_disk` are all topics of
    which the disks have a directory, in any state.
    """

    topics: tuple[TopicPlan, ...]
    cluster: Cluster
    notes: tuple[str, ...]
    not_chosen: frozenset[str]
    on_disk: frozenset[str]

    def noting(self, notes: Iterable[str]) -> Plan:
        """Return the same plan with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    @property
    def partitions(self) -> list[PartitionPlan]:
        """All partitions, by topic and number."""
        return [each for topic in self.topics for each in topic.partitions]

    @property
    def has_losses(self) -> bool:
        """True if a partition has any."""
        return any(each.has_losses for each in self.partitions)

    @property
    def size_bytes(self) -> int:
        """The size of all logs."""
        return sum(each.size_bytes for each in self.partitions)


def with_groups(topics: Sequence[str], disks: Iterable[Disk]) -> tuple[str, ...]:
    """Return the topics of a choice and the one that has committed offsets, if a disk has it."""
    has_groups = any(name.topic == offsets.TOPIC for disk in disks for name in disk.names)
    return (*topics, offsets.TOPIC) if topics and has_groups and offsets.TOPIC not in topics else tuple(topics)


def make_plan(disks: Sequence[Disk], cluster: Cluster, choice: Choice, advance: Advance) -> Plan:
    """Plan to revive what is on the disks; `advance` is given a name, the bytes read so far, and those to be read.

    Raises `UnknownPartitionError` for a topic that is on no disk, and if there is none at all, and `BuildError` if a
    partition cannot be read.
    """
    told = Told(disks)
    left_out = list(left_out_lines(disks, choice.states, choice.topics))
    by_topic = _candidates(disks, choice, told.lost_topics(cluster.image))
    if not by_topic:
        reason = "; ".join(["there is no partition to revive in these directories", *left_out])
        raise UnknownPartitionError(reason, path=disks[0].directory)
    reading = _Reading(choice, [each for found in by_topic.values() for each in found], advance)
    topics = []
    for topic, candidates in sorted(by_topic.items()):
        known = known_settings(topic, cluster.topic_id(topic), cluster, disks)
        sources = reading.read(candidates, is_compacted=bool(is_compacted(topic, known)))
        topics.append(_TopicPlanning(topic, cluster, disks, choice, told).plan(sources))
    notes = [note for disk in disks for note in disk.flaws] + left_out
    notes += told.only_told_lines(cluster.image, choice.topics)
    on_disk = frozenset(name.topic for disk in disks for name in disk.names) - {CLUSTER_METADATA}
    not_chosen = on_disk.difference(choice.topics) if choice.topics else frozenset[str]()
    return Plan(tuple(topics), cluster, tuple(notes), not_chosen, on_disk)


def _candidates(disks: Iterable[Disk], choice: Choice, lost: Iterable[str]) -> Mapping[str, list[Candidate]]:
    """Return the directories to read of each topic; of those that are `lost` there may be none."""
    found: dict[str, list[Candidate]] = defaultdict(list)
    for disk in disks:
        for candidate in disk.candidates(choice.states, choice.topics):
            if candidate.name.topic != CLUSTER_METADATA:
                found[candidate.name.topic].append(candidate)
    for topic in lost:
        if not choice.topics or topic in choice.topics:
            found.setdefault(topic, [])
    missing = set(choice.topics) - found.keys()
    if missing:
        raise UnknownPartitionError(f"there is no topic {min(missing)!r} in these directories")
    return found


class _Reading:
    """Reads the replicas, with progress."""

    def __init__(self, choice: Choice, candidates: Sequence[Candidate], advance: Advance) -> None:
        self._choice = choice
        self._advance = advance
        self._done_bytes = 0
        self._total_bytes = sum(_log_bytes(each) for each in candidates)

    def read(self, candidates: Iterable[Candidate], *, is_compacted: bool) -> list[Source]:
        """Read the replicas of a topic, which `is_compacted` if its broker has compacted it, by its settings or not."""
        sources = []
        for candidate in candidates:

            def advance(size_bytes: int, name: str = str(candidate.name)) -> None:
                self._done_bytes += size_bytes
                self._advance(name, self._done_bytes, self._total_bytes)

            disk, is_current = candidate.disk, candidate.name.state is DirectoryState.CURRENT
            dirty = disk.first_dirty(candidate.partition)
            try:
                replica = scan_replica(
                    candidate.directory,
                    until_ms=self._choice.until_ms,
                    undeletes=self._choice.undeletes,
                    is_compacted=is_compacted or dirty is not None,
                    lost=disk.salvaged(candidate.partition).lost if is_current else (),
                    advance=advance,
                )
            except OSError as error:
                raise unreadable(candidate.directory, error) from None
            sources.append(Source(candidate, replica))
        return sources


def _log_bytes(candidate: Candidate) -> int:
    try:
        statuses = candidate.directory.statuses()
    except OSError as error:
        raise unreadable(candidate.directory, error) from None
    return sum(status.size_bytes for name, status in statuses.items() if name.endswith(".log"))


class _TopicPlanning:
    """Plans one topic."""

    def __init__(self, topic: str, cluster: Cluster, disks: Sequence[Disk], choice: Choice, told: Told) -> None:
        self._topic = topic
        self._cluster = cluster
        self._disks = disks
        self._choice = choice
        self._told = told
        self._notes: list[str] = []
        self._may_be_tiered = True

    def plan(self, sources: Sequence[Source]) -> TopicPlan:
        topic_id, chosen = self._of_one_id(sources)
        known = known_settings(self._topic, topic_id, self._cluster, self._disks)
        is_tiered = known.settings.get("remote.storage.enable") == "true"
        self._may_be_tiered = is_tiered or is_unknown(known)
        if is_tiered:
            self._notes.append(
                "it is tiered: without the old broker's remote.log settings in revived.properties the new one serves "
                "what is on the disks, and refuses to change the topic's settings, so that it cannot be released"
            )
        if known.origin == FROM_BOOTSTRAP:
            self._notes.append(
                "its retention.ms and retention.bytes are those with which the revival before this one holds it: those "
                "that it had are not known here, so set them when you release it"
            )
        by_number: dict[int, list[Source]] = defaultdict(list)
        for source in chosen:
            by_number[source.candidate.name.partition].append(source)
        count = self._count(by_number, topic_id)
        partitions = tuple(self._partition(number, by_number.get(number, ()), topic_id) for number in range(count))
        compacted = is_compacted(self._topic, known)
        if self._choice.until_ms is not None and self._topic in COUNTED:
            self._notes.append(
                f"of {COUNTED[self._topic]} it has what is left from before that time: older records of theirs may "
                "have been compacted away"
            )
        if compacted is None and any(self._was_compacted(each) for each in partitions):
            self._notes.append(
                "its settings are unknown, and it was compacted: it gets cleanup.policy=delete, with which nothing is "
                "deleted while it is held; set cleanup.policy=compact before you release it"
            )
        return TopicPlan(
            name=self._topic,
            topic_id=topic_id,
            partitions=partitions,
            known=known,
            held=hold(self._topic, known),
            compacted=compacted,
            notes=tuple(self._notes),
        )

    def _of_one_id(self, sources: Sequence[Source]) -> tuple[UUID | None, list[Source]]:
        """Return the id of the topic, and the replicas that are its own or do not say whose they are."""
        latest: dict[UUID, int] = {}
        for candidate, replica in sources:
            if candidate.topic_id is not None:
                known = latest.get(candidate.topic_id, replica.largest_timestamp)
                latest[candidate.topic_id] = max(known, replica.largest_timestamp)
        in_cluster = self._cluster.topic_id(self._topic)
        newest = max(latest, key=lambda each: latest[each], default=in_cluster)
        topic_id = in_cluster if in_cluster in latest else newest
        if len(latest) > 1:
            why = (
                f"{self._cluster.origin} has that one" if topic_id == in_cluster else "that one has the newest records"
            )
            assert topic_id is not None
            self._notes += namesake_notes(self._topic, topic_id, why, sources)
        elif self._cluster.is_known and in_cluster is None and topic_id is not None:
            self._notes.append(f"{self._cluster.origin} does not have it: it was deleted, or made later")
        return topic_id, [each for each in sources if each.candidate.topic_id in (None, topic_id)]

    def _count(self, found: Mapping[int, object], topic_id: UUID | None) -> int:
        """Return the number of partitions, and note those that begin empty."""
        count = max([-1, *found, *self._told.numbers(self._topic, topic_id)]) + 1
        topic = self._cluster.image.topic(self._topic)
        is_told = topic is not None and topic_id in (None, topic.topic_id)
        if topic is not None and is_told:
            count = max(count, *(number + 1 for number in topic.partitions), 1)
        if count - len(found) > EMPTY_PARTITIONS_MAX:
            raise InvalidTopicError(
                f"the disks name partition {count - 1} of {self._topic!r}, and {count - len(found)} of those "
                "before it are in none of them: give those that have them too, or leave the topic out with --topics"
            )
        on_disk = {name.partition for disk in self._disks for name in disk.names if name.topic == self._topic}
        if len(on_disk) == 1 < count and count - 1 in on_disk and not is_told:
            name = DirectoryName(self._topic, count - 1)
            self._notes.append(
                f"partition {count - 1} has no partitions below it: if {name} is no directory of a broker's, move it "
                "away, or name the other topics with --topics"
            )
        empty = set(range(count)).difference(found)
        if listed := ", ".join(map(str, sorted(empty - on_disk))):
            self._notes.append(f"no disk has the partitions {listed} of {count}: they begin empty")
        if listed := ", ".join(map(str, sorted(empty & on_disk))):
            self._notes.append(
                f"the disks have the partitions {listed} of {count} only in directories that are left out: they begin "
                "empty; --undelete and --include take in more"
            )
        if not is_told and self._topic in COUNTED:
            self._notes.append(
                f"the number of its partitions is taken to be {count}, the most that the disks have; if it was "
                f"another, {COUNTED[self._topic]} are looked for in the wrong partitions"
            )
        return count

    def _partition(self, number: int, sources: Sequence[Source], topic_id: UUID | None) -> PartitionPlan:
        partition = self._topic, number
        watermark, missing = self._told.missing(partition, topic_id)
        told = self._cluster.image.topic(self._topic)
        epochs = [each.replica.last_epoch for each in sources]
        if told is not None and number in told.partitions:
            epochs.append(told.partitions[number]["leaderEpoch"])
        epochs += [epoch.epoch for each in sources for epoch in each.replica.checkpoint_epochs]
        if not sources:
            return PartitionPlan(
                partition=partition,
                composition=None,
                sources=(),
                high_watermark=watermark,
                missing_offsets=missing,
                leader_epoch=max([0, *epochs]),
                first_dirty=None,
                remote=None,
            )
        disks = [each.candidate.disk for each in sources]
        starts = self._offsets(disks, OffsetCheckpoint.LOG_START, partition)
        start_offset = 0 if self._choice.undeletes else max(starts, default=0)
        composition = compose([each.replica for each in sources], start_offset)
        end_offset = composition.end_offset
        is_cut = composition.chosen.late_offset is not None or missing[1] <= end_offset
        dirty = max((each for disk in disks if (each := disk.first_dirty(partition)) is not None), default=None)
        first_offset = min(starts, default=0)
        base_offset = composition.segments[0].base_offset if composition.segments else end_offset
        is_remote = self._may_be_tiered and bool(starts) and first_offset < base_offset and not self._choice.undeletes
        return PartitionPlan(
            partition=partition,
            composition=composition,
            sources=tuple(sources),
            high_watermark=watermark,
            missing_offsets=(end_offset, end_offset) if is_cut else (max(end_offset, missing[0]), missing[1]),
            leader_epoch=max([0, *epochs]),
            first_dirty=None if dirty is None else min(dirty, end_offset),
            remote=(first_offset, base_offset) if is_remote else None,
        )

    def _offsets(self, disks: Iterable[Disk], checkpoint: OffsetCheckpoint, partition: Partition) -> list[int]:
        found = (disk.offset(checkpoint, partition) for disk in disks)
        return [offset for offset in found if offset is not None]

    def _was_compacted(self, plan: PartitionPlan) -> bool:
        return plan.first_dirty is not None or any(each.replica.lacks_offsets for each in plan.sources)
