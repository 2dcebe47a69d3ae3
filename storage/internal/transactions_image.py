"""The state that the records of `__transaction_state` build up: each transactional id with its last state.

`TransactionsImage.apply` takes the records of one partition of the topic in the order of their offsets. All records
about a transactional id are in one partition, so images of several partitions add up. Decoding is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from storage.internal.transactions import TransactionState

if TYPE_CHECKING:
    from storage.internal.outcome import Fields


_OPEN: Final = frozenset({TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
_STATES: Final = frozenset(TransactionState)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """A transactional id by its last record. Times are -1 where the record has none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: int
    timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    updated_ms: int
    started_ms: int
    offset: int

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
            tuple(
                (each["topic"], partition)
                for each in value["transactionPartitions"] or ()
                for partition in each["partitionIds"]
            ),
            value["transactionLastUpdateTimestampMs"],
            value["transactionStartTimestampMs"],
            offset,
        )
