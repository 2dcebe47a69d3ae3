"""The base of the files that show a log's state."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from kafkafs.allocation import without_looks_for_cycles
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.passing_reading import PassingReading
from kafkafs.tree.stream_file import unknown_xattr
from storage.budget import MEMORY
from storage.log import FollowedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Reading
    from storage.budget import Lease
    from storage.clock import Clock
    from storage.files import Access
    from storage.log import LogView, ProducerState
    from storage.log_dir import OffsetCheckpoint


LOOKED_AT_MAX: Final = 1000
"""Of how many segments the files are looked at one by one: of more, the directory is listed to find which there are.

It may have very many other names.
"""
_PRODUCERS_MAX: Final = 50_000
"""How many producers a `stat` decodes and prints to tell a size: it takes a fifth of a second."""
_REFERENCE_BYTES: Final = 8


class LogFact(GeneratedFile):
    """A text about a log, as old as the log's last change. It may show what `checkpoints` say of the log."""

    checkpoints: ClassVar[tuple[OffsetCheckpoint, ...]] = ()

    def __init__(self, path: PartitionFilePath, source: LogSource, clock: Clock) -> None:
        super().__init__(path, clock, rights=source.rights, identity=source.identity)
        self._source = source

    def access(self) -> Access:
        """Return the access to the log and to what else the text shows."""
        source = self._source
        shown = [(source.log_dir.directory, str(each)) for each in self.checkpoints]
        return source.rights.narrowed(source.access(), shown) if shown else source.access()

    def directory_access(self) -> Access:
        """Return the access to the log's views."""
        return self._source.access()

    def unread_ms(self) -> int:
        """Return the time of the log's last change."""
        return self._source.modified_ms(self._source.log.view)

    @abstractmethod
    def text(self, view: LogView) -> bytes:
        """Return the text about the log as the view shows it."""

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size of the text about the log as the view shows it; None if finding it takes long."""
        return len(self.text(view))

    def xattrs(self) -> Mapping[str, bytes]:
        """That the size is unknown, if it is."""
        return unknown_xattr(self.attributes().size_bytes)

    def generate(self) -> Generated:
        """Make the text about the log as it is now."""
        return self._source.log.on_view(lambda view: Generated(self.text(view), self._source.modified_ms(view)))


class HeldStates:
    """The states of some producers of a log in an order, whose memory counts while this is held.

    Few of them need none of the budget, so that they can be read while others have all of it.
    """

    def __init__(self, producers: object, states: list[ProducerState], *, key: Callable[[ProducerState], int]) -> None:
        self.states = sorted(states, key=key)
        self._producers = producers  # which took the memory of the states, and gives it back once nothing refers to it
        self._lease: Lease | None = None
        if len(states) > _PRODUCERS_MAX:
            self._lease = MEMORY.reserve(_REFERENCE_BYTES * len(states), f"the rows of {len(states)} producers")


class ProducerFact(LogFact):
    """A text about what producers did.

    Its size is unknown while much of the log would have to be read for it, and if there are very many producers. Then
    the text is made as it is read.
    """

    @abstractmethod
    def pieces(self, view: LogView) -> Callable[[], Iterator[bytes]]:
        """Return what yields the pieces of the text, the same each time. The log is read before this returns.

        What it returns holds the producers, so that their memory counts while the text is open.
        """

    def text(self, view: LogView) -> bytes:
        """Return the whole text."""
        return b"".join(self.pieces(view)())

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size, unless that takes longer than a `stat` may."""
        return None if self.takes_long() else super().size_bytes(view)

    def open(self) -> Reading:
        """Open the text about the log as it is now."""
        if not self.takes_long():
            return super().open()
        with without_looks_for_cycles():  # none of very many producers is in one
            return PassingReading(self._source.log.on_view(self.pieces))

    def takes_long(self) -> bool:
        """True if much of the log would have to be read, or if there are very many producers."""
        log = self._source.log
        if not isinstance(log, FollowedLog):
            return log.producers.count > _PRODUCERS_MAX
        return log.about_producers.number > _PRODUCERS_MAX or _has_much_to_read(self._source, log)


def is_long_to_read(source: LogSource) -> bool:
    """True if finding the log's producers takes reading more than a `stat` may, of the log or of a snapshot."""
    log = source.log
    if not isinstance(log, FollowedLog):
        return False
    about = log.about_producers
    return (about.number > _PRODUCERS_MAX and not about.is_read) or _has_much_to_read(source, log)


def _has_much_to_read(source: LogSource, log: FollowedLog) -> bool:
    bytes_max = source.options.counted_bytes_max
    return not log.on_view(_is_within(bytes_max)) and log.unread_bytes > bytes_max


def _is_within(bytes_max: int) -> Callable[[LogView], bool]:
    """Return what tells whether a log is so short that it need not be known how much of it was read."""
    return lambda view: len(view.segments) <= 1 and view.end_position <= bytes_max


def age_s(timestamp_ms: int, now_ms: int) -> int | None:
    """Return how many whole seconds ago that was, negative for the future; None for no time."""
    return (now_ms - timestamp_ms) // 1000 if timestamp_ms >= 0 else None
