"""Files of logs that are kept open for followers, so that they can read records that are removed meanwhile.

A removed file takes disk space while it is open. So there is a budget of descriptors and of bytes of removed files. It
goes first to the files that each follower reads next, then to the followers' others, then to ranges, whose files count
as removed from the beginning. A file that does not fit is closed; a removed one is then gone.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from itertools import chain, zip_longest
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.files import ReadableFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from storage.segment import Segment

    Identity: TypeAlias = tuple[int, int]

HELD_FILES_MAX: Final = 256
"""A quarter of the descriptors that a process has by default."""
HELD_REMOVED_BYTES_MAX: Final = 1024 * 1024 * 1024
"""One segment of the default size: the one that a lagging reader is in."""


class Wanted(NamedTuple):
    """A file that a follower wants; it takes this many bytes once it has left the log."""

    identity: Identity
    segment: Segment
    removed_bytes: int = 0


class HeldFiles:
    """The files that are held. Any thread may use this."""

    def __init__(self, *, files_max: int = HELD_FILES_MAX, removed_bytes_max: int = HELD_REMOVED_BYTES_MAX) -> None:
        self._files_max = files_max
        self._removed_bytes_max = removed_bytes_max
        self._lock = RLock()  # a segment that is opened to be held asks first whether it is
        self._wants: dict[object, Sequence[Wanted]] = {}
        self._late_wants: dict[object, Sequence[Wanted]] = {}
        self._held: dict[Identity, _Held] = {}

    def want(self, owner: object, wanted: Sequence[Wanted], *, is_late: bool = False) -> None:
        """Hold these files for an owner, the first first, in place of its earlier ones. Late owners come after all
        others.
        """
        wants = self._late_wants if is_late else self._wants
        with self._lock:
            if wanted:
                wants[owner] = wanted
            elif wants.pop(owner, None) is None:
                return
            chosen = self._chosen()
            for identity in [identity for identity in self._held if identity not in chosen]:
                self._held.pop(identity).let_go()
            for identity, each in chosen.items():
                if identity not in self._held and (opened := _opened(each)) is not None:
                    self._held[identity] = _Held(opened)

    def has(self, identity: Identity) -> bool:
        """True if the file is held now."""
        return identity in self._held

    def lend(self, identity: Identity) -> ReadableFile | None:
        """The file, if it is held, to be closed by the caller."""
        with self._lock:
            held = self._held.get(identity)
            return None if held is None else _Lent(held)

    @contextmanager
    def use(self, identity: Identity) -> Iterator[ReadableFile | None]:
        """The file, if it is held; it stays open until the end of the `with`."""
        with self._lock:
            held = self._held.get(identity)
            if held is not None:
                held.take()
        try:
            yield None if held is None else held.file
        finally:
            if held is not None:
                held.let_go()

    def close(self) -> None:
        """Close all held files."""
        with self._lock:
            self._wants.clear()
            self._late_wants.clear()
            while self._held:
                self._held.popitem()[1].let_go()

    def _chosen(self) -> dict[Identity, Wanted]:
        """Return the files that fit into the budget: the first of each owner, then the second, and so on."""
        chosen: dict[Identity, Wanted] = {}
        removed_bytes = 0
        for row in chain(zip_longest(*self._wants.values()), zip_longest(*self._late_wants.values())):
            for each in row:
                if each is None or each.identity in chosen:
                    continue
                if len(chosen) == self._files_max:
                    return chosen
                if removed_bytes + each.removed_bytes <= self._removed_bytes_max:
                    removed_bytes += each.removed_bytes
                    chosen[each.identity] = each
        return chosen


class _Held:
    """An open file, which its last user closes."""

    def __init__(self, file: ReadableFile) -> None:
        self.file = file
        self._lock = Lock()
        self._users = 1

    def take(self) -> None:
        with self._lock:
            self._users += 1

    def let_go(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.file.close()


class _Lent(ReadableFile):
    """A file that is held, which stays open until this is closed."""

    def __init__(self, held: _Held) -> None:
        self.path = held.file.path
        self._file: ReadableFile = held.file
        self._held: _Held | None = held
        held.take()

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def read_at(self, position: int, size_bytes: int) -> bytes:
        return self._file.read_at(position, size_bytes)

    def read_cached_at(self, position: int, size_bytes: int) -> bytearray | None:
        return self._file.read_cached_at(position, size_bytes)

    def data_from(self, position: int) -> int:
        return self._file.data_from(position)

    def hole_from(self, position: int) -> int:
        return self._file.hole_from(position)

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.let_go()


def _opened(wanted: Wanted) -> ReadableFile | None:
    """The file, if the segment is still in it."""
    with suppress(OSError):
        file = wanted.segment.open_log()
        with suppress(OSError):
            status = wanted.segment.log_status()
            if status is not None and status.identity == wanted.identity:
                return file
        file.close()
    return None
