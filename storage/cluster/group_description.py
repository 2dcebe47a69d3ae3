"""A group as Kafka's tools describe it: its kind, its state, its members, and its rows of partitions.

The state is the one that the records tell. A classic group with members is `Stable`: that it is rebalancing only its
coordinator knows. Share groups are `Empty` or `Stable`, as their coordinator has it. The rows are those that
`kafka-consumer-groups --describe` and `--members` have together.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.ids import format_id
from storage.internal.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from storage.internal.groups_image import GroupKind
from storage.internal.outcome import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import TypeAlias
    from uuid import UUID

    from storage.internal.groups_image import CommittedOffset, Group, TopicPartition
    from storage.internal.outcome import Fields
    from storage.internal.shares_image import SharePartition, ShareStart

    TopicName: TypeAlias = Callable[[UUID], str | None]
    from collections.abc import Callable

    EndOffset: TypeAlias = Callable[[TopicPartition], int | None]

EMPTY: Final = "Empty"
STABLE: Final = "Stable"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
NOT_READY: Final = "NotReady"

_MEMBER_STABLE: Final = {GroupKind.CONSUMER: 0, GroupKind.STREAMS: 1}
"""The `state` of a member that has all that it is assigned."""


class Surroundings(NamedTuple):
    """The store's facts besides a group's records: topic ids, share groups' positions, its partitions."""

    topic_name: TopicName
    start_of: Callable[[SharePartition], ShareStart | None]
    partitions_of: Callable[[str], Collection[int]]


class GroupMember(NamedTuple):
    """A member of a group. `partitions` are those that it has; a topic whose name is not known has its id in place."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group as it was at one moment.

    A share group commits no offsets: `starts` are the partitions that it reads, each with where it is there, None if
    that is not known.
    """

    group_id: str
    kind: GroupKind
    state: str
    members: tuple[GroupMember, ...]
    offsets: Mapping[TopicPartition, CommittedOffset]
    starts: Mapping[TopicPartition, ShareStart | None]


def describe_group(group: Group, store: Surroundings, now_ms: int) -> GroupDescription:
    """Describe the group.

    Offsets are left out for which a broker before 2.1 wrote a time of expiry that is past.
    """
    offsets = {
        partition: committed
        for partition, committed in group.offsets.items()
        if committed.expires_ms < 0 or committed.expires_ms > now_ms
    }
    members = tuple(_members(group, store))
    starts = dict(_starts(group, store)) if group.kind is GroupKind.SHARE else {}
    return GroupDescription(group.group_id, group.kind, _state(group), members, offsets, starts)


def _starts(group: Group, store: Surroundings) -> Iterator[tuple[TopicPartition, ShareStart | None]]:
    """Yield the partitions that a share group has begun to read."""
    for topic in (group.value("ShareGroupStatePartitionMetadata") or {}).get("initializedTopics") or ():
        for number in topic["partitions"]:
            yield (topic["topicName"], number), store.start_of((group.group_id, topic["topicId"], number))


def _state(group: Group) -> str:
    if group.kind is GroupKind.CLASSIC:
        value = group.value("GroupMetadata")
        return STABLE if value is not None and value["members"] else EMPTY
    prefix = f"{group.kind.value}Group"
    members = group.values(f"{prefix}MemberMetadata")
    if not members:
        return EMPTY
    if group.kind is GroupKind.SHARE:
        return STABLE
    metadata = group.value(f"{prefix}Metadata") or {}
    target = (group.value(f"{prefix}TargetAssignmentMetadata") or {}).get("assignmentEpoch", 0)
    if group.kind is GroupKind.STREAMS:
        topology = group.value("StreamsGroupTopology")
        if topology is None or topology["epoch"] != metadata.get("validatedTopologyEpoch"):
            return NOT_READY
    if metadata.get("epoch", 0) > target:
        return ASSIGNING
    current = group.values(f"{prefix}CurrentMemberAssignment")
    reconciled = (_MEMBER_STABLE[group.kind], target)
    are_reconciled = all(_progress(current.get(member)) == reconciled for member in members)
    return STABLE if are_reconciled else RECONCILING


def _progress(current: Fields | None) -> tuple[int, int] | None:
    return None if current is None else (current["state"], current["memberEpoch"])


def _members(group: Group, store: Surroundings) -> Iterator[GroupMember]:
    if group.kind is GroupKind.CLASSIC:
        yield from _classic_members(group)
        return
    prefix = f"{group.kind.value}Group"
    known = dict(_own_names(group))
    tasks = _TaskPartitions(group, store) if group.kind is GroupKind.STREAMS else None
    for key, said in group.values(f"{prefix}MemberMetadata").items():
        current = group.values(f"{prefix}CurrentMemberAssignment").get(key, {})
        if tasks is not None:
            partitions = tuple(sorted(tasks.of(current)))
        else:
            partitions = tuple(_of_ids(current.get("assignedPartitions") or (), known, store.topic_name))
        yield GroupMember(str(key[0]), said.get("instanceId"), said["clientId"], said["clientHost"], partitions)


