"""A log as one kind of reader sees it, and its rendered bytes as far as they were counted.

The counts of a segment are valid for as long as its file is the same and still has the last counted batch: then it has
all those before it. So appends and deletions at the start make nothing be counted twice, and after a truncation or a
compaction only the changed segments are counted again.
"""

from __future__ import annotations

from functools import partial
from itertools import count, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.content.counted_file import NO_END, CountedFile
from kafkafs.content.file_places import FilePlaces
from kafkafs.content.followers import Followers
from kafkafs.content.held_files import HeldFiles
from kafkafs.content.kept_pieces import KeptPieces
from kafkafs.content.known_aborted import KnownAborted
from kafkafs.content.patience import Looks
from kafkafs.content.piece import UNSETTLED, gathered
from kafkafs.content.pieces import LinePieces
from kafkafs.content.positions import Positions
from kafkafs.content.seen import Seen, SeenFile, end_of, shown_segments
from kafkafs.render.batch_lines import Visible
from storage.errors import missing_file
from storage.log import Isolation
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from kafkafs.content.followers import Follower
    from kafkafs.content.piece import Piece
    from kafkafs.content.pieces import Pieces
    from kafkafs.render.batch_lines import BatchLines
    from storage.files import FileStatus, ReadableFile
    from storage.log import LogView, ReadableLog
    from storage.segment import Segment


class _Known(NamedTuple):
    """The last look at a segment. An active segment may have been changed in its place since."""

    segment: Segment
    counted: CountedFile
    end: int
    was_last: bool


