"""Searching a log: many batches at a time, on all cores, from where the indexes say, and no further than asked.

The search passes over runs of batches without an object for any record; only the records that match are decoded for
their reader. So the batches with matches are decoded twice, and all others once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkafs.content.pieces import LinePieces
from kafkafs.damage import Damage
from kafkafs.render.batch_lines import PLACE_BYTES, MatchPlaces, ValueLines, Visible, places_in
from storage.log import Isolation
from storage.segment import LogScan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.content.piece import Piece
    from kafkafs.find.query import Query
    from kafkafs.locator.times import Time
    from kafkafs.render.batch_lines import BatchLines
    from storage.errors import CorruptBatchError
    from storage.files import ReadableFile
    from storage.log import LogView
    from storage.record import Record

_WINDOW_BYTES: Final = 64 * 1024


class Reach(NamedTuple):
    """The part of a log that is searched: from an offset up to another, excluded, as a reader at a level sees it."""

    view: LogView
    start: int
    end: int
    isolation: Isolation = Isolation.UNCOMMITTED

    @classmethod
    def between(cls, view: LogView, since: Time | None, until: Time | None, isolation: Isolation, now_ms: int) -> Self:
        """Return the part between two times, as `by-time/SINCE..UNTIL` has it; from the log's start, or to its end."""
        end_offset = max(view.bound(isolation), view.start_offset)
        start = view.start_offset if since is None else _first_from(view, since.resolve(now_ms), end_offset)
        end = end_offset if until is None else _first_from(view, until.resolve(now_ms), end_offset)
        return cls(view, start, max(start, end), isolation)


def _first_from(view: LogView, time_ms: int, end_offset: int) -> int:
    found = view.find_timestamp(time_ms)
    return end_offset if found is None else min(found.offset, end_offset)


class Search:
    """The search of logs for what a query wants.

    Damage is raised where it is met, or with `SKIP` handed to `on_damage`, and the search goes on after it.
    """

    def __init__(
        self,
        query: Query,
        damage: Damage = Damage.STOP,
        on_damage: Callable[[CorruptBatchError], None] = lambda _: None,
    ) -> None:
        self._query = query
        self._damage = damage
        self._on_damage = on_damage

    def counts(self, reach: Reach) -> Iterator[int]:
        """Yield how many records match, part by part, so that those before damage count.

        No record is decoded for it unless a regular expression is given.
        """
        if self._query.pattern is not None:
            yield from (1 for _ in self.records(reach))
            return
        places = self._places_of(reach)
        for _, _, piece in self._pieces(reach, places, only_sizes=True):
            yield piece.size_bytes // PLACE_BYTES

    def records(self, reach: Reach) -> Iterator[Record]:
        """Iterate over the records that match, in the order of their offsets."""
        query = self._query
        if query.is_of_pattern_alone:
            yield from self._by_pattern(reach)
            return
        for file, _, piece in self._pieces(reach, self._places_of(reach), only_sizes=False):
            wanted: dict[int, set[int]] = {}
            for position, offset in places_in(piece.data):
                wanted.setdefault(position, set()).add(offset)
            for position, offsets in wanted.items():
                batch = next(iter(LogScan(file, start=position, window_bytes=_WINDOW_BYTES)))
                yield from (
                    record
                    for record in batch.checked_records()
                    if record.offset in offsets and query.matches_pattern(record)
                )

    def _places_of(self, reach: Reach) -> MatchPlaces:
        start, end = reach.start, reach.end
        matches = self._query.matches_but_pattern
        return MatchPlaces(
            self._query.criteria(start, end),
            lambda record, batch: start <= record.offset < end and matches(record, batch),
        )

    def _by_pattern(self, reach: Reach) -> Iterator[Record]:
        """Search the values of many records at once, and look at each only where something matches."""
        pattern, matches = self._query.pattern, self._query.matches_pattern
        assert pattern is not None
        visible = _visible(reach)
        for file, start, piece in self._pieces(reach, ValueLines(), only_sizes=False):
            if not pattern.may_match(piece.data):
                continue
            for batch in LogScan(file, start=start, end=piece.position):
                if batch.last_offset < reach.start or not visible.shows(batch):
                    continue
                batch.check_crc()
                yield from (
                    record
                    for record in batch.checked_records()
                    if reach.start <= record.offset < reach.end and matches(record)
                )

    def _pieces(
        self, reach: Reach, lines: BatchLines, *, only_sizes: bool
    ) -> Iterator[tuple[ReadableFile, int, Piece]]:
        """Yield the pieces of the segments with the offsets, each with its file and the position at which it begins."""
        view, start, end, _ = reach
        visible = _visible(reach)
        for segment, bound, end_offset in view.slices(start) if start < end else ():
            if segment.base_offset >= end:
                return
            end_position = segment.size_bytes if bound is None else bound
            with segment.open_log() as file:
                position = segment.scan_near(file, start, end_position, _WINDOW_BYTES).position
                pieces = LinePieces(lines, visible, segment.base_offset, to_tail=False)
                for piece in pieces.of(file, position, end_position, only_sizes=only_sizes):
                    if piece.damage is None:
                        yield file, position, piece
                    elif self._damage is Damage.STOP:
                        raise piece.damage
                    else:
                        self._on_damage(piece.damage)
                    position = piece.position
            if end >= end_offset:
                segment.check_end(bound)


def _visible(reach: Reach) -> Visible:
    view, start, end, isolation = reach
    is_committed = isolation is Isolation.COMMITTED and start < end
    return Visible(end, view.aborted(start, end) if is_committed else ())
