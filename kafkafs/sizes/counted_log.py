"""A log as one kind of its readers sees it, and how many bytes that comes to, as far as it was counted.

What was counted of a segment holds for as long as its file is the same one and still has the last batch that was
counted: then it has all those before it. So a log that is appended to or loses its beginning has nothing counted
twice, and one that was truncated or compacted has only those segments counted anew that are no longer the same.
"""

from __future__ import annotations

from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.render.batch_lines import Visible
from kafkafs.sizes.counted_file import CountedFile
from kafkafs.sizes.kept_pieces import KeptPieces
from kafkafs.sizes.pieces import UNSETTLED, LinePieces, gathered
from kafkafs.sizes.positions import Positions, Seen, SeenFile
from storage.partition.view import Isolation
from storage.segment.names import Kind
from storage.segment.zero_tail import is_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkafs.render.batch_lines import BatchLines
    from kafkafs.sizes.pieces import Piece, Pieces
    from storage.files import ReadableFile
    from storage.partition.readable_log import ReadableLog
    from storage.partition.view import LogView
    from storage.segment.segment import Segment


class _Known(NamedTuple):
    """What was found when a segment was last looked at; one that was the last may have been changed in its place."""

    segment: Segment
    counted: CountedFile
    end: int
    was_last: bool


class CountedLog:
    """The log through one isolation level, in one form of lines. Any thread may ask.

    `restored` is what another process has counted, and is believed as far as the files bear it out. `kept` is where it
    leaves for readers what it rendered.
    """

    def __init__(
        self,
        log: ReadableLog,
        lines: BatchLines,
        isolation: Isolation,
        restored: Iterable[CountedFile] = (),
        *,
        key: str = "",
        kept: KeptPieces | None = None,
    ) -> None:
        self.key = key
        self._kept = KeptPieces(0) if kept is None else kept
        self.log = log
        self._lines = lines
        self._isolation = isolation
        self._restored = {counted.base_offset: counted for counted in restored}
        self._looking = Lock()  # held while files are looked at
        self._counting = Lock()  # held while batches are counted
        self._known: dict[int, _Known] = {}
        self._seen: Seen | None = None
        self._positions: Positions | None = None

    # Looking

    def look(self) -> tuple[Seen, Positions]:
        """The log as it is now, and the positions that begin with its start."""
        view = self.log.view
        while True:
            with self._looking:
                seen, positions = self._seen, self._positions
                if seen is not None and positions is not None and seen.view is view:
                    return seen, positions
                try:
                    return self._look(view)
                except FileNotFoundError:
                    newer = self.log.view
                    if newer is view:
                        raise
                    view = newer

    def _look(self, view: LogView) -> tuple[Seen, Positions]:
        shown = _shown(view)
        known: dict[int, _Known] = {}
        is_replaced = False
        for segment in shown:
            is_last = segment is shown[-1]
            before = self._known.get(segment.base_offset)
            if before is not None and before.segment is segment and not is_last and not before.was_last:
                known[segment.base_offset] = before
                continue
            counted = self._found(segment, None if before is None else before.counted)
            is_replaced |= before is not None and before.counted is not counted
            end = view.end_position if is_last else _end_of(segment)
            known[segment.base_offset] = _Known(segment, counted, end, is_last)
        for base_offset, each in self._known.items():
            if base_offset not in known:
                each.counted.is_void = True
                is_replaced |= bool(shown) and base_offset > shown[0].base_offset
        start_position, hidden = self._find_start(view, shown, known)
        files = tuple(SeenFile(*each) for each in known.values())
        seen = Seen(view, view.bound(self._isolation), files, start_position, hidden)
        self._known, self._seen = known, seen
        positions = self._positions
        if positions is None or is_replaced or positions.start_offset != view.start_offset:
            number, lineage = 0, 0
            if positions is not None:
                number = positions.number + 1
                lineage = positions.lineage if positions.go_on_in(seen) else positions.lineage + 1
            positions = self._positions = Positions(number, lineage, seen)
        return seen, positions

    def _found(self, segment: Segment, known: CountedFile | None) -> CountedFile:
        """What is known of the segment's file, or something new of which nothing is known."""
        status = segment.log_status()
        if status is None:
            raise FileNotFoundError(segment.path(Kind.LOG))
        candidate = self._restored.pop(segment.base_offset, None) if known is None else known
        if candidate is not None and candidate.identity == status.identity:
            with segment.open_log() as file:
                if candidate.is_still_in(file):
                    return candidate
        if candidate is not None:
            candidate.is_void = True
        return CountedFile(segment.base_offset, status.identity)

    def _find_start(self, view: LogView, shown: tuple[Segment, ...], known: dict[int, _Known]) -> tuple[int, int]:
        """The position of the batch that has the log's start, and how much of what was counted lies before that."""
        for each in known.values():
            # Only the first file may be counted from anywhere but its beginning.
            if each.counted.start > 0 and each.segment is not shown[0]:
                known[each.segment.base_offset] = each._replace(counted=_anew(each, 0))
        if not shown:
            return 0, 0
        first = known[shown[0].base_offset]
        before = self._seen
        if (
            before is not None
            and before.files
            and before.files[0].counted is first.counted
            and before.view.start_offset == view.start_offset
        ):
            return before.start_position, before.hidden
        segment = first.segment
        position, batch = 0, None
        if view.start_offset > segment.base_offset:
            batch = segment.find(view.start_offset, first.end)
            position = first.end if batch is None else batch.position
        if not first.counted.start <= position <= first.counted.end.position:
            first = known[shown[0].base_offset] = first._replace(counted=_anew(first, position))
        hidden = self._rendered_before(view, first, position)
        if batch is not None:
            hidden += self._lines.size_before(batch, view.start_offset)
        return position, hidden

    def _rendered_before(self, view: LogView, known: _Known, position: int) -> int:
        """What was counted before a position at which a batch begins."""
        mark = known.counted.before_position(position)
        if mark.position == position:
            return mark.rendered
        seen = Seen(view, view.bound(self._isolation), (), 0, 0)
        with known.segment.open_log() as file:
            pieces = self.pieces(seen, known.segment).of(file, mark.position, position, only_sizes=True)
            return mark.rendered + sum(piece.size_bytes for piece in pieces)

    def pieces(self, seen: Seen, segment: Segment) -> Pieces:
        """How a segment of the view is taken to pieces."""
        view = seen.view
        to_tail = seen.end_offset >= view.end_offset
        if self._isolation is Isolation.UNCOMMITTED:
            return LinePieces(self._lines, Visible(seen.end_offset), segment.base_offset, to_tail=to_tail)
        following = (after.base_offset for before, after in pairwise(view.segments) if before is segment)
        upper = min(next(following, seen.end_offset), seen.end_offset)
        aborted = view.aborted(segment.base_offset, upper) if segment.base_offset < upper else ()
        visible = Visible(seen.end_offset, aborted)
        return LinePieces(self._lines, visible, segment.base_offset, to_tail=to_tail)

    # Counting

    def uncounted_bytes(self, seen: Seen) -> int:
        """How many bytes of the log are yet to be counted."""
        return sum(
            max(file.end - file.counted.end.position, 0)
            for file in seen.files
            if not file.counted.is_counted(file.end, seen.end_offset)
        )

    def count(
        self,
        seen: Seen,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        wait_s: float = -1,
        is_keeping: bool = False,
    ) -> bool:
        """Count what is left of the view; with `is_keeping`, for somebody who is likely to read it next.

        False if that was cancelled, if others kept counting for so long, or if a file is there no more.
        """
        return all(
            self.count_file(seen, file, is_cancelled, wait_s=wait_s, is_keeping=is_keeping) for file in seen.files
        )

    def rendered(self, seen: Seen, file: SeenFile, opened: ReadableFile, at: int) -> Iterator[Piece]:
        """The pieces of a file of the view, which is open, from a position on at which one begins."""
        counted = file.counted
        while (kept := self._kept.take(counted, at)) is not None:
            yield kept
            at = kept.position
        yield from gathered(self.pieces(seen, file.segment).of(opened, at, file.end, only_sizes=False))

    def count_all(self, is_cancelled: Callable[[], bool]) -> None:
        """Count the log as it is now."""
        seen, _ = self.look()
        while not self.count(seen, is_cancelled) and not is_cancelled():
            before = seen
            seen, _ = self.look()
            if seen is before:
                return

    def count_file(
        self,
        seen: Seen,
        file: SeenFile,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        wait_s: float = -1,
        is_keeping: bool = False,
    ) -> bool:
        """Count what is left of one file of the view."""
        segment, counted, end, _ = file
        if counted.is_counted(end, seen.end_offset):
            return True
        if not self._counting.acquire(timeout=wait_s):
            return False
        try:
            with segment.open_log() as opened:
                if is_keeping and not counted.is_counted(end, seen.end_offset):
                    self._render(seen, file, opened)
                return _count(counted, opened, self.pieces(seen, segment), seen.end_offset, end, is_cancelled)
        except FileNotFoundError:
            return False
        finally:
            self._counting.release()

    def _render(self, seen: Seen, file: SeenFile, opened: ReadableFile) -> None:
        """Count what is left of a file by rendering it, and keep that, as far as there is room and it is sound."""
        counted = file.counted
        at, last_batch = counted.end.position, UNSETTLED
        for piece in gathered(self.pieces(seen, file.segment).of(opened, at, file.end, only_sizes=False)):
            if piece.damage is not None or piece.position == UNSETTLED:
                break
            counted.add(at, piece)
            has_room = self._kept.keep(self, counted, at, piece)
            at, last_batch = piece.position, max(last_batch, piece.last_batch)
            if counted.end.position != at or not has_room:
                break
        else:
            counted.end_offset = max(counted.end_offset, seen.end_offset)
        counted.note(opened, last_batch)

    @property
    def counted_bytes(self) -> int:
        """How many bytes of the log were counted."""
        seen = self._seen
        return 0 if seen is None else sum(file.counted.end.position - file.counted.start for file in seen.files)

    def counted(self) -> list[CountedFile]:
        """What is known of files of which something was counted, and found sound."""
        seen = self._seen
        if seen is None:
            return []
        return [file.counted for file in seen.files if file.counted.probe.header and not file.counted.damaged]


