"""`__share_group_state`, followed: how far the share groups have come that its partitions tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.followed_topic import FollowedTopic
from storage.cluster.log_replay import LogReplay
from storage.internal.outcome import Message, Raw
from storage.internal.shares import decode
from storage.internal.shares_image import SharesImage

if TYPE_CHECKING:
    from storage.internal.shares_image import SharePartition, ShareStart


class SharesLog(LogReplay):
    """One partition of the topic."""

    image: SharesImage

    def _clear(self) -> None:
        self.image = SharesImage()

    def _take(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        producer_id: int | None,  # noqa: ARG002 -- coordinators write this topic without transactions
    ) -> bool:
        read = decode(key, value)
        if not isinstance(read.key, Message) or isinstance(read.value, Raw):
            return False
        fields = None if read.value is None else read.value.fields
        self.image.apply(read.key.name.removesuffix("Key"), read.key.fields, fields, offset)
        return True

    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Nothing: coordinators write this topic without transactions."""


class SharesTopic(FollowedTopic[SharesLog]):
    """How far share groups have come, by all partitions of the topic that there are."""

    def __init__(self) -> None:
        super().__init__(SharesLog)

    def start(self, partition: SharePartition) -> ShareStart | None:
        """Where a group is in a partition; None if no record here tells it."""
        for replay in self.partitions.values():
            if (found := replay.image.starts.get(partition)) is not None:
                return found
        return None
