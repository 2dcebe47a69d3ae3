"""The entries of an index file that only this process writes: in the file and in memory, with room for more.

While it grows the file has its full size, and zeros after the last entry, so that adding an entry leaves nothing stale
after it. On disk it takes the space of its entries and a little more: a step ahead is really allocated before anything
is put there, so that a full disk is an error of `reserve` and never one of `add`. There is always space for one
entry. Cutting the file to its entries, and giving it its full size again, are the owner's decisions. A call that fails
leaves the entries as they were. The caller locks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from storage.errors import ConfigError
from storage.segment.index.zero_tail import used_slots

if TYPE_CHECKING:
    from storage.files import Directory, FileRegion, WritableFile


_BLOCK_BYTES: Final = 4096
_STEP_BYTES_MAX: Final = 64 * 1024
"""A step is as long as what is used, within a block and this: a small index stays small, a large one rarely waits."""


class WritableEntries:
    """The used entries of an open file, and the slots for more after them.

    `count` of the `slots` are used. `ignored_slots` is the number of zero slots found after the last entry when the
    file was opened.
    """

    def __init__(self, file: WritableFile, entry_bytes: int, max_bytes: int, *, count: int, ignored_slots: int) -> None:
        self.count = count
        self.slots = count
        self.ignored_slots = ignored_slots
        self._entry_bytes = entry_bytes
        self._max_slots = max_bytes // entry_bytes
        self._file = file
        self._allocated_bytes = 0  # from the file's beginning on, whose space is certainly allocated
        self._length_is_synced = True
        self._is_closed = False
        self._region: FileRegion | None = None
        self._load(count)

    @classmethod
    def create(cls, directory: Directory, name: str, entry_bytes: int, max_bytes: int) -> Self:
        """Make the file, or empty the existing one, and give it its full size."""
        if max_bytes < entry_bytes:
            raise ConfigError(
                f"an index of {max_bytes} bytes has no room for an entry of {entry_bytes}", path=directory.path_of(name)
            )
        file = directory.open_writing(name, create=True)
        try:
            entries = cls(file, entry_bytes, max_bytes, count=0, ignored_slots=0)
            entries.clear()
        except BaseException:
            file.close()
            raise
        return entries

    @classmethod
    def open(cls, directory: Directory, name: str, entry_bytes: int, max_bytes: int, *, zeros_may_lead: bool) -> Self:
        """Open a file as it is, without slots for more; where `zeros_may_lead` a lone entry of zeros is one."""
        file = directory.open_writing(name)
        try:
            slots = file.size_bytes() // entry_bytes
            count = used_slots(file, slots, entry_bytes)
            if count == 0 and slots == 1 and zeros_may_lead:
                count = 1
            return cls(file, entry_bytes, max_bytes, count=count, ignored_slots=slots - count)
        except BaseException:
            file.close()
            raise

    @property
    def size_bytes(self) -> int:
        """The length of the file."""
        return self.slots * self._entry_bytes if self._file.is_resting else self._file.size_bytes()

    def last(self) -> bytes:
        """Return the last entry, empty if there is none."""
        if self.count == 0:
            return b""
        end = self.count * self._entry_bytes
        if self._region is not None:
            return bytes(self._region.view[end - self._entry_bytes : end])
        return self._read(end - self._entry_bytes, end) if self._file.is_resting else b""

    def used(self) -> tuple[memoryview | bytes, int]:
        """Return memory that begins with the entries, and their number; valid until the file's size changes."""
        if self.count and self._file.is_resting:
            return self._read(0, self.count * self._entry_bytes), self.count
        return (b"" if self._region is None else self._region.view), self.count

    def add(self, entry: bytes) -> None:
        """Put one entry after the last, for which there is a slot. After `reserve` a full disk cannot make it fail."""
        assert self._region is not None
        assert self.count < self.slots
        if (self.count + 1) * self._entry_bytes > self._allocated_bytes:
            self.reserve(1)
        self._region.put(self.count * self._entry_bytes, entry)
        self.count += 1

    def reserve(self, more: int) -> None:
        """Allocate space on disk for so many more entries, as far as there are slots for them."""
        if (self.count + more) * self._entry_bytes > self._allocated_bytes:
            needed_bytes = min(self.count + more, self.slots) * self._entry_bytes
            if needed_bytes > self._allocated_bytes:
                self._allocate(needed_bytes, self.slots)

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        assert 0 <= count <= self.count
        if count < self.count:
            assert self._region is not None
            self._region.put(count * self._entry_bytes, bytes((self.count - count) * self._entry_bytes))
            self.count = count

    def clear(self) -> None:
        """Drop every entry and give the file its full size."""
        self._release()
        self.count = self.slots = 0
        self._length_is_synced = False
        self._file.truncate(0)
        self.expand()

    def expand(self) -> None:
        """Give the file its full size, or more if its entries take more, and the space for one more entry."""
        full_slots = max(self._max_slots, self.count)
        if self.slots == full_slots:
            return
        self._release()
        slots = self.count
        try:
            self._length_is_synced = False
            self._file.truncate(self.count * self._entry_bytes)  # so that there are only zeros after the entries
            self._enlarge(full_slots)
            slots = full_slots
        finally:
            self._load(slots)

    def trim(self) -> None:
        """Cut the file to its entries."""
        self._restore()
        used_bytes = self.count * self._entry_bytes
        if self._file.size_bytes() == used_bytes:
            return
        self._release()
        try:
            self._length_is_synced = False
            self._allocated_bytes = 0
            self._file.truncate(used_bytes)
        finally:
            self._load(self.count)

    def flush(self) -> None:
        """Return when the entries and the file's length are on disk. Those of a resting file are already."""
        if self._file.is_resting:
            return
        if self._region is not None:
            self._restore()
            self._region.flush()
        if not self._length_is_synced:
            self._file.sync()
            self._length_is_synced = True

    def rest(self) -> None:
        """Close the file, which is on disk, and keep nothing in memory; until `wake` each lookup reads it."""
        if not self._is_closed and not self._file.is_resting:
            slots = self.slots
            self._release()
            self._file.rest()
            self.slots = slots

    def wake(self) -> None:
        """Open and load the file again; raises, and stays at rest, if that fails."""
        if self._file.is_resting:
            self._file.wake()
            try:
                self._load(self.slots)
            except BaseException:
                self._file.rest()
                raise

    def close(self) -> None:
        """Trim the file unless it rests, and close it, even if trimming fails. No entries are left."""
        if self._is_closed:
            return
        try:
            if not self._file.is_resting:
                self.trim()
        finally:
            self._release()
            self.count = self.slots = 0
            self._is_closed = True
            self._file.close()

    def _restore(self) -> None:
        """Write the entries again if another process has cut the file, which it must not."""
        if self._region is not None and self._file.size_bytes() < self.slots * self._entry_bytes:
            self._allocated_bytes = 0
            self._file.write_at(0, [self._region.view[: self.count * self._entry_bytes]])
            self._file.truncate(self.slots * self._entry_bytes)

    def _enlarge(self, slots: int) -> None:
        self._allocated_bytes = 0
        try:
            self._file.truncate(slots * self._entry_bytes)
            self._allocate(min(self.count + 1, slots) * self._entry_bytes, slots)
        except OSError:
            self._file.truncate(self.count * self._entry_bytes)  # it may have been extended in part
            raise

    def _allocate(self, needed_bytes: int, slots: int) -> None:
        """Allocate the space of so many bytes and of a step ahead, within a file that has these slots."""
        step_bytes = min(max(needed_bytes, _BLOCK_BYTES), _STEP_BYTES_MAX)
        end = min((needed_bytes + step_bytes) // _BLOCK_BYTES * _BLOCK_BYTES, slots * self._entry_bytes)
        self._file.allocate(end, begin=self._allocated_bytes)
        self._allocated_bytes = end

    def _load(self, slots: int) -> None:
        self.slots = slots
        self._region = self._file.region(slots * self._entry_bytes) if slots else None

    def _read(self, begin: int, end: int) -> bytes:
        """Read a part of a file at rest."""
        self._file.wake()
        try:
            return self._file.read_at(begin, end - begin)
        finally:
            self._file.rest()

    def _release(self) -> None:
        """Release the memory, before the length of the file changes."""
        if self._region is not None:
            self._region.close()
            self._region = None
