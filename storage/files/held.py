"""Files that stay open while they are in use, of which a process keeps only some open."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files.opened import ReadableFile

T = TypeVar("T")


class HeldFile:
    """A file that is open for as long as anything refers to this object: a user keeps it in a variable, not `file`."""

    __slots__ = ("file",)

    def __init__(self, file: ReadableFile) -> None:
        self.file = file

    def __del__(self) -> None:
        self.file.close()


class LastUsed(Generic[T]):
    """The objects that were last taken into use, `limit` at most; `release` is called with each that is older."""

    def __init__(self, limit: int, release: Callable[[T], None]) -> None:
        self._limit = limit
        self._release = release
        self._lock = Lock()
        self._used: OrderedDict[ref[T], None] = OrderedDict()

    def add(self, used: T) -> None:
        """Add one, or note that it is used again. Any thread may call this."""
        oldest = None
        with self._lock:
            self._used[ref(used)] = None
            self._used.move_to_end(ref(used))
            if len(self._used) > self._limit:
                oldest, _ = self._used.popitem(last=False)
        if oldest is not None and (released := oldest()) is not None:
            self._release(released)
