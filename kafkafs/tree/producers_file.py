"""`producers`: what the log knows of those that write with an id, until they have been silent for too long: for
`producer.id.expiration.ms` of the broker's settings, unless they have a transaction open.

A table with a line for each, by their ids. `lastSequence` and `lastOffset` are of the last batch of the epoch;
`lastTimestamp`, from which ages are counted, is of that batch or of a later marker. `transactionFirstOffset` is where
the open transaction begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.tree.log_fact import HeldStates, ProducerFact, age_s
from kafkafs.tree.tab_separated import table_pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.log import LogView, ProducerState

_NAMES: Final = (
    "producerId",
    "producerEpoch",
    "coordinatorEpoch",
    "lastSequence",
    "lastOffset",
    "lastTimestamp",
    "ageSeconds",
    "transactionFirstOffset",
)


class ProducersFile(ProducerFact):
    """The file `producers` of a log."""

    def pieces(self, _view: LogView) -> Callable[[], Iterator[bytes]]:
        """The table."""
        now_ms = self._clock.now_ms()
        producers = self._source.log.producers
        held = HeldStates(producers, producers.live(now_ms), key=lambda state: state.producer_id)
        return lambda: table_pieces(_NAMES, (_row(state, now_ms) for state in held.states))


def _row(state: ProducerState, now_ms: int) -> tuple[object, ...]:
    return (
        state.producer_id,
        state.epoch,
        _known(state.coordinator_epoch),
        _known(state.last_sequence),
        state.batches[-1].last_offset if state.batches else None,
        _known(state.last_timestamp),
        age_s(state.last_timestamp, now_ms),
        state.transaction_offset,
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None