def _count(
    counted: CountedFile,
    opened: ReadableFile,
    pieces: Pieces,
    end_offset: int,
    end: int,
    is_cancelled: Callable[[], bool],
) -> bool:
    """Count an open file up to an end; False if that was cancelled."""
    while not counted.is_counted(end, end_offset):
        at, last_batch, has_ended = counted.end.position, UNSETTLED, True
        for piece in pieces.of(opened, at, end, only_sizes=True):
            counted.add(at, piece)
            at, last_batch = piece.position, max(last_batch, piece.last_batch)
            if counted.end.position != at or is_cancelled():
                has_ended = False  # or a reader was faster, from where on it goes on then
                break
        counted.note(opened, last_batch)
        if has_ended:
            counted.end_offset = max(counted.end_offset, end_offset)
        elif is_cancelled():
            return False
    return True


def _end_of(segment: Segment) -> int:
    """Where the batches of a segment end that another follows on: there may be more behind whatever is not zeros."""
    end, status = segment.size_bytes, segment.log_status()
    if status is None or status.size_bytes <= end:
        return end
    with segment.open_log() as file:
        return end if is_zero(file, end, status.size_bytes) else status.size_bytes


def _anew(known: _Known, start: int) -> CountedFile:
    """The same file with nothing counted."""
    return CountedFile(known.counted.base_offset, known.counted.identity, start=start)


def _shown(view: LogView) -> tuple[Segment, ...]:
    """The segments from the one that has the log's start on."""
    bases = view.bases
    first = max((number for number, base in enumerate(bases) if base <= view.start_offset), default=0)
    return view.segments[first:]
