"""The batches of a replica in brief, by which two replicas of the same batches are known without reading them again.

The offsets are divided into stretches, and each stretch has the sum of what tells its batches apart. There are at most
so many stretches, which grow with the log. The sum does not depend on the order, so that two stretches are joined by
adding their sums.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.record.reading import Batch

_STRETCHES_MAX: Final = 256
_SUM_MASK: Final = 2**64 - 1


class OffsetRange(NamedTuple):
    """The offsets from `begin` up to `end`."""

    begin: int
    end: int


class Digests(NamedTuple):
    """The sums of the stretches that have batches; a stretch has two to the power of `shift` offsets."""

    shift: int
    stretches: array[int]
    sums: array[int]

    def widened(self, shift: int) -> dict[int, int]:
        """Return the sums by stretches that are at least as wide."""
        return _widened(zip(self.stretches, self.sums, strict=True), shift - self.shift)


class DigestMaker:
    """Sums up the batches that a scan adds. A batch belongs to the stretch of its base offset."""

    def __init__(self) -> None:
        self._shift = 0
        self._sums: dict[int, int] = {}

    def add(self, batch: Batch) -> None:
        """Add a batch; no checksum covers its offsets, so that they count beside the checksum."""
        stretch = batch.base_offset >> self._shift
        self._sums[stretch] = (self._sums.get(stretch, 0) + hash(identity(batch))) & _SUM_MASK
        while len(self._sums) > _STRETCHES_MAX:
            self._sums = _widened(self._sums.items(), 1)
            self._shift += 1

    def digests(self) -> Digests:
        """Return the sums of all that was added."""
        return Digests(self._shift, array("q", self._sums.keys()), array("Q", self._sums.values()))


def identity(batch: Batch) -> tuple[int, int, int, int]:
    """Return what two batches have in common that hold the same records at the same offsets."""
    return batch.base_offset, batch.last_offset, batch.magic, batch.crc


def differing(one: Digests, other: Digests, within: OffsetRange) -> OffsetRange | None:
    """Return the offsets from the first stretch whose batches differ up to the last; None if none do."""
    shift = max(one.shift, other.shift)
    ours, theirs = one.widened(shift), other.widened(shift)
    first, last = within.begin >> shift, (within.end - 1) >> shift
    found = [
        stretch
        for stretch in ours.keys() | theirs.keys()
        if first <= stretch <= last and ours.get(stretch) != theirs.get(stretch)
    ]
    if not found or within.begin >= within.end:
        return None
    return OffsetRange(max(within.begin, min(found) << shift), min(within.end, (max(found) + 1) << shift))


def _widened(sums: Iterable[tuple[int, int]], shift: int) -> dict[int, int]:
    """Return the sums of stretches that are wider by so many powers of two."""
    found: dict[int, int] = {}
    for stretch, part in sums:
        found[stretch >> shift] = (found.get(stretch >> shift, 0) + part) & _SUM_MASK
    return found
