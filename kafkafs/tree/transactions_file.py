"""`transactions`: the open ones and the last aborted ones.

A table with a line for each: the open ones, the oldest first, and then the aborted ones, the latest first. `lastOffset`
and `lastTimestamp` are of the last batch of one that is open, and of the marker of one that was aborted; ages are
counted from there. Of an aborted one whose marker is gone or damaged only the producer and the offsets are known.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.tree.log_fact import LOOKED_AT_MAX, HeldStates, ProducerFact, age_s
from kafkafs.tree.tab_separated import table_pieces
from storage.errors import MemoryBudgetError, StorageError
from storage.log import marker_of
from storage.segment import FileSuffix, Kind, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.log import LogView, ProducerState
    from storage.segment.index import AbortedTransaction

ABORTED_MAX: Final = 1000
"""How many aborted transactions are listed."""

_NAMES: Final = (
    "state",
    "producerId",
    "producerEpoch",
    "coordinatorEpoch",
    "firstOffset",
    "lastOffset",
    "lastTimestamp",
    "ageSeconds",
)


class _Marker(NamedTuple):
    """What a marker says beyond the index."""

    producer_epoch: int
    coordinator_epoch: int
    timestamp_ms: int


class TransactionsFile(ProducerFact):
    """The file `transactions` of a log."""

    def pieces(self, view: LogView) -> Callable[[], Iterator[bytes]]:
        """The table."""
        now_ms = self._clock.now_ms()
        producers = self._source.log.producers
        states = [state for state in producers.states() if state.transaction_offset is not None]
        held = HeldStates(producers, states, key=lambda state: state.transaction_offset or 0)
        aborted = [_aborted_row(each, view, now_ms) for each in reversed(self._last_aborted(view))]
        return lambda: table_pieces(_NAMES, chain((_open_row(state, now_ms) for state in held.states), aborted))

    def _last_aborted(self, view: LogView) -> list[AbortedTransaction]:
        """Return the last aborted transactions, from ever more of the segments with a transaction index."""
        if not view.segments:
            return []
        active_base = view.segments[-1].base_offset
        starts = [active_base, *(base for base in self._index_bases(view) if base < active_base)]
        count = 1
        while True:
            start = max(starts[min(count, len(starts)) - 1], view.start_offset)
            found = view.aborted(start, view.end_offset)
            if len(found) >= ABORTED_MAX or count >= len(starts):
                return found[-ABORTED_MAX:]
            count *= 2

    def _index_bases(self, view: LogView) -> list[int]:
        """The segments that have a transaction index, the last one first."""
        if len(view.segments) <= LOOKED_AT_MAX:
            newest_first = reversed(view.segments)
            return [each.base_offset for each in newest_first if each.own_files.status(Kind.TRANSACTION_INDEX)]
        return sorted(
            {
                name.offset
                for name in parsed(self._source.log.directory.names())
                if name.kind is Kind.TRANSACTION_INDEX and name.suffix is not FileSuffix.DELETED
            },
            reverse=True,
        )


def _open_row(state: ProducerState, now_ms: int) -> tuple[object, ...]:
    return (
        "open",
        state.producer_id,
        state.epoch,
        state.coordinator_epoch if state.coordinator_epoch >= 0 else None,
        state.transaction_offset,
        state.batches[-1].last_offset if state.batches else None,
        state.last_timestamp if state.last_timestamp >= 0 else None,
        age_s(state.last_timestamp, now_ms),
    )


def _aborted_row(transaction: AbortedTransaction, view: LogView, now_ms: int) -> tuple[object, ...]:
    marker = _marker(transaction, view)
    return (
        "aborted",
        transaction.producer_id,
        None if marker is None else marker.producer_epoch,
        None if marker is None else marker.coordinator_epoch,
        transaction.first_offset,
        transaction.last_offset,
        None if marker is None else marker.timestamp_ms,
        None if marker is None else age_s(marker.timestamp_ms, now_ms),
    )


def _marker(transaction: AbortedTransaction, view: LogView) -> _Marker | None:
    """The marker that aborted the transaction, if the log still has it."""
    try:
        batch = view.find(transaction.last_offset)
        if batch is None or batch.base_offset != transaction.last_offset:
            return None
        marker = marker_of(batch)
    except MemoryBudgetError:
        raise
    except StorageError:
        return None
    if marker is None or batch.producer_id != transaction.producer_id:
        return None
    return _Marker(batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp)
