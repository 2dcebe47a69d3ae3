"""`__consumer_offsets`, followed: the groups that its partitions tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.followed_topic import FollowedTopic
from storage.cluster.log_replay import LogReplay
from storage.internal.groups_image import GroupsImage
from storage.internal.offsets import decode
from storage.internal.outcome import Message, Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.internal.groups_image import Group


class OffsetsLog(LogReplay):
    """One partition of the topic."""

    image: GroupsImage

    def _clear(self) -> None:
        self.image = GroupsImage()

    def _take(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int | None) -> bool:
        read = decode(key, value)
        if not isinstance(read.key, Message) or isinstance(read.value, Raw):
            return False
        fields = None if read.value is None else read.value.fields
        self.image.apply(read.key.name.removesuffix("Key"), read.key.fields, fields, offset, producer_id)
        return True

    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        self.image.end_transaction(producer_id, offset, is_commit=is_commit)


class OffsetsTopic(FollowedTopic[OffsetsLog]):
    """The groups of all partitions that there are."""

    def __init__(self) -> None:
        super().__init__(OffsetsLog)

    def groups(self) -> Iterator[Group]:
        """Every group once, as its partition tells it."""
        for replay in self.partitions.values():
            yield from replay.image.groups.values()
