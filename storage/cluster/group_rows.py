"""The rows of a group, as `kafka-consumer-groups --describe` and `--members` have them together."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from storage.cluster.group_description import GroupDescription, GroupMember
    from storage.internal.groups_image import CommittedOffset, TopicPartition
    from storage.internal.shares_image import ShareStart

    EndOffset: TypeAlias = Callable[[TopicPartition], int | None]


class GroupRow(NamedTuple):
    """A partition of which a group has committed an offset, or which a member has; or a member without any.

    A share group has a `start` where others have a committed offset, if it is known. `end_offset` is None for a
    partition that is not in the store. A group of which nothing else is known has one row
    with neither a partition nor a member.
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
        """The first offset that a share group has not done with, once it has read anything."""
        return None if self.start is None or self.start.start_offset < 0 else self.start.start_offset

    @property
    def lag(self) -> int | None:
        """How many offsets lie before the end that are neither committed nor, by a share group, done with, if known."""
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
