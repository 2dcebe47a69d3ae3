"""Record batches as producers send them, cut out of a stream of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.render.unfinished import Unfinished
from storage.errors import BatchTooLargeError, FramingError, InvalidRecordError, MemoryBudgetError
from storage.record import MAGIC_AT, read_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from kafkafs.render.packing import Packing


_VERSION: Final = 2


class BatchIntake:
    """Takes whole batches, by the lengths in their headers; the log checks the rest.

    A batch that is still incomplete is held, and one that is too large refused as soon as its length is there. Where a
    batch was refused it is unknown where the next one begins, so everything up to the next flush is dropped.
    """

    def __init__(self) -> None:
        self._in_progress = Unfinished()
        self._missing_bytes = 0  # of the batch in progress, as far as that can be told
        self._is_dropping = False

    def take(self, data: Buffer, packing: Packing) -> Sequence[Buffer]:
        """The batches that this write completes."""
        if self._is_dropping:
            return ()
        try:
            self._in_progress.add(data)
            self._missing_bytes -= memoryview(data).nbytes
            return () if self._missing_bytes > 0 else self._cut_out(packing.max_bytes)
        except (InvalidRecordError, MemoryBudgetError):
            self._is_dropping = True
            self._forget()
            raise

    def finish(self, packing: Packing) -> Sequence[Buffer]:  # noqa: ARG002 -- other intakes need it
        """Return nothing; raises `InvalidRecordError` if a batch is incomplete."""
        rest_bytes = len(self._in_progress)
        self._is_dropping = False
        self._forget()
        if rest_bytes:
            raise InvalidRecordError(f"the last batch is incomplete: only {rest_bytes} bytes of it have come")
        return ()

    def refuse(self) -> None:
        """Drop the batch in progress, and everything up to the next flush."""
        if self._in_progress:
            self._is_dropping = True
            self._forget()

    def _cut_out(self, max_bytes: int) -> Sequence[Buffer]:
        block = bytes(self._in_progress.take())
        walk = read_batches(block)
        try:
            batches = list(walk)
        except FramingError as error:
            raise InvalidRecordError(f"this is no record batch: {error.reason}") from None
        rest = block[walk.position :]
        magics = {batch.magic for batch in batches} | set(rest[MAGIC_AT : MAGIC_AT + 1])
        if magics - {_VERSION}:
            raise InvalidRecordError("this is no record batch of version 2")
        largest_bytes = max([len(rest) + walk.missing_bytes, *(batch.size_bytes for batch in batches)])
        if largest_bytes > max_bytes:
            raise BatchTooLargeError(f"a batch has {largest_bytes} bytes, and the largest allowed is {max_bytes}")
        self._in_progress.add(rest)
        self._missing_bytes = walk.missing_bytes
        return [batch.view(0, batch.size_bytes) for batch in batches]

    def _forget(self) -> None:
        self._in_progress.clear()
        self._missing_bytes = 0
