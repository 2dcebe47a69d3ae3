"""The state that the records of `__transaction_state` build up: each transactional id with its last state.

`TransactionsImage.apply` takes the records of one partition of the topic in the order of their offsets. All records
about a transactional id are in one partition, so images of several partitions add up. Decoding is left to the caller.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from storage.internal.measuring import table_bytes
from storage.internal.transactions import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from storage.internal.outcome import Fields


_OPEN: Final = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_ID_BYTES: Final = 768
"""What an id takes besides the partitions of its transaction, about."""
_STATES: Final = frozenset(TransactionState)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """A transactional id by its last record. Times are -1 where the record has none.

    `written` are the partitions that its transaction writes to: their numbers, each once, by topic.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: int
    timeout_ms: int
    written: Mapping[str, array[int]]
    updated_ms: int
    started_ms: int
    offset: int

    @property
    def partitions(self) -> Iterator[tuple[str, int]]:
        """The partitions that its transaction writes to."""
        return ((topic, number) for topic, numbers in self.written.items() for number in numbers)

    @property
    def state_name(self) -> str:
        """The state as Kafka's tools write it."""
        return TransactionState(self.state).text if self.state in _STATES else f"unknown ({self.state})"

    @property
    def is_open(self) -> bool:
        """True if the transaction has begun and some partition may still lack its marker."""
        return self.state in _OPEN


@dataclass(slots=True)
class TransactionsImage:
    """The transactional ids in one partition of `__transaction_state`, up to `end_offset`."""

    ids: dict[str, TransactionalId] = field(default_factory=dict)
    end_offset: int = 0

    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        return table_bytes(self.ids) + sum(
            _ID_BYTES + sum(getsizeof(topic) + getsizeof(numbers) for topic, numbers in each.written.items())
            for each in self.ids.values()
        )

    def apply(self, key: Fields, value: Fields | None, offset: int) -> None:
        """Apply the next record; without a value it is a tombstone."""
        self.end_offset = offset + 1
        transactional_id = key["transactionalId"]
        if value is None:
            self.ids.pop(transactional_id, None)
            return
        self.ids[transactional_id] = TransactionalId(
            transactional_id,
            value["producerId"],
            value["producerEpoch"],
            value["transactionStatus"],
            value["transactionTimeoutMs"],
            _written(value["transactionPartitions"] or ()),
            value["transactionLastUpdateTimestampMs"],
            value["transactionStartTimestampMs"],
            offset,
        )


def _written(said: Iterable[Fields]) -> Mapping[str, array[int]]:
    """Return the partitions of a record in little memory: one may name a million, or one of them a million times."""
    numbers: dict[str, set[int]] = {}
    for each in said:
        numbers.setdefault(each["topic"], set()).update(each["partitionIds"])
    return {topic: array("i", sorted(found)) for topic, found in numbers.items()}
