"""Files, directories and locks in memory. Files and directories know what of them is on disk.

A loss of power is at least as cruel as ext4 and xfs let it be, with barriers and without `data=writeback`:

- Of the unsynced writes to a file, any may be missing while later ones are there. One may be torn: of each of its
  sectors, the old contents or the new ones are on disk, and the file may have its new length where the data is missing,
  which then reads as zeros. The same goes for what is put into a map.
- A change of a file's length may be lost, or be there without the writes before it.
- The names in a directory are as they were after some number of its changes since it was last synced, whatever became
  of other directories and of the files that the names belong to: a rename may be on disk before the data that it was to
  put in place. A rename is there whole or not at all.
- What was synced is there. Nothing that was never in a file appears in it, as both file systems promise.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from storage.files import FileLock, FileRegion
from storage.files.opened import Access

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SECTOR_BYTES: Final = 512
"""The unit that a disk writes wholly or not at all."""

# The ways in which a loss of power may treat a file. If every change could always be lost, long runs would never keep
# anything.
_LOSSES: Final = (("kept",), ("kept", "kept", "kept", "torn", "lost"), ("kept", "torn", "lost"))
_FILE_ACCESS: Final = Access(0, 0, 0o644)
_DIRECTORY_ACCESS: Final = Access(0, 0, 0o755)


@dataclass(slots=True)
class Content:
    """A file: what is in it, what of that is on disk, and the changes between the two."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)  # writes, or new lengths
    modified_ms: int = 0
    held_bytes: int = 0  # from the file's beginning on, which have their space: what lies beyond is a hole
    access: Access = _FILE_ACCESS
    is_link: bool = False  # a symbolic link, which says what is in it
    changed: int = 0  # how often it was

    def write(self, position: int, data: bytes) -> None:
        """Put data into the file, which grows if it must; nothing makes no file longer."""
        if not data:
            return
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self.hold(position + len(data))
        self.change((position, data))

    def change(self, change: tuple[int, bytes] | int) -> None:
        """Note a change of its data that is not on disk."""
        self.pending.append(change)
        self.changed += 1

    def hold(self, end: int) -> None:
        """Give space to what lies before the end; it stays as long as the file is not cut."""
        self.held_bytes = max(self.held_bytes, end)

    def resize(self, size_bytes: int) -> None:
        """Cut the file, or add zeros to it."""
        if size_bytes < len(self.data):
            del self.data[size_bytes:]
            self.held_bytes = min(self.held_bytes, size_bytes)
        else:
            self.data.extend(bytes(size_bytes - len(self.data)))
        self.change(size_bytes)

    def sync(self) -> None:
        """Bring all of it to disk."""
        self.durable = bytes(self.data)
        self.pending.clear()

    def after_power_loss(self, rng: random.Random) -> Content:
        """Return the same file after a loss of power, with some of its unsynced changes."""
        if self.is_link:  # which is made whole
            return self
        survivor = Content(self.number, bytearray(self.durable), modified_ms=self.modified_ms, access=self.access)
        survivor.changed = self.changed
        survivor.hold(len(self.durable.rstrip(b"\0")))  # space without anything in it may not be there
        fates = rng.choice(_LOSSES)
        reached = rng.choice((len(self.pending), rng.randint(0, len(self.pending))))
        for change in self.pending[:reached]:
            fate = rng.choice(fates)
            if fate == "torn" and not isinstance(change, int):
                survivor._tear(*change, rng)
            elif fate != "lost":
                survivor.apply(change)
        survivor.sync()
        return survivor

    def apply(self, change: tuple[int, bytes] | int) -> None:
        """Do it again."""
        if isinstance(change, int):
            self.resize(change)
        else:
            self.write(*change)

    def _tear(self, position: int, data: bytes, rng: random.Random) -> None:
        """Write some of the sectors; where the length outlives the data, the rest is zeros."""
        if rng.randrange(2):
            self.resize(max(len(self.data), position + len(data)))
        start = 0
        while start < len(data):
            end = start + SECTOR_BYTES - (position + start) % SECTOR_BYTES
            if rng.randrange(2):
                self.write(position + start, data[start:end])
            start = end


@dataclass(slots=True)
class Directory:
    """Names, those that are on disk, and the changes between the two in their order."""

    is_link: ClassVar = False
    changed: ClassVar = 0

    number: int
    entries: dict[str, Content | Directory] = field(default_factory=dict)
    durable: dict[str, Content | Directory] = field(default_factory=dict)
    pending: list[dict[str, Content | Directory | None]] = field(default_factory=list)
    modified_ms: int = 0
    access: Access = _DIRECTORY_ACCESS

    def change(self, changes: dict[str, Content | Directory | None]) -> None:
        """Set names, or take them away, in one step."""
        _apply(self.entries, changes)
        self.pending.append(changes)
        self.modified_ms += 1  # though the clock stands still: no two states of the names have one time

    def sync(self) -> None:
        """Bring all of it to disk."""
        self.durable = dict(self.entries)
        self.pending.clear()

    def survivors(self, survive: Callable[[Content | Directory], Content | Directory], kept: int) -> Directory:
        """The directory after so many of its unsynced changes, and what is left of everything in it."""
        entries = dict(self.durable)
        for changes in self.pending[:kept]:
            _apply(entries, changes)
        left = {name: survive(node) for name, node in entries.items()}
        return Directory(self.number, left, dict(left), modified_ms=self.modified_ms, access=self.access)


def _apply(entries: dict[str, Content | Directory], changes: dict[str, Content | Directory | None]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class MemoryLock(FileLock):
    """A lock among users of the same files."""

    def __init__(self, path: str, held: set[str]) -> None:
        if path in held:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
        held.add(path)
        self.path = path
        self._held = held

    def release(self) -> None:
        """Release the lock."""
        self._held.discard(self.path)


class Stepping(Protocol):
    """Files whose changes are steps."""

    def step(self, path: str) -> None:
        """Count a step that is about to happen."""

    def stepped(self) -> None:
        """Mark the step that was counted last as done."""


class MemoryRegion(FileRegion):
    """The first bytes of a file in memory; while it is open, the file cannot change its length."""

    def __init__(self, path: str, content: Content, files: Stepping, size_bytes: int) -> None:
        self.path = path
        self.view = memoryview(content.data)[:size_bytes].toreadonly()
        self._content = content
        self._files = files

    def put(self, position: int, data: bytes) -> None:
        """Write within the region, as one step; into a hole of a file it would fail on a full disk."""
        assert position + len(data) <= len(self.view)
        assert position + len(data) <= self._content.held_bytes
        self._files.step(self.path)
        self._content.data[position : position + len(data)] = data
        self._content.change((position, data))
        self._files.stepped()

    def flush(self) -> None:
        """Bring what was put to disk."""
        self._files.step(self.path)
        self._content.sync()
        self._files.stepped()

    def close(self) -> None:
        """Give the memory back."""
        self.view.release()
