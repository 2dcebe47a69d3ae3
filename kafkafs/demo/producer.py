"""The programs that write to the shop's topics, and the times and the runs in which they send records.

Records come all day long, evenly, and up to now.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, TypeVar

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
    from collections.abc import Iterator, Sequence

    from storage.record import Row
    from storage.store import Store

T = TypeVar("T")

DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
_EPOCH: Final = 0  # of producers, leaders and coordinators: none was ever replaced
_MARKER: Final = {committed: EndTransactionMarker(committed, coordinator_epoch=_EPOCH) for committed in (True, False)}


class Producer:
    """Writes to one partition: idempotently if it has an id, and in transactions if it is transactional."""

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


def draw_for(topic: str) -> random.Random:
    """Return a random generator that draws the same for a topic every time."""
    return random.Random(topic)  # noqa: S311 -- a demo has no secrets


def moments(count: int, now_ms: int, rng: random.Random) -> list[int]:
    """Return this many times of the day before now, in order: a random one in each of as many equal parts."""
    step_ms = DAY_MS // count
    return [now_ms - DAY_MS + number * step_ms + rng.randrange(step_ms) for number in range(count)]


def runs(items: Sequence[T], length_max: int, rng: random.Random) -> Iterator[Sequence[T]]:
    """Yield the items in runs of different lengths, as they gather until a producer sends them."""
    start = 0
    while start < len(items):
        end = start + rng.randint(1, length_max)
        yield items[start:end]
        start = end
