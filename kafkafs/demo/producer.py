"""A program that writes to one log of a store, as producers do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.log import AppendOrigin, Log
from storage.record import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchForm,
    Codec,
    EndTransactionMarker,
    batches_of_rows,
    marker_batch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record import Row
    from storage.store import Store

_EPOCH: Final = 0  # of producers, leaders and coordinators: none was ever replaced
_MARKER: Final = {committed: EndTransactionMarker(committed, coordinator_epoch=_EPOCH) for committed in (True, False)}


class Producer:
    """Writes to one partition; with an id it writes every batch exactly once, and in transactions if it is told to."""

    def __init__(
        self,
        store: Store,
        topic: str,
        partition: int,
        *,
        producer_id: int = NO_PRODUCER_ID,
        is_transactional: bool = False,
    ) -> None:
        log = store.log(topic, partition)
        assert isinstance(log, Log)
        self._log = log
        self._producer_id = producer_id
        self._is_transactional = is_transactional
        self._sequence = 0

    def send(self, rows: Sequence[Row], codec: Codec = Codec.NONE) -> None:
        """Write the rows together."""
        is_known = self._producer_id != NO_PRODUCER_ID
        form = BatchForm(
            codec=codec,
            producer_id=self._producer_id,
            producer_epoch=_EPOCH if is_known else NO_PRODUCER_EPOCH,
            base_sequence=self._sequence if is_known else NO_SEQUENCE,
            transactional=self._is_transactional,
        )
        self._log.append_all_as_leader(list(batches_of_rows(rows, base_offset=None, form=form)), leader_epoch=_EPOCH)
        self._sequence += len(rows)

    def end_transaction(self, timestamp_ms: int, *, is_committed: bool) -> None:
        """End the open transaction, as its coordinator."""
        marker = marker_batch(
            _MARKER[is_committed],
            offset=0,
            timestamp_ms=timestamp_ms,
            producer_id=self._producer_id,
            producer_epoch=_EPOCH,
        )
        self._log.append_as_leader(marker, leader_epoch=_EPOCH, origin=AppendOrigin.COORDINATOR)
