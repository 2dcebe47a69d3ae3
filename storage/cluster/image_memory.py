"""The memory that the image of a log takes of the budget.

Each record is counted as it is taken in. Where the count passes what is reserved, what later records replaced is left
out again, and more is reserved. An image that does not fit is forgotten, and read again only if there is room for as
much as it had come to, or if its log has lost records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from storage.budget import MEMORY
from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from storage.budget import Lease
    from storage.log.view import LogView

_FREE_BYTES: Final = 16 * 1024
"""How much an image has without the budget, as there may be one for each of very many partitions."""
_STEP_BYTES: Final = 64 * 1024


class Image(Protocol):
    """What the records of a log build up."""

    def size_bytes(self) -> int:
        """Return about how many bytes it takes."""


class ImageMemory:
    """What an image has of the budget, of which it may have three quarters. Not for several threads.

    `leases` end when nothing refers to the list any more: who keeps a part of the image keeps it too.
    """

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self._what = ""
        self._state: Hashable = None
        self._image: Image | None = None
        self._needed_bytes = 0
        self._clear()

    @property
    def is_large(self) -> bool:
        """True if the image takes memory from the budget."""
        return bool(self.leases)

    def begin(self, image: Image, what: str, state: Hashable) -> None:
        """Begin with an empty image; `what` names the log in errors.

        Raises `MemoryBudgetError` if the image did not fit before in this state of the log, and there is no more room.
        """
        self.end()
        self._image, self._what = image, what
        if state != self._state:
            self._state, self._needed_bytes = state, 0
        if self._needed_bytes:
            self._reserve(self._needed_bytes - self._room_bytes)

    def end(self) -> None:
        """Give all back: the image is forgotten."""
        self._clear()

    def refuse(self) -> None:
        """Give all back, and note how much was not enough."""
        self._needed_bytes = max(self._needed_bytes, self._asked_bytes)
        self._clear()

    def add(self, size_bytes: int) -> None:
        """Count what the image took in. Raises `MemoryBudgetError`, after which the caller forgets it and refuses."""
        self._counted_bytes += size_bytes
        if self._counted_bytes > self._room_bytes and self._counted_bytes > 2 * self._measured_bytes:
            self._measure()
        if self._counted_bytes <= self._room_bytes:
            return
        try:
            self._reserve(self._lacking_bytes(4))
        except MemoryBudgetError:
            self._measure()
            if self._counted_bytes > self._room_bytes - self._room_bytes // 8:  # so that it is not measured each time
                self._reserve(self._lacking_bytes(16))

    def settle(self) -> None:
        """Give back what was reserved ahead: the log is read to its end."""
        self._needed_bytes = 0
        if self.leases and self._counted_bytes > 2 * self._measured_bytes:
            self._measure()
        while self.leases and self._counted_bytes < self._room_bytes:
            size_bytes = self._sizes.pop()
            kept_bytes = max(size_bytes - (self._room_bytes - self._counted_bytes), 0)
            self._room_bytes -= size_bytes - kept_bytes
            self.leases[-1].reduce_to(kept_bytes)
            if kept_bytes:
                self._sizes.append(kept_bytes)
                break
            self.leases.pop()

    def _clear(self) -> None:
        self.leases = []
        self._sizes: list[int] = []
        self._room_bytes = _FREE_BYTES
        self._counted_bytes = self._measured_bytes = self._asked_bytes = 0
        self._image = None

    def _measure(self) -> None:
        self._measured_bytes = 0 if self._image is None else self._image.size_bytes()
        self._counted_bytes = self._measured_bytes

    def _lacking_bytes(self, part: int) -> int:
        """Return how much room is lacking for what is counted, and this part of it more."""
        return max(self._counted_bytes + self._counted_bytes // part + _STEP_BYTES - self._room_bytes, 0)

    def _reserve(self, size_bytes: int) -> None:
        self._asked_bytes = self._room_bytes + size_bytes
        limit_bytes = MEMORY.limit_bytes
        if self._asked_bytes > limit_bytes - MEMORY.share_bytes:  # a share is left for the batch that is read
            raise MemoryBudgetError(
                f"{self._what} take more memory than three quarters of the budget of {limit_bytes} bytes: mount with a "
                "larger -o memory="
            )
        self.leases.append(MEMORY.reserve(size_bytes, self._what))
        self._sizes.append(size_bytes)
        self._room_bytes += size_bytes


def state_of(view: LogView) -> Hashable:
    """Return what changes when a log loses records: appends leave it as it is until the next segment."""
    sizes = tuple((segment.base_offset, segment.size_bytes) for segment in view.segments[:-1])
    return view.start_offset, view.cuts, sizes
