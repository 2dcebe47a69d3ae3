"""Input whose end has not come: the beginning of a line, a record or a batch, which one writer's descriptor holds.

It cannot be made again, and there may be any number of writers, so it is counted in the memory of all descriptors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.content.descriptor_memory import HELD, Held
from storage.budget import MEMORY
from storage.errors import RecordTooLargeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from kafkafs.content.descriptor_memory import HeldMemory


class UnfinishedTooLargeError(RecordTooLargeError):
    """The memory budget has no room for a line, a record or a batch, nor ever will."""


class Unfinished:
    """Bytes to which more are added, each of which is copied a few times at most, however many pieces they come in."""

    def __init__(self, memory: HeldMemory = HELD) -> None:
        self._data = bytearray()
        self._held = Held(memory, "the bytes of a line, a record or a batch whose end has not been written")

    def __len__(self) -> int:
        return len(self._data)

    def add(self, piece: Buffer) -> None:
        """Add a piece.

        Raises `UnfinishedTooLargeError` if they are more than a share of the memory budget then, `MemoryBudgetError` if
        others have that; the piece is not added.
        """
        size_bytes = len(self._data) + memoryview(piece).nbytes
        if size_bytes > MEMORY.share_bytes:
            raise UnfinishedTooLargeError(
                f"a line, a record or a batch has more than {MEMORY.share_bytes} bytes, which is as much of the memory "
                "budget as any is given: write shorter ones, or mount with a larger -o memory="
            )
        self._held.resize(size_bytes)
        self._data += piece

    def take(self) -> bytearray:
        """Return the bytes, and hold none any more."""
        data, self._data = self._data, bytearray()
        self._held.resize(0)
        return data

    def clear(self) -> None:
        """Drop the bytes."""
        self.take()
