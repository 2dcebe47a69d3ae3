"""Damage as readers meet it: what they may do there, and what is said of it.

It stands by itself because the tree, the source and the rooms of commands may not import one another.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.verify import Finding


class Damage(Enum):
    """What a reader does at a batch that cannot be decoded."""

    STOP = "stop"  # fail there, and return everything before it
    SKIP = "skip"  # leave it out, and count it or say so


def range_row(found: Finding, *, name: str | None = None) -> dict[str, object]:
    """Return what is said of a range that does not decode; with the name, if any, that its bytes have in a mount."""
    start, end = found.position, found.end_position
    return {
        "segment": found.path,
        "position": start,
        "endPosition": end,
        "bytes": None if start is None or end is None else end - start,
        "kind": found.kind.value,
        "reason": found.reason,
        "lastGoodOffset": found.last_good_offset,
        "nextGoodOffset": found.next_good_offset,
        **({} if name is None else {"name": name}),
        "remedy": _remedy(found),
    }


def _remedy(found: Finding) -> str:
    """Return what would bring back the records of a range."""
    from storage.offset_text import offsets_text
    from storage.verify import FindingKind

    if found.kind is FindingKind.OFFSETS:
        return "the records decode, and only their offsets contradict the batches around them: compare another replica"
    base_offset = int(found.path.partition(".")[0])
    after = base_offset if found.last_good_offset is None else found.last_good_offset + 1
    if found.next_good_offset is None:
        lost = f"its records from offset {after} on, if it had any"
    elif after >= found.next_good_offset:
        return "nothing is lost: the offsets around it follow on each other"
    else:
        lost = f"what was at {offsets_text(after, found.next_good_offset)}"
    return f"another replica or a backup may have {lost}"
