"""A log that another process writes, or has left. Reading it changes no byte.

It ends after its last whole batch, replicated or not, so a broker may still truncate what a view shows. No file is
read before a caller asks. Only a writer recovers what a crash left.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from errno import ENOENT
from itertools import zip_longest
from threading import Lock, get_ident
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

from storage.errors import CorruptMetadataError, UnknownPartitionError
from storage.files import bound
from storage.log.cuts import KnownEpochs, find_cut
from storage.log.epochs import LeaderEpochs
from storage.log.found_segments import Found, continues, without_hidden
from storage.log.index_cache import IndexCache
from storage.log.listed_names import ListedNames, differ
from storage.log.partition_metadata import read_topic_id
from storage.log.producers.followed import AboutProducers, DecidedOnDemand, FollowedProducers
from storage.log.readable_log import ReadableLog
from storage.log.view import LogView
from storage.segment.followed_segment import Change, FollowedSegment
from storage.segment.names import Kind, SegmentNames, segments_named
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.listed_names import Listing
    from storage.log.producers.producers import ProducerStates
    from storage.segment.segment_files import SegmentFiles


class UncommittedRange(NamedTuple):
    """The part of an unfinished commit that readers do not see yet: from `offset` to `end_offset`.

    If the log ends after `end_offset`, a writer that does not know the commit went on, and readers see all of it.
    `sequence` differs whenever another range was withheld in between.
    """

    sequence: int = 0
    offset: int | None = None
    end_offset: int = 0


class FollowedLog(ReadableLog):
    """A log whose directory other processes change; it may be a stray, or about to be deleted.

    Each `view` is as new as the moment when the caller asks: the next one shows appended batches, rolls, deleted and
    replaced segments, and a truncation even if the log has grown beyond it since. A view that a reader keeps shows
    what it showed before, as long as the files are there. Without its directory the log has no newer view: asking
    raises `UnknownPartitionError`. If another directory has its path, newer views show that one, and earlier views
    show no file of it. `changes` counts how often the directory, or the segments in it, were replaced or added to.

    `move` follows a partition to another log directory. `view` calls `look_again`, which may do that, once before it
    raises. A log that `is_parted` has no view until it is moved: its directory may hold another partition of the same
    name. `topic_id` is the partition's, if known.

    `config` and `checkpointed_start`, before which the log does not begin, may be replaced at any time. Segments below
    the recovery point are trusted to be closed properly. No view shows the range that `withheld` returns.
    """

    def __init__(
        self,
        clock: Clock,
        directory: Directory,
        config: TopicConfig,
        *,
        start_offset: int = 0,
        recovery_point: int = 0,
        producer_expiration_ms: int,
        withheld: Callable[[], UncommittedRange] = UncommittedRange,
        look_again: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = bound(directory)
        self.topic_id: UUID | None = None
        self.is_parted = False
        self.changes = 0
        self.config = config
        self.checkpointed_start = start_offset
        self.recovery_point = recovery_point
        self._clock = clock
        self._expiration_ms = producer_expiration_ms
        self._ask_withheld = withheld
        self._look_again = look_again
        self._withheld: UncommittedRange | None = None  # the last answer
        self._recent = IndexCache()
        self._looking = Lock()  # held while the directory is listed
        self._listing: Listing | None = None
        self._names = ListedNames(clock)
        self._found: dict[Segment, Found] = {}  # in the order of their offsets
        self._segments: tuple[Segment, ...] = ()  # the same, for views: a look at very many of them copies none
        self._left: WeakSet[SegmentFiles] | None = None  # of earlier segments, if any, which views may still read
        self._view: LogView | None = None
        self._one_look: _OneLook | None = None  # of one thread; the others look by themselves
        self._is_closed = False
        self._is_moved = False  # since the directory was last listed
        self._epochs = KnownEpochs()
        self._cuts: tuple[int, ...] = ()
        self._producers = self._unknown_producers()

    @property
    def is_poisoned(self) -> bool:
        """False: a follower never writes."""
        return False

    @property
    def view(self) -> LogView:
        """The log as it is now; after `close`, its last view."""
        one = self._one_look
        if one is not None and one.thread == get_ident():
            if one.view is None:
                one.view = self._look_until_found()
            return one.view
        return self._look_until_found()

    def held(self) -> AbstractContextManager[None]:
        """Let this thread read the log's files in a block without looking for their directory each time."""
        return self.directory.held()

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Let this thread see one view in a block: the newest at the time when it first asks, with its files held.

        In a block within it that holds further; while another thread is in such a block, each look is a new one.
        """
        with self.directory.held():
            mine = None if self._one_look is not None else _OneLook()
            if mine is not None:
                self._one_look = mine
            try:
                yield
            finally:
                if self._one_look is mine:
                    self._one_look = None

    def _look_until_found(self) -> LogView:
        try:
            return self._look()
        except UnknownPartitionError:
            self._look_again()  # without the lock: it may move or close the log
            return self._look()

    def _look(self) -> LogView:
        with self._looking, self.directory.held():
            if self._view is None or not self._is_closed:
                self._view = self._newest()
            return self._view

    @property
    def producers(self) -> ProducerStates:
        """The log's producers now; callers do not change them. Asking reads the log after the newest snapshot."""
        return self.on_view(self.producers_of)

    def producers_of(self, view: LogView) -> ProducerStates:
        """Return the producers of the newest view. They hold until there is a newer one; callers do not change them."""
        return self._producers.states(view.segments, view.end_offset)

    @property
    def about_producers(self) -> AboutProducers:
        """About how many producers there are; nothing is read of the log."""
        return self.on_view(lambda view: self._producers.about(view.end_offset))

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs on disk now; callers do not change them. Raises `CorruptCheckpointError`."""
        return LeaderEpochs.load(self.directory)

    @property
    def unread_bytes(self) -> int:
        """The bytes of the log to read before its producers and its last stable offset are known."""
        return self.on_view(lambda view: self._producers.unread_bytes(view.segments, view.end_offset))

    def move(self, directory: Directory) -> None:
        """Follow the partition to another directory, with the files that are there."""
        with self._looking:
            self.is_parted = False
            self._leave(list(self._found))
            self._begin_in(bound(directory))
            for files in self._left or ():  # for readers that keep a view
                files.move(self.directory)

    def _begin_in(self, directory: Directory) -> None:
        self.directory = directory
        self.changes += 1
        self._listing = None
        self._is_moved = True
        self._producers = self._unknown_producers()

    def part(self) -> None:
        """Have no view until `move`, as the partition is gone from its directory."""
        with self._looking:
            self.is_parted = True
            for segment in self._found:
                segment.unload()

    def is_whole_with(self, sizes: Mapping[str, int]) -> bool:
        """True if files of these sizes hold all that was known of the last segment. A copy under way may lack some."""
        with self._looking:
            last = next(reversed(self._found.items()), None)
            if last is None:
                return True
            end = last[0].known_end if isinstance(last[0], FollowedSegment) else None
            return sizes.get(last[1].names.name(Kind.LOG), -1) >= (0 if end is None else end.position)

    def close(self) -> None:
        """Stop following, and free memory. Views stay valid. Closing twice is harmless."""
        with self._looking:
            self._is_closed = True
            for segment in self._found:
                segment.unload()

    # Looking

    def _newest(self) -> LogView:
        if self._withheld is None:
            self._withheld = self._ask_withheld()
        while True:
            listing = self._list()
            try:
                is_changed = differ(listing, self._listing) or self._is_last_another()
                if is_changed:
                    self._take_in(listing[1])
                    self._listing = listing
                self._know_epochs(listing[1] if is_changed else None)
                # A range that is no longer withheld is whole now, but may not have been when its batches were read.
                before, self._withheld = self._withheld, self._ask_withheld()
                if before.sequence != self._withheld.sequence:
                    continue
                return self._shown(self._withheld)
            except FileNotFoundError:
                self._listing = None
                if not differ(self._list(), listing):
                    raise  # a listed file cannot be opened

    def _list(self) -> Listing:
        listing = None if self.is_parted else self._names.listing(self.directory)
        if listing is None and not self.is_parted:
            there = bound(self.directory)
            if there is not self.directory and there.exists():
                self._begin_in(there)  # the segments are gone with the directory that had the path
                self._left = self.topic_id = None
                listing = self._names.listing(there)
        if listing is None:
            raise UnknownPartitionError("the directory of the partition is gone", path=self.directory)
        return listing

    def _take_in(self, names: Sequence[str]) -> None:
        """Make the segments of these names, and keep those that did not change."""
        if self.topic_id is None:
            with suppress(CorruptMetadataError, OSError):
                self.topic_id = read_topic_id(self.directory)
        listed = [(each, self._identity(each)) for each in segments_named(names)]
        known = {(found.names, found.identity): (segment, found) for segment, found in self._found.items()}
        if self._is_moved:
            known.clear()  # segments open their files in the directory that they were made with
        segments: dict[Segment, Found] = {}
        changed: list[FollowedSegment] = []
        for (each, identity), following in zip_longest(listed, listed[1:]):
            found = Found(each, identity, following)
            segment, before = known.get((each, identity), (None, found))
            is_closed = following is not None and before == found
            if segment is None or not self._is_still(segment, is_closed=is_closed):
                if isinstance(segment, FollowedSegment):
                    changed.append(segment)
                segment = self._new(found)
            segments[segment] = found
        segments = without_hidden(segments)
        if not continues(self._found, segments):
            self._producers = self._unknown_producers()
        files = {each.base_offset: identity for each, identity in listed}
        self._leave(  # except files whose names other files have now
            [
                segment
                for segment, found in self._found.items()
                if segment not in segments and files.get(segment.base_offset, found.identity) == found.identity
            ]
        )
        cut = find_cut(self._epochs, self.directory, tuple(self._found), tuple(segments), changed)
        if cut is not None:
            self._cuts = (*self._cuts, cut)
        if list(segments) != list(self._found):
            self.changes += 1
        self._found, self._segments, self._is_moved = segments, tuple(segments), False

    def _leave(self, segments: Sequence[Segment]) -> None:
        """Remember the files of segments for as long as somebody may read them."""
        if segments and self._left is None:
            self._left = WeakSet()
        if self._left is not None:
            left = (segment.own_files for segment in segments)
            self._left.update(files for files in left if files.directory is self.directory)

    def _know_epochs(self, changed: Sequence[str] | None) -> None:
        """Load the leader epochs of every batch that a view shows; a later truncation is found by them."""
        last = next(reversed(self._found), None)
        if isinstance(last, FollowedSegment):
            self._epochs.look(self.directory, last.end, changed)

    def _is_still(self, segment: Segment, *, is_closed: bool) -> bool:
        """True if a segment is what it was. It may have grown, unless the same segment follows it as before."""
        if not isinstance(segment, FollowedSegment):
            return is_closed
        if not is_closed and segment.look() is Change.REPLACED:
            return False
        segment.refresh_indexes()  # the directory's change may be theirs
        return True

    def _new(self, found: Found) -> Segment:
        is_sound = found.following is not None and found.following[0].base_offset <= self.recovery_point
        if is_sound and not found.names.swapped:
            return Segment(self.directory, found.names.base_offset)
        return FollowedSegment(self.directory, found.names)

    def _identity(self, names: SegmentNames) -> tuple[int, int]:
        name = names.name(Kind.LOG)
        status = self.directory.status(name)
        if status is None:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.directory.path_of(name))
        return status.identity

    def _is_last_another(self) -> bool:
        """True if the last segment is no longer what it was. Otherwise it has taken in the batches that were added."""
        if not self._found:
            return False
        segment, found = next(reversed(self._found.items()))
        assert isinstance(segment, FollowedSegment)
        return self._identity(found.names) != found.identity or segment.look() is Change.REPLACED

    def _shown(self, withheld: UncommittedRange) -> LogView:
        """Return the view of the found segments, without the withheld range."""
        segments = self._segments
        if not segments:
            return self._view_of((), self.checkpointed_start, 0)
        last = segments[-1]
        assert isinstance(last, FollowedSegment)
        end = last.end
        if withheld.offset is not None and withheld.offset < end.next_offset <= withheld.end_offset:
            segments = tuple(segment for segment in segments if segment.base_offset <= withheld.offset) or segments[:1]
            position = segments[-1].locate(withheld.offset)
            return self._view_of(segments, withheld.offset, segments[-1].size_bytes if position is None else position)
        return self._view_of(segments, end.next_offset, end.position)

    def _view_of(self, segments: tuple[Segment, ...], next_offset: int, end_position: int) -> LogView:
        start_offset = max(self.checkpointed_start, segments[0].base_offset if segments else 0)
        end_offset = max(next_offset, start_offset)
        view, producers = self._view, self._producers
        if (
            view is not None
            and (view.segments is segments or view.segments == segments)
            and (view.start_offset, view.end_offset, view.end_position) == (start_offset, end_offset, end_position)
            and view.cuts == self._cuts
        ):
            return view
        decided = DecidedOnDemand(producers, segments, start_offset, end_offset)
        return LogView(segments, start_offset, end_offset, end_position, decided, self._recent, cuts=self._cuts)

    def _unknown_producers(self) -> FollowedProducers:
        return FollowedProducers(self._clock, self.directory, expiration_ms=self._expiration_ms)


class _OneLook:
    """The view of a block in which a thread sees one."""

    __slots__ = ("thread", "view")

    def __init__(self) -> None:
        self.thread = get_ident()
        self.view: LogView | None = None
