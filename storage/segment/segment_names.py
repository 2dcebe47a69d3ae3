"""Which segments the names in a partition's directory make up, be it at rest or in the middle of a replacement.

A replacement counts as soon as it is complete: as long as a `.cleaned` is left the old segments are the log, and then
those called `.swap` are, which hide the old ones in their range. How far that reaches is known to their batches only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.segment.names import SEGMENT_KINDS, FileName, Kind, State, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable


class SegmentNames(NamedTuple):
    """A segment that has a log, and the kinds of its files that go by the name of a swap file."""

    base_offset: int
    swapped: frozenset[Kind]

    @property
    def is_swap(self) -> bool:
        """Whether its log is yet to get its name."""
        return Kind.LOG in self.swapped

    def name(self, kind: Kind) -> str:
        """What the segment's file of this kind is called, if it has one."""
        return str(FileName(self.base_offset, kind, State.SWAP if kind in self.swapped else State.LIVE))


def segments_named(texts: Iterable[str]) -> list[SegmentNames]:
    """The segments, ascending; hidden ones are among them."""
    names = {name for text in texts if (name := parse_name(text)) is not None and name.kind in SEGMENT_KINDS}
    incomplete_from = min((name.offset for name in names if name.state is State.CLEANED), default=None)
    swapped: dict[int, set[Kind]] = {}
    for name in names:
        if name.state is State.SWAP and (incomplete_from is None or name.offset < incomplete_from):
            swapped.setdefault(name.offset, set()).add(name.kind)
    for name in names:
        # Only a swap file that is the segment's log makes the live files those of the segment that it replaces.
        if name.state is State.LIVE and Kind.LOG not in swapped.get(name.offset, ()):
            swapped.get(name.offset, set()).discard(name.kind)
    bases = {name.offset for name in names if name.kind is Kind.LOG and name.state is State.LIVE}
    bases |= {offset for offset, kinds in swapped.items() if Kind.LOG in kinds}
    return [SegmentNames(offset, _swapped(swapped.get(offset, set()))) for offset in sorted(bases)]


def _swapped(kinds: set[Kind]) -> frozenset[Kind]:
    """Files beside a log that has yet to get its name are named like it, if there are any."""
    return frozenset(SEGMENT_KINDS) if Kind.LOG in kinds else frozenset(kinds)
