"""`__transaction_state`: for each transactional id its producer and the state of its transaction.

`decode` never raises for any bytes of a record. The one type of record is 0.
"""

from __future__ import annotations

import enum
from typing import Final

from storage.internal.keyed_topic import KeyedTopic

TOPIC: Final = "__transaction_state"
TRANSACTION_LOG_TYPE: Final = 0


class TransactionState(enum.IntEnum):
    """The values of `transactionStatus`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The state as Kafka's tools write it, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")


_topic = KeyedTopic("transactions")
decode = _topic.decode
encode_key = _topic.encode_key
encode_value = _topic.encode_value
definitions = _topic.definitions
