"""Ranges of offsets in words for people, who read the last number as one of the range."""

from __future__ import annotations


def offsets_text(start: int, end: int) -> str:
    """Return the offsets from `start` up to `end`, which is excluded, with the last one: `offsets 0 to 1499`.

    One is `offset 7`; none are `no records (the next offset is 12)`.
    """
    if start >= end:
        return f"no records (the next offset is {start})"
    return f"offset {start}" if end - start == 1 else f"offsets {start} to {end - 1}"
