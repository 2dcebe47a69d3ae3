"""The producers of a log that another process writes, read from snapshots and batches when a caller asks."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.budget import MEMORY
from storage.errors import CorruptBatchError
from storage.log.producers.producers import ProducerStates
from storage.log.producers.replay import replay
from storage.log.producers.snapshot import SnapshotFiles
from storage.log.view import StableState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.budget import Account
    from storage.clock import Clock
    from storage.files import Directory
    from storage.segment.index.entries import AbortedTransaction
    from storage.segment.segment import Segment

_ABORTED_MAX: Final = 1000

logger = logging.getLogger(__name__)


class AboutProducers(NamedTuple):
    """How many producers a log has: those that are known if they were read, and else those of the newest snapshot."""

    number: int
    is_read: bool


class FollowedProducers:
    """The producers of one log, as long as it is only appended to. Any thread may ask.

    The first question reads the newest whole snapshot and the log after it; a later one only the batches appended
    since. Many producers are forgotten when other work needs their memory. No file is changed.
    """

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_account",
        "_clock",
        "_directory",
        "_empty_to",
        "_expiration_ms",
        "_lock",
        "_states",
    )

    def __init__(self, clock: Clock, directory: Directory, *, expiration_ms: int) -> None:
        self._clock = clock
        self._directory = directory
        self._expiration_ms = expiration_ms
        self._lock = Lock()  # held while the log is read
        self._states: ProducerStates | None = None
        self._empty_to: int | None = None  # in place of states without producers, which would take a kilobyte a log
        self._account: Account | None = None
        self._aborted: tuple[AbortedTransaction, ...] = ()  # the last ones; empty deques would take a kilobyte a log

    def decided(self, segments: Sequence[Segment], start_offset: int, end_offset: int) -> StableState:
        """Return the offset up to which the transactions of the log with these bounds are decided.

        The last aborted transactions are returned too, as the segment's index may have been read before it had them.
        Transactions after damage count as undecided.
        """
        MEMORY.acquire(self._lock)
        try:
            states = self._known(segments, end_offset)
            aborted = self._aborted
        finally:
            self._lock.release()
        stable_offset = states.last_stable_offset(start_offset, min(end_offset, states.end_offset))
        return StableState(max(stable_offset, start_offset), aborted)

    def states(self, segments: Sequence[Segment], end_offset: int) -> ProducerStates:
        """Return the producers of the log up to its end, or up to damage. Callers do not change them."""
        MEMORY.acquire(self._lock)
        try:
            return self._known(segments, end_offset)
        finally:
            self._lock.release()

    def known_to(self, end_offset: int) -> int:
        """Return the offset up to which the log has been read. Does not wait for a thread that reads."""
        states, known_to = self._states, self._empty_to
        if states is not None:
            known_to = states.end_offset
        if known_to is not None and known_to <= end_offset:
            return known_to
        snapshots = SnapshotFiles(self._directory, read_only=True)
        return max((offset for offset in snapshots.offsets if offset <= end_offset), default=0)

    def unread_bytes(self, segments: Sequence[Segment], end_offset: int) -> int:
        """Return how many bytes of the log are to be read before its producers are known up to its end."""
        known_to = self.known_to(end_offset)
        unread_bytes = 0
        for segment in reversed(segments):
            if segment.base_offset < known_to:
                start = segment.locate(known_to)
                return unread_bytes + (0 if start is None else segment.size_bytes - start)
            unread_bytes += segment.size_bytes
        return unread_bytes

    def about(self, end_offset: int) -> AboutProducers:
        """Return about how many producers there are. Does not wait for a thread that reads."""
        states = self._states
        if states is not None and states.end_offset <= end_offset:
            return AboutProducers(states.count, is_read=True)
        if self._empty_to is not None and self._empty_to <= end_offset:
            return AboutProducers(0, is_read=True)
        snapshots = SnapshotFiles(self._directory, read_only=True)
        newest = max((offset for offset in snapshots.offsets if offset <= end_offset), default=None)
        return AboutProducers(0 if newest is None else snapshots.count(newest), is_read=False)

    def _known(self, segments: Sequence[Segment], end_offset: int) -> ProducerStates:
        states = self._kept()
        if states is None or states.end_offset > end_offset:
            states = ProducerStates(self._directory, expiration_ms=self._expiration_ms, read_only=True)
            # A snapshot from before the log's start still says which transactions were open there.
            before_offset = segments[0].base_offset - 1 if segments else end_offset
            states.truncate_and_reload(before_offset, end_offset, self._clock.now_ms())
            self._aborted = ()
        self._states = self._empty_to = None  # kept only after a complete replay: a partial one would be applied twice
        try:
            ended = replay(states, segments, end_offset)
        except CorruptBatchError as error:
            logger.warning("nothing is known of transactions after this: %s", error)
            return states
        states.on_high_watermark(end_offset)
        aborted = [entry for each in ended if (entry := each.index_entry()) is not None]
        if aborted:
            self._aborted = (*self._aborted, *aborted)[-_ABORTED_MAX:]
        if states.is_large and self._account is None:
            self._account = MEMORY.account(self._forget)
        if states.is_empty:
            self._empty_to = states.end_offset
        else:
            self._states = states
        return states

    def _kept(self) -> ProducerStates | None:
        if self._empty_to is None:
            return self._states
        snapshots = SnapshotFiles(self._directory, read_only=True, offsets=())
        states = ProducerStates(self._directory, expiration_ms=self._expiration_ms, snapshots=snapshots)
        states.set_end_offset(self._empty_to)
        return states

    def _forget(self, _size_bytes: int) -> None:
        """Forget the producers, which have the memory themselves that is given back. Any thread may call this."""
        states = self._states
        if states is not None and states.is_large:
            self._states = None


class DecidedOnDemand:
    """What is decided in a view: asked for at the first call, and then known."""

    __slots__ = ("_bounds", "_producers", "_state")

    def __init__(
        self, producers: FollowedProducers, segments: tuple[Segment, ...], start_offset: int, end_offset: int
    ) -> None:
        self._producers = producers
        self._bounds = (segments, start_offset, end_offset)
        self._state: StableState | None = None

    def __call__(self) -> StableState:
        """Return it."""
        if self._state is None:
            self._state = self._producers.decided(*self._bounds)
        return self._state
