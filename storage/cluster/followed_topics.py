"""The internal topics of a store, followed: groups, transactional ids, and the progress of share groups.

Each partition of a topic that a store has is followed by a replay of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from storage.cluster.log_replay import LogReplay
from storage.errors import MemoryBudgetError, StorageError, UnknownPartitionError, forget_frames
from storage.internal import offsets, shares, transactions
from storage.internal.groups_image import COMMITTED_BYTES_MAX, OFFSETS, GroupsImage
from storage.internal.outcome import Message, Raw
from storage.internal.shares_image import SharesImage
from storage.internal.transactions_image import TransactionsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from storage.budget import Lease
    from storage.internal.groups_image import Group
    from storage.internal.shares_image import SharePartition, ShareStart
    from storage.internal.transactions_image import TransactionalId
    from storage.log.readable_log import ReadableLog

Replay = TypeVar("Replay", bound=LogReplay)


class FollowedTopic(Generic[Replay]):
    """Replays by the numbers of their partitions; not for several threads.

    `revision` grows whenever a look has found a change.
    """

    def __init__(self, replay: Callable[[ReadableLog], Replay]) -> None:
        self.revision = 0
        self._replay = replay
        self._failures: dict[int, Exception] = {}
        self.partitions: dict[int, Replay] = {}

    def look(self, logs: Mapping[int, ReadableLog]) -> None:
        """Take the new records of these logs; other partitions are forgotten.

        A log that cannot be read is one of the `shortcomings`, and its known records stay; those of a log that does
        not fit into the memory budget are forgotten.
        """
        before = {number: (replay, replay.revision) for number, replay in self.partitions.items()}
        failed = bool(self._failures)
        self._failures.clear()
        for number in self.partitions.keys() - logs.keys():
            del self.partitions[number]
        for number, log in logs.items():
            replay = self.partitions.get(number)
            if replay is None or replay.log is not log:
                replay = self.partitions[number] = self._replay(log)
            try:
                replay.advance()
            except UnknownPartitionError:
                del self.partitions[number]  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                forget_frames(error)
                self._failures[number] = error
        now = {number: (replay, replay.revision) for number, replay in self.partitions.items()}
        if failed or self._failures or now != before:
            self.revision += 1

    @property
    def too_large(self) -> MemoryBudgetError | None:
        """Return the error of a log whose records do not fit into the memory budget, if one does not."""
        return next((each for each in self._failures.values() if isinstance(each, MemoryBudgetError)), None)

    def forget(self) -> None:
        """Forget the records of those partitions that take memory from the budget: they are read again."""
        for replay in self.partitions.values():
            if replay.memory.is_large:
                replay.forget()

    def leases(self) -> list[list[Lease]]:
        """Return what keeps the memory of the records reserved, as long as anything refers to it."""
        return [replay.memory.leases for replay in self.partitions.values()]

    @property
    def is_complete(self) -> bool:
        """True if everything was read that the partitions hold."""
        return not self._failures and all(replay.is_complete for replay in self.partitions.values())

    @property
    def shortcomings(self) -> list[str]:
        """Return why the records may be incomplete or outdated, a sentence each."""
        said = [str(error) for error in self._failures.values()]
        for number, replay in sorted(self.partitions.items()):
            said.extend(map(str, replay.damages))
            if replay.damage_count > len(replay.damages):
                said.append(f"partition {number} has {replay.damage_count - len(replay.damages)} more damaged places")
            if replay.unread:
                said.append(f"{replay.unread} records of partition {number} are of a kind that is not known here")
        return said


class OffsetsLog(LogReplay):
    """One partition of the topic."""

    image: GroupsImage

    def _clear(self) -> None:
        self.image = GroupsImage()

    def _take(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int | None) -> bool:
        read = offsets.decode(key, value)
        if not isinstance(read.key, Message) or isinstance(read.value, Raw):
            return False
        fields = None if read.value is None else read.value.fields
        name = read.key.name.removesuffix("Key")
        self.image.apply(name, read.key.fields, fields, offset, producer_id)
        if name == OFFSETS:  # nearly all records, which have no lists
            self.memory.add(COMMITTED_BYTES_MAX + len(key or b"") + len(value or b""))
        else:
            self._count(read.key.fields, fields)
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
        read = shares.decode(key, value)
        if not isinstance(read.key, Message) or isinstance(read.value, Raw):
            return False
        fields = None if read.value is None else read.value.fields
        self.image.apply(read.key.name.removesuffix("Key"), read.key.fields, fields, offset)
        self._count(read.key.fields, fields)
        return True

    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Do nothing: coordinators write this topic without transactions."""


class SharesTopic(FollowedTopic[SharesLog]):
    """The progress of share groups, by all partitions of the topic that are here."""

    def __init__(self) -> None:
        super().__init__(SharesLog)

    def start(self, partition: SharePartition) -> ShareStart | None:
        """Return where a group is in a partition, None if no record here tells it."""
        for replay in self.partitions.values():
            if (found := replay.image.starts.get(partition)) is not None:
                return found
        return None


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
        read = transactions.decode(key, value)
        if not isinstance(read.key, Message) or isinstance(read.value, Raw):
            return False
        fields = None if read.value is None else read.value.fields
        self.image.apply(read.key.fields, fields, offset)
        self._count(read.key.fields, fields)
        return True

    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Do nothing: coordinators write this topic without transactions."""


class TransactionsTopic(FollowedTopic[TransactionsLog]):
    """The transactional ids of all partitions that there are."""

    def __init__(self) -> None:
        super().__init__(TransactionsLog)

    def ids(self) -> Iterator[TransactionalId]:
        """Every transactional id once, as its partition tells it."""
        for replay in self.partitions.values():
            yield from replay.image.ids.values()
