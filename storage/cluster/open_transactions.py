"""The transactions that are open: as their coordinators' records have them, and as the logs of partitions do.

The two are put together by producer. What only a partition has open hangs, or its coordinator's records are not in the
store; what only the coordinator has open wrote to partitions that are not in the store, or nothing yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.internal.transactions_image import TransactionalId


class OpenInPartition(NamedTuple):
    """A transaction that is open in a partition's log, from `first_offset` on.

    `began_ms` is the time of its first batch, None where that cannot be read. `holds_up` says whether the partition's
    last stable offset is this one.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    began_ms: int | None
    holds_up: bool


class OpenTransaction(NamedTuple):
    """An open transaction. `coordinated` is what its coordinator wrote last, None if that is not known."""

    producer_id: int
    coordinated: TransactionalId | None
    in_partitions: tuple[OpenInPartition, ...]

    @property
    def producer_epoch(self) -> int:
        """The epoch that its batches have, or the coordinator's where it has none."""
        if self.in_partitions:
            return self.in_partitions[0].producer_epoch
        return -1 if self.coordinated is None else self.coordinated.producer_epoch

    @property
    def began_ms(self) -> int | None:
        """When it began: by its coordinator, or by its first batch."""
        if self.coordinated is not None and self.coordinated.is_open and self.coordinated.started_ms >= 0:
            return self.coordinated.started_ms
        return min((each.began_ms for each in self.in_partitions if each.began_ms is not None), default=None)

    @property
    def partitions(self) -> tuple[tuple[str, int], ...]:
        """Those that it has written to, as its coordinator or their logs say."""
        coordinated = () if self.coordinated is None else self.coordinated.partitions
        return tuple(sorted({*coordinated, *((each.topic, each.partition) for each in self.in_partitions)}))


def open_transactions(ids: Iterable[TransactionalId], opened: Iterable[OpenInPartition]) -> list[OpenTransaction]:
    """Return those that are open by either account, the oldest first, then those of unknown age."""
    in_partitions: dict[int, list[OpenInPartition]] = {}
    for each in opened:
        in_partitions.setdefault(each.producer_id, []).append(each)
    found = [
        OpenTransaction(coordinated.producer_id, coordinated, tuple(in_partitions.pop(coordinated.producer_id, ())))
        for coordinated in ids
        if coordinated.is_open or coordinated.producer_id in in_partitions
    ]
    found += [OpenTransaction(producer_id, None, tuple(each)) for producer_id, each in in_partitions.items()]
    return sorted(found, key=lambda each: (each.began_ms is None, each.began_ms or 0, each.producer_id))
