"""Batches of a visible log gathered to runs, to be rendered together.

A run is of batches whose records were all asked for. A batch that has others besides comes by itself, with those of its
records that were asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkafs.content.stretches import STRETCH_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.record import Batch
    from storage.segment import Segment


class VisibleRun(NamedTuple):
    """Batches that lie one after another in one buffer, between two positions of their segment's log."""

    segment: Segment
    walk: Sequence[Batch]
    start: int
    end: int

    def move_to(self, position: int) -> None:
        """Continue at a later position: the renderer passes over the batches before it."""


class Gathering:
    """Gathers batches to runs. The first run is one batch, and each may be twice as long as the one before it."""

    def __init__(self) -> None:
        self._segment: Segment | None = None
        self._batches: list[Batch] = []
        self._end = 0
        self._size_bytes_max = 0

    def add(self, segment: Segment, batch: Batch) -> Iterator[VisibleRun]:
        """Add a batch; yield the run before it if the batch is not part of it."""
        gathered, end = self._batches, batch.position + batch.size_bytes
        if (
            not gathered
            or segment is not self._segment
            or batch.position != self._end
            or batch.buffer is not gathered[0].buffer
            or end - gathered[0].position > self._size_bytes_max
        ):
            yield from self.take()
        self._segment, self._end = segment, end
        self._batches.append(batch)

    def take(self) -> Iterator[VisibleRun]:
        """Yield the run if there is one, and begin the next."""
        batches, self._batches = self._batches, []
        if batches and self._segment is not None:
            size_bytes = self._end - batches[0].position
            self._size_bytes_max = min(2 * max(self._size_bytes_max, size_bytes), STRETCH_BYTES_MAX)
            yield VisibleRun(self._segment, batches, batches[0].position, self._end)
