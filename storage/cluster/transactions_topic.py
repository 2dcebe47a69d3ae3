"""`__transaction_state`, followed: the transactional ids that its partitions tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cluster.followed_topic import FollowedTopic
from storage.cluster.log_replay import LogReplay
from storage.internal.outcome import Message, Raw
from storage.internal.transactions import decode
from storage.internal.transactions_image import TransactionsImage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.internal.transactions_image import TransactionalId


class TransactionsLog(LogReplay):
    """One partition of the topic."""

    image: TransactionsImage

    def _clear(self) -> None:
        self.image = TransactionsImage()

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
        self.image.apply(read.key.fields, None if read.value is None else read.value.fields, offset)
        return True

    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Nothing: coordinators write this topic without transactions."""


class TransactionsTopic(FollowedTopic[TransactionsLog]):
    """The transactional ids of all partitions that there are."""

    def __init__(self) -> None:
        super().__init__(TransactionsLog)

    def ids(self) -> Iterator[TransactionalId]:
        """Every transactional id once, as its partition tells it."""
        for replay in self.partitions.values():
            yield from replay.image.ids.values()
