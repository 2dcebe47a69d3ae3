"""An object read in ranges: what is asked for and what is likely asked for next, each byte once.

Reading shows one version of an object. pyarrow answers a range that an object no longer has with bytes that it made up,
so a range counts once the store has said, after it was read, that the object is still the one that was opened. When it
is not, or is gone, reading raises `FileNotFoundError`, as opening would.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING, Final

from storage.errors import ObjectStoreError
from storage.files.object_store import FRESH_S, answered
from storage.files.opened import ReadableFile

if TYPE_CHECKING:
    from storage.files.object_store import ObjectStore, Ranges, Version

AHEAD_BYTES_MIN: Final = 128 * 1024
"""The least that a request reads: what a lookup needs near the place that an index names, for the price of a byte."""
AHEAD_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most that is read ahead, as each request in a row reads twice as much as the one before it."""
WHOLE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest index that is read with one request; a broker's has 10 MiB at most unless it is told otherwise."""
WINDOWS_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a process keeps of what it has read, of all objects."""

_KEPT_BYTES_MAX: Final = 2 * AHEAD_BYTES_MAX  # of one window, but for an index
_WINDOWS_MAX: Final = 1024
_OBJECTS_MAX: Final = 256
_WAITS_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
# What pyarrow makes of any error of a range that is shorter than the error's text; its client then does not try again.
_HIDDEN: Final = "Failed to flush response stream"


class ReplacedObjectError(FileNotFoundError):
    """An object is no longer the one that was opened."""


class OpenedObject:
    """One version of an object."""

    def __init__(self, store: ObjectStore, key: str, path: str, file: Ranges, version: Version) -> None:
        self.store = store
        self.key = key
        self.path = path
        self.version = version
        self.windows: dict[int, bytes] = {}  # what was read of it and is kept, by position; `Windows` has the lock
        self._file = file
        self._checked_s = store.now_s()

    @property
    def is_fresh(self) -> bool:
        """True if the store said less than a second ago that this is the object of its name."""
        return self.store.now_s() - self._checked_s < FRESH_S

    def read(self, position: int, size_bytes: int) -> bytes:
        """Read exactly so many bytes, all of which the object has."""
        for wait_s in (*_WAITS_S, None):
            try:
                with answered(self.path):
                    data = self._file.read_at(size_bytes, position)
            except ObjectStoreError as error:
                self._check()  # says it better: that the object is gone, or what the client hid
                if wait_s is None or _HIDDEN not in error.reason:
                    raise
                sleep(wait_s)
                continue
            self._check()
            break
        if len(data) != size_bytes:
            reason = f"the object store gave {len(data)} bytes of {size_bytes}"
            raise ObjectStoreError(reason, path=self.path, position=position)
        return data

    def _check(self) -> None:
        self._checked_s = float("-inf")
        _, version = self.store.open(self.key, self.path)
        if version != self.version:
            self.store.forget(self.key)
            reason = "the object was replaced while it was read; read it again"
            raise ReplacedObjectError(errno.ENOENT, reason, self.path)
        self.confirm()

    def confirm(self) -> None:
        """Note that the store has just said that this is the object of its name."""
        self._checked_s = self.store.now_s()


class Windows:
    """What was read last, of all objects of a process, and the objects that were opened last. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._objects: OrderedDict[tuple[int, str], OpenedObject] = OrderedDict()
        self._kept: OrderedDict[tuple[OpenedObject, int], None] = OrderedDict()  # the one used longest ago first
        self._size_bytes = 0

    def opened(self, store: ObjectStore, key: str, path: str, listed_bytes: int) -> OpenedObject:
        """Return the object of a name as it is now, or was less than a second ago and is listed still.

        Raises `FileNotFoundError`.
        """
        name = (id(store), key)
        with self._lock:
            known = self._objects.get(name)
        if known is not None and known.is_fresh and known.version.size_bytes == listed_bytes:
            return known
        file, version = store.open(key, path)
        if known is None or known.version != version:
            known = OpenedObject(store, key, path, file, version)
        else:
            known.confirm()
        with self._lock:
            self._objects[name] = known
            self._objects.move_to_end(name)
            if len(self._objects) > _OBJECTS_MAX:
                self._objects.popitem(last=False)
        return known

    def find(self, of: OpenedObject, position: int) -> tuple[int, bytes] | None:
        """Return the window with the byte at a position, and where it begins."""
        with self._lock:
            for start, data in of.windows.items():
                if start <= position < start + len(data):
                    self._kept.move_to_end((of, start))
                    return start, data
        return None

    def size_before(self, of: OpenedObject, position: int) -> int:
        """Return the size of the window that ends at a position, 0 if there is none."""
        with self._lock:
            sizes = (len(data) for start, data in of.windows.items() if start + len(data) == position)
            return max(sizes, default=0)

    def keep(self, of: OpenedObject, start: int, data: bytes) -> None:
        """Keep a window, and let go of those that were used longest ago."""
        with self._lock:
            self._size_bytes += len(data) - len(of.windows.get(start, b""))
            of.windows[start] = data
            self._kept[of, start] = None
            self._kept.move_to_end((of, start))
            while self._size_bytes > WINDOWS_BYTES_MAX or len(self._kept) > _WINDOWS_MAX:
                (other, dropped), _ = self._kept.popitem(last=False)
                self._size_bytes -= len(other.windows.pop(dropped))


windows: Final = Windows()


class ObjectFile(ReadableFile):
    """An object open for reading. Its length never changes: an object that is written again is another one."""

    def __init__(self, opened: OpenedObject) -> None:
        super().__init__(opened.path, -1)
        self._opened = opened
        self._is_index = opened.key.endswith("index")

    def size_bytes(self) -> int:
        """Return the object's length."""
        return self._opened.version.size_bytes

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read bytes from `position`. The result is shorter only where the object ends."""
        end = min(position + size_bytes, self.size_bytes())
        parts: list[bytes] = []
        while position < end:
            start, data = windows.find(self._opened, position) or self._fetch(position, end - position)
            parts.append(data[position - start : end - start])
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _fetch(self, position: int, size_bytes: int) -> tuple[int, bytes]:
        left = self.size_bytes() - position
        if self._is_index and self.size_bytes() <= WHOLE_BYTES_MAX:
            position, left = 0, self.size_bytes()
            size_bytes = left
        ahead = min(max(2 * windows.size_before(self._opened, position), AHEAD_BYTES_MIN), AHEAD_BYTES_MAX)
        data = self._opened.read(position, min(max(size_bytes, ahead), left))
        if self._is_index or len(data) <= _KEPT_BYTES_MAX:
            windows.keep(self._opened, position, data)
        return position, data

    def read_cached_at(self, position: int, size_bytes: int) -> bytearray | None:
        """Return the bytes if they were read already, None if that takes a request."""
        found = windows.find(self._opened, position)
        if found is None or found[0] + len(found[1]) < min(position + size_bytes, self.size_bytes()):
            return None
        start, data = found
        return bytearray(data[position - start : position - start + size_bytes])

    def data_from(self, position: int) -> int:
        """Return the position: no byte is in a hole."""
        return position

    def hole_from(self, position: int) -> int:
        """Return the end."""
        return max(position, self.size_bytes())