def _classic_members(group: Group) -> Iterator[GroupMember]:
    value = group.value("GroupMetadata")
    if value is None:
        return
    for member in value["members"]:
        partitions: tuple[TopicPartition, ...] = ()
        if value["protocolType"] == PROTOCOL_TYPE and member["assignment"]:
            assignment = decode_assignment(member["assignment"])
            if isinstance(assignment, Message):
                assigned = assignment.fields["assignedPartitions"]
                partitions = tuple((each["topic"], number) for each in assigned for number in each["partitions"])
        yield GroupMember(
            member["memberId"], member.get("groupInstanceId"), member["clientId"], member["clientHost"], partitions
        )


def _own_names(group: Group) -> Iterator[tuple[UUID, str]]:
    """The names of topics by their ids, where the group's own records tell them."""
    for name, lists in (
        ("ConsumerGroupPartitionMetadata", ("topics",)),
        ("ShareGroupStatePartitionMetadata", ("initializingTopics", "initializedTopics")),
    ):
        value = group.value(name) or {}
        for topics in lists:
            yield from ((topic["topicId"], topic["topicName"]) for topic in value.get(topics) or ())


def _of_ids(
    assigned: Iterable[dict[str, Any]], known: Mapping[UUID, str], topic_name: TopicName
) -> Iterator[TopicPartition]:
    for each in assigned:
        topic_id = each["topicId"]
        name = known.get(topic_id) or topic_name(topic_id) or format_id(topic_id)
        yield from ((name, partition) for partition in each["partitions"])


class _TaskPartitions:
    """The partitions that a streams group's tasks read, as far as the store has them or their offsets were committed.

    A task has the partition of its number of each topic that its subtopology reads. As in Kafka Streams, a topic is
    read by one subtopology, and a task is active in one member: what a record claims again is told once.
    """

    def __init__(self, group: Group, store: Surroundings) -> None:
        committed: dict[str, set[int]] = {}
        for topic, number in group.offsets:
            committed.setdefault(topic, set()).add(number)
        self._untold: dict[tuple[str, int], list[TopicPartition]] = {}  # by subtopology and number
        known: set[str] = set()
        for each in (group.value("StreamsGroupTopology") or {}).get("subtopologies") or ():
            for topic in (*each["sourceTopics"], *(source["name"] for source in each["repartitionSourceTopics"])):
                if topic in known:
                    continue
                known.add(topic)
                # Begin with the store's partitions: a record's tasks and topics may be far more.
                for number in committed.get(topic, set()).union(store.partitions_of(topic)):
                    self._untold.setdefault((each["subtopologyId"], number), []).append((topic, number))

    def of(self, current: Fields) -> Iterator[TopicPartition]:
        """Yield those of a member's active tasks."""
        for task in current.get("activeTasks") or ():
            for number in task["partitions"]:
                yield from self._untold.pop((task["subtopologyId"], number), ())


class GroupRow(NamedTuple):
    """A partition with a committed offset or a member of the group; or a member without partitions.

    A share group has a `start` where others have a committed offset, if it is known. `end_offset` is None for a
    partition that is not in the store. A group without partitions and members has one row with neither.
    """

    group: GroupDescription
    topic: str | None
    partition: int | None
    committed: CommittedOffset | None
    end_offset: int | None
    member: GroupMember | None
    start: ShareStart | None = None

    @property
    def start_offset(self) -> int | None:
        """Return the first offset that a share group has not finished, once it has read anything."""
        return None if self.start is None or self.start.start_offset < 0 else self.start.start_offset

    @property
    def lag(self) -> int | None:
        """Return how many offsets before the end are neither committed nor finished by a share group, if known."""
        if self.end_offset is None:
            return None
        if self.committed is not None:
            return self.end_offset - self.committed.offset
        if self.start is None or min(self.start) < 0:
            return None
        return self.end_offset - self.start.start_offset - self.start.delivered


def group_rows(group: GroupDescription, end_offset: EndOffset) -> Iterator[GroupRow]:
    """The rows of a group: partitions in the order of their topics and numbers, then members that have none.

    A partition that several members have, as in a share group, has a row for each.
    """
    having = [(partition, member) for member in group.members for partition in member.partitions]
    having.sort(key=lambda pair: pair[0])
    members = {partition: [member for _, member in pairs] for partition, pairs in groupby(having, key=lambda it: it[0])}
    for topic, number in sorted(group.offsets.keys() | group.starts.keys() | members.keys()):
        partition = (topic, number)
        committed, end = group.offsets.get(partition), end_offset(partition)
        for member in members.get(partition) or (None,):
            yield GroupRow(group, topic, number, committed, end, member, group.starts.get(partition))
    for member in group.members:
        if not member.partitions:
            yield GroupRow(group, None, None, None, None, member)
    if not group.offsets and not group.starts and not group.members:
        yield GroupRow(group, None, None, None, None, None)
