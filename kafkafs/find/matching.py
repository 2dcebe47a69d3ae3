"""The records that match in batches that are at hand, as a follower of a log comes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.render.batch_lines import MatchPlaces, Visible, places_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkafs.find.query import Query
    from storage.record import Batch, Record

_OFFSETS_END: Final = 2**63 - 1


class Matching:
    """Chooses records for a reader of many batches: the kernel tests them, and only batches with matches are decoded.

    Damage is raised where it is met, after the matches before it.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._places = MatchPlaces(query.criteria(0, _OFFSETS_END), query.matches_but_pattern)

    def records(self, run: Sequence[Batch]) -> Iterator[list[Record]]:
        """Yield the records that match of consecutive visible batches, of each that has any."""
        visible, end_position = Visible(_OFFSETS_END), run[-1].position + run[-1].size_bytes
        following = 0
        while following < len(run):
            first = run[following]
            found = self._places.render(first, visible, end_position, only_size=False)
            wanted: dict[int, set[int]] = {}
            for position, offset in places_in(found.lines):
                wanted.setdefault(position, set()).add(offset)
            end = first.position + found.log_bytes
            while following < len(run) and run[following].position < end:
                batch = run[following]
                if batch.position in wanted:
                    yield self._of(batch, wanted[batch.position])
                following += 1

    def _of(self, batch: Batch, offsets: set[int]) -> list[Record]:
        matches = self._query.matches_pattern
        return [each for each in batch.checked_records() if each.offset in offsets and matches(each)]