class CountedLog:
    """The log through one isolation level, in one form of lines. Any thread may ask.

    `restored` are counts of another process, used as far as the files confirm them. `kept` keeps rendered bytes for
    readers. `held` keeps files open for readers that follow the log.
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
        held: HeldFiles | None = None,
    ) -> None:
        self.key = key
        self.looks = Looks()
        self._kept = KeptPieces(0) if kept is None else kept
        self.log = log
        self.aborted = KnownAborted(isolation)
        self._places = FilePlaces(log, self.aborted, held or HeldFiles(), self.count_to, lambda: str(self._directory))
        self._lines = lines
        self._isolation = isolation
        self._restored = {counted.base_offset: counted for counted in restored}
        self._looking = Lock()  # held while files are looked at
        self._counting = Lock()  # held while batches are counted
        self._known: dict[int, _Known] = {}
        self._directory: Path | None = None
        self._numbers = count()
        self._seen: Seen | None = None
        self._positions: Positions | None = None
        self._followers = Followers(self._places)

    # Looking

    def look(self) -> tuple[Seen, Positions]:
        """Return the log as it is now, and the positions that begin with its start."""
        view = self.log.view
        view.check_may_go_through()
        while True:
            with self._looking:
                seen, positions = self._seen, self._positions
                if seen is not None and positions is not None and seen.view is view:
                    return seen, positions
                try:
                    with self.log.held():
                        seen, positions = self._look(view)
                except FileNotFoundError:
                    newer = self.log.view
                    if newer is view:
                        raise
                    view = newer
                    continue
            self._followers.look(seen, positions)
            return seen, positions

    def enter(self, positions: Positions, follower: Follower) -> None:
        """Add a reader of these positions, and hold the files that it may read."""
        seen, newest = self.look()
        self._followers.enter(positions, follower)
        self._followers.look(seen, newest)

    def leave(self, positions: Positions, follower: Follower) -> None:
        """Remove a reader, which has closed its descriptor."""
        self._followers.leave(positions, follower)

    def opened(self, file: SeenFile) -> AbstractContextManager[ReadableFile | None]:
        """Open a present or former file of the log; None unless all its counted batches are still in it."""
        return self._places.opened(file)

    def _look(self, view: LogView) -> tuple[Seen, Positions]:
        shown = shown_segments(view)
        known: dict[int, _Known] = {}
        directory = Path(shown[0].directory) if shown else self._directory
        is_moved, self._directory = directory != self._directory is not None, directory
        cut = min(() if self._seen is None else view.cuts[self._seen.view.truncations :], default=None)
        is_replaced = cut is not None
        for segment in shown:
            is_last = segment is shown[-1]
            before = self._known.get(segment.base_offset)
            if before is not None and cut is not None and before.counted.next_offset > cut:
                before.counted.is_void, before = True, None  # even where the file is yet to be cut
            if before is not None and before.segment is segment and not is_last and not before.was_last:
                known[segment.base_offset] = before
                continue
            status = segment.log_status()
            if status is None:
                raise FileNotFoundError(segment.path(Kind.LOG))
            counted = self._found(segment, status, None if before is None else before.counted, is_moved=is_moved)
            is_replaced |= before is not None and before.counted is not counted
            end = view.end_position if is_last else end_of(segment, status)
            known[segment.base_offset] = _Known(segment, counted, end, is_last)
        for base_offset, each in self._known.items():
            if base_offset not in known:
                each.counted.is_void = True
                is_replaced |= bool(shown) and base_offset > shown[0].base_offset
        start_position, hidden = self._find_start(view, shown, known)
        files = tuple(SeenFile(*each) for each in known.values())
        seen = Seen(view, view.bound(self._isolation), files, start_position, hidden, next(self._numbers))
        self._known, self._seen = known, seen
        positions = self._positions
        if positions is None or is_replaced or positions.start_offset != view.start_offset:
            number, lineage = 0, 0
            if positions is not None:
                is_continued = not is_replaced and positions.goes_on_in(seen)
                number, lineage = positions.number + 1, positions.lineage + (not is_continued)
            positions = self._positions = Positions(number, lineage, seen, self._places)
        return seen, positions

    def _found(self, segment: Segment, status: FileStatus, known: CountedFile | None, *, is_moved: bool) -> CountedFile:
        """Return the counts of the segment's file, empty if it is new.

        Moving a partition may copy its files; with the last counted batch in its place a copy counts as the same file.
        """
        candidate = self._restored.pop(segment.base_offset, None) if known is None else known
        if candidate is not None and (is_moved or candidate.identity == status.identity):
            with segment.open_log() as file:
                if candidate.is_still_in(file):
                    candidate.identity = status.identity
                    return candidate
        if candidate is not None:
            candidate.is_void = True
        return CountedFile(segment.base_offset, status.identity)

    def _find_start(self, view: LogView, shown: tuple[Segment, ...], known: dict[int, _Known]) -> tuple[int, int]:
        """Return the position of the batch with the log start offset, and the rendered bytes before it."""
        for each in known.values():
            # Only the first file may be counted from anywhere but its beginning.
            if each.counted.start > 0 and each.segment is not shown[0]:
                known[each.segment.base_offset] = each._replace(counted=_counts_from(each, 0))
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
            first = known[shown[0].base_offset] = first._replace(counted=_counts_from(first, position))
        hidden = self._rendered_before(view, first, position)
        if batch is not None:
            hidden += self._lines.size_before(batch, view.start_offset)
        return position, hidden

    def _rendered_before(self, view: LogView, known: _Known, position: int) -> int:
        """Return the rendered bytes before a position at which a batch begins."""
        mark = known.counted.before_position(position)
        if mark.position == position:
            return mark.rendered
        seen = Seen(view, view.bound(self._isolation), (), 0, 0)
        with known.segment.open_log() as file:
            pieces = self._pieces(seen, known.segment, known.counted).of(file, mark.position, position, only_sizes=True)
            return mark.rendered + sum(piece.size_bytes for piece in pieces)

    def pieces(self, seen: Seen, file: SeenFile) -> Pieces:
        """Return how to cut a present or former file of the log into pieces."""
        if not file.counted.is_void:
            return self._pieces(seen, file.segment, file.counted)
        visible = Visible(self._bound(seen, file), self.aborted.of(seen, file))
        return LinePieces(self._lines, visible, file.counted.base_offset, to_tail=False)

    def _bound(self, seen: Seen, file: SeenFile) -> int:
        """Return the offset up to which a file is read: all of one that has left the log, as far as it is decided."""
        is_whole = file.counted.is_void and self._isolation is Isolation.UNCOMMITTED
        return NO_END if is_whole else seen.end_offset

    def _pieces(self, seen: Seen, segment: Segment, counted: CountedFile) -> Pieces:
        view = seen.view
        to_tail = seen.end_offset >= view.end_offset
        cut = partial(LinePieces, self._lines, to_tail=to_tail, too_large=counted.too_large)
        if self._isolation is Isolation.UNCOMMITTED:
            return cut(Visible(seen.end_offset), segment.base_offset)
        following = (after.base_offset for before, after in pairwise(view.segments) if before is segment)
        upper = min(next(following, seen.end_offset), seen.end_offset)
        aborted = view.aborted(segment.base_offset, upper) if segment.base_offset < upper else ()
        return cut(Visible(seen.end_offset, aborted), segment.base_offset)

    # Counting

    def uncounted_bytes(self, seen: Seen, files: Iterable[SeenFile] | None = None) -> int:
        """Return how many bytes of the log, or of some files, are still to be counted."""
        return sum(
            max(file.end - file.counted.end.position, 0)
            for file in (seen.files if files is None else files)
            if not file.counted.is_counted(file.end, self._bound(seen, file))
        )

    def count(
        self,
        seen: Seen,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        files: Iterable[SeenFile] | None = None,
        wait_s: float = -1,
        is_keeping: bool = False,
    ) -> bool:
        """Count the rest of the view, or of some files; with `is_keeping`, keep the bytes for a likely reader.

        Return False if that was cancelled, if others counted for too long, or if a file is gone.
        """
        return all(
            # There may be very many files without a piece after which it would be asked.
            not is_cancelled() and self.count_file(seen, file, is_cancelled, wait_s=wait_s, is_keeping=is_keeping)
            for file in (seen.files if files is None else files)
        )

    def rendered(self, seen: Seen, file: SeenFile, opened: ReadableFile, at: int) -> Iterator[Piece]:
        """Yield the pieces of an open file of the view, from a position on at which one begins."""
        counted = file.counted
        while (kept := self._kept.take(counted, at)) is not None:
            yield kept
            at = kept.position
        yield from gathered(self.pieces(seen, file).of(opened, at, file.end, only_sizes=False))

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
        """Count the rest of one file of the view, or of one that has left the log."""
        counted, end, end_offset = file.counted, file.end, self._bound(seen, file)
        if counted.is_counted(end, end_offset):
            return True
        if not self._counting.acquire(timeout=wait_s):
            return False
        try:
            with self.opened(file) as opened:
                if opened is None:
                    return False
                if is_keeping and not counted.is_counted(end, end_offset):
                    self._render(seen, file, opened, is_cancelled)
                    if is_cancelled():
                        return counted.is_counted(end, end_offset)
                return _count(counted, opened, self.pieces(seen, file), end_offset, end, is_cancelled)
        except FileNotFoundError:
            return False
        finally:
            self._counting.release()

    def count_to(self, seen: Seen, file: SeenFile, position: int) -> int:
        """Count a file of the view at least up to the batch at a position; returns the rendered bytes before it."""
        counted = file.counted
        with self.opened(file) as opened:
            if opened is None:
                raise missing_file(file.segment.path(Kind.LOG))
            pieces = self.pieces(seen, file)
            at = counted.end.position
            for piece in pieces.of(opened, at, position, only_sizes=True):
                counted.add(at, piece, opened)
                at = piece.position
            mark = counted.before_position(position)
            rest = pieces.of(opened, mark.position, position, only_sizes=True) if mark.position < position else ()
            return mark.rendered + sum(piece.size_bytes for piece in rest)

    def _render(self, seen: Seen, file: SeenFile, opened: ReadableFile, is_cancelled: Callable[[], bool]) -> None:
        """Count the rest of a file by rendering it, and keep the bytes while there is room and no damage."""
        counted = file.counted
        at = counted.end.position
        for piece in gathered(self.pieces(seen, file).of(opened, at, file.end, only_sizes=False)):
            if piece.damage is not None or piece.position == UNSETTLED:
                break
            counted.add(at, piece, opened)
            has_room = self._kept.keep(self, counted, at, piece)
            at = piece.position
            if counted.end.position != at or not has_room or is_cancelled():
                break
        else:
            counted.end_offset = max(counted.end_offset, self._bound(seen, file))

    @property
    def counted_bytes(self) -> int:
        """Return how many bytes of the log were counted."""
        seen = self._seen
        return 0 if seen is None else sum(file.counted.end.position - file.counted.start for file in seen.files)

    def counted(self) -> list[CountedFile]:
        """Return the counts of files without damage."""
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
        if counted.is_sealed:
            return False
        at, has_ended = counted.end.position, True
        for piece in pieces.of(opened, at, end, only_sizes=True):
            counted.add(at, piece, opened)
            at = piece.position
            if counted.end.position != at or is_cancelled():
                has_ended = False  # or a reader was faster: go on after it
                break
        if has_ended:
            counted.end_offset = max(counted.end_offset, end_offset)
        elif is_cancelled():
            return False
    return True


def _counts_from(known: _Known, start: int) -> CountedFile:
    """Return the same file with nothing counted."""
    return CountedFile(known.counted.base_offset, known.counted.identity, start=start)
