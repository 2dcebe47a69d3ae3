"""The batches of one log of an internal topic, each taken once: from the log's start, and then as they are appended.

After `advance`, a replay equals one that has read the log from its start. It begins again if the log was truncated,
replaced, or lost its start, and if damage may have been repaired. A compaction changes nothing: it removes only records
that later ones superseded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from storage.cluster.image_memory import ImageMemory, state_of
from storage.errors import CorruptBatchError, MemoryBudgetError, StorageError
from storage.internal.measuring import ENTRY_BYTES, measured
from storage.log.past_damage import batches_past_damage
from storage.log.producers.state import marker_of
from storage.segment.names import Kind

if TYPE_CHECKING:
    from storage.cluster.image_memory import Image
    from storage.internal.outcome import Fields
    from storage.log.readable_log import ReadableLog
    from storage.log.view import LogView
    from storage.record.reading import Batch

DAMAGES_MAX: Final = 10
"""The number of damaged places that are kept; all are counted."""


class LogReplay(ABC):
    """The records of a log, one by one. Not for several threads.

    `revision` grows whenever records were taken or forgotten. `image` is what the records build up, and `memory` what
    that takes of the budget. `damages` are the first skipped places, and `damage_count` is their number. `unread`
    counts records of an unknown type or version, or that cannot be read.
    """

    image: Image

    def __init__(self, log: ReadableLog) -> None:
        self.log = log
        self.revision = 0
        self.memory = ImageMemory()
        self._restart()

    def advance(self) -> None:
        """Take the new records. Raises `UnknownPartitionError` if the log is gone, or what opening its files raises.

        Raises `MemoryBudgetError` if the budget has no room for all that the records tell: then nothing is known.
        """
        try:
            self.log.on_view(self._advance)
            self.memory.settle()
        except MemoryBudgetError:
            self._restart()
            self.memory.refuse()
            raise

    def forget(self) -> None:
        """Forget everything, and give the memory back. The next look reads the log again."""
        self._restart()
        self.memory.end()

    @property
    def is_complete(self) -> bool:
        """True if everything was read that the log holds."""
        return self.damage_count == self.unread == 0

    @abstractmethod
    def _clear(self) -> None:
        """Forget everything."""

    def _count(self, *fields: Fields | None) -> None:
        """Count the memory of what was taken of a record."""
        self.memory.add(ENTRY_BYTES + sum(map(measured, fields)))

    @abstractmethod
    def _take(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int | None) -> bool:
        """Take the next record, with its producer if it is in a transaction; False if it cannot be read."""

    @abstractmethod
    def _end_transaction(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """Take the marker that ends a producer's transaction."""

    def _restart(self) -> None:
        self.revision += 1
        self.damages: list[StorageError] = []
        self.damage_count = 0
        self.unread = 0
        self._next_offset = 0
        self._start_offset: int | None = None
        self._cuts: tuple[int, ...] = ()
        self._bases: tuple[int, ...] = ()
        self._last: tuple[int, int] | None = None  # the last batch: its last offset and its checksum
        self._clear()

    def _advance(self, view: LogView) -> None:
        if self._is_another(view):
            self._restart()
        if self._start_offset is None:
            directory = view.directory
            what = "the records of " + ("the log" if directory is None else str(directory.path))
            self.memory.begin(self.image, what, state_of(view))
        self._start_offset, self._cuts, self._bases = view.start_offset, view.cuts, view.bases
        self._next_offset = max(self._next_offset, view.start_offset)
        if self._next_offset >= view.end_offset:
            return
        self.revision += 1
        for segment, piece in batches_past_damage(view, self._next_offset):
            if isinstance(piece, CorruptBatchError):
                self._pass_over(piece)
                continue
            try:
                self._take_batch(piece, view.start_offset)
            except MemoryBudgetError:
                raise
            except StorageError as error:
                self._pass_over(error.located(path=segment.path(Kind.LOG)))
            self._last = (piece.last_offset, piece.crc)
            self._next_offset = piece.last_offset + 1
        self._next_offset = view.end_offset

    def _is_another(self, view: LogView) -> bool:
        """True if the log no longer begins with the records taken so far."""
        if self._start_offset is None:
            return False
        if view.start_offset != self._start_offset or view.end_offset < self._next_offset:
            return True
        if view.cuts[: len(self._cuts)] != self._cuts:
            return True
        if any(cut < self._next_offset for cut in view.cuts[len(self._cuts) :]):
            return True
        if self.damage_count and view.bases != self._bases:
            return True
        if self._last is None:
            return False
        last_offset, crc = self._last
        try:
            batch = view.find(last_offset)
        except CorruptBatchError:
            return True
        return batch is None or (batch.last_offset, batch.crc) != (last_offset, crc)

    def _take_batch(self, batch: Batch, start_offset: int) -> None:
        if batch.is_control:
            marker = marker_of(batch)
            if marker is not None:
                self._end_transaction(batch.producer_id, batch.base_offset, is_commit=marker.committed)
            return
        producer_id = batch.producer_id if batch.is_transactional else None
        for record in list(batch.records()):  # whole or not at all, as damage may show at its end
            if record.offset >= start_offset and not self._take(record.key, record.value, record.offset, producer_id):
                self.unread += 1

    def _pass_over(self, damage: StorageError) -> None:
        self.damage_count += 1
        if len(self.damages) < DAMAGES_MAX:
            self.damages.append(damage)
