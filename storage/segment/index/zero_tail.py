"""The zeros after an index's last entry: the unused part of a preallocated file.

A broker trims this tail when it rolls or closes a segment. Where it was killed before that, or still runs, the tail is
there and must not be taken for entries. An entry of zeros is never one of an offset index (it would index a segment's
first batch, at position 0, which no broker does), never one of a transaction index (a marker lies above its
transaction's first record), and one of a time index only in front of all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.files import ReadableFile

_WINDOW_BYTES: Final = 256 * 1024


def used_slots(file: ReadableFile, slots: int, entry_bytes: int) -> int:
    """Return how many of the first `slots` entries lie before the tail. No zeros are taken on trust.

    Only zeros follow them. The tail is read whole, from its end, except for holes.
    """
    end = slots * entry_bytes
    while end > 0:
        end = _hole_begin(file, end)
        start = max(end - _WINDOW_BYTES, 0)
        window = file.read_at(start, end - start)
        if window != bytes(len(window)):  # a comparison is a hundred times as fast as stripping
            return -(-(start + len(window.rstrip(b"\0"))) // entry_bytes)
        end = start
    return 0


def _hole_begin(file: ReadableFile, end: int) -> int:
    """Return a position up to which a hole reaches back from `end`: not always the first, and `end` without a hole."""
    step = _WINDOW_BYTES
    while end > 0 and file.data_from(before := max(end - step, 0)) >= end:
        end = before
        step *= 2
    return end


def is_zero(file: ReadableFile, start: int, end: int) -> bool:
    """Return True if only zeros lie between the two positions, or from the first to the file's end.

    Holes are not read.
    """
    while start < end:
        window = file.read_at(start, min(_WINDOW_BYTES, end - start))
        if not window:
            break
        if window != bytes(len(window)):
            return False
        start = file.data_from(start + len(window))
    return True


def probe_used_slots(file: ReadableFile, slots: int, entry_bytes: int, known: int = 0) -> int:
    """Return how many of the first `slots` entries lie before the first zeros; at least `known` of them do.

    It reads a handful of entries from a file of any size; a file that was written from front to back, as brokers write
    it, has no zeros before its tail.
    """

    def is_used(slot: int) -> bool:
        return any(file.read_at(slot * entry_bytes, entry_bytes))

    if slots == known or is_used(slots - 1):
        return slots
    low, step = known, 1  # everything below `low` is used
    while low + step < slots and is_used(low + step - 1):
        low += step
        step *= 2
    high = min(low + step, slots) - 1  # not used
    while low < high:
        middle = (low + high) // 2
        if is_used(middle):
            low = middle + 1
        else:
            high = middle
    return low
