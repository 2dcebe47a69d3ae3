"""Files and directories in memory that know what of them is on disk.

After a loss of power, each write to a file since it was last synced is there, or not, or in part, by itself; the names
in a directory are as they were after some number of its changes since it was last synced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""


@dataclass(slots=True)
class Content:
    """A file: what is in it, what of that is on disk, and the changes between the two."""

    number: int
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)  # writes, or new lengths
    modified_ms: int = 0

    def write(self, position: int, data: bytes) -> None:
        """Put data into the file, which grows if it must."""
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self.pending.append((position, data))

    def resize(self, size_bytes: int) -> None:
        """Cut the file, or add zeros to it."""
        if size_bytes < len(self.data):
            del self.data[size_bytes:]
        else:
            self.data.extend(bytes(size_bytes - len(self.data)))
        self.pending.append(size_bytes)

    def sync(self) -> None:
        """Bring all of it to disk."""
        self.durable = bytes(self.data)
        self.pending.clear()

    def after_power_loss(self, draw: random.Random) -> Content:
        """The same file with any of its unsynced changes lost, and any of its unsynced writes torn."""
        survivor = Content(self.number, bytearray(self.durable), modified_ms=self.modified_ms)
        for change in self.pending:
            fate = draw.choice(("kept", "kept", "lost", "torn"))
            if fate == "lost":
                continue
            if isinstance(change, int):
                survivor.resize(change)
                continue
            position, data = change
            kept = len(data) if fate == "kept" else draw.randrange(len(data) // SECTOR_BYTES + 1) * SECTOR_BYTES
            survivor.write(position, data[:kept])
        survivor.sync()
        return survivor


@dataclass(slots=True)
class Directory:
    """Names, those that are on disk, and the changes between the two in their order."""

    number: int
    entries: dict[str, Content | Directory] = field(default_factory=dict)
    durable: dict[str, Content | Directory] = field(default_factory=dict)
    pending: list[dict[str, Content | Directory | None]] = field(default_factory=list)
    modified_ms: int = 0

    def change(self, changes: dict[str, Content | Directory | None]) -> None:
        """Set names, or take them away, in one step."""
        _apply(self.entries, changes)
        self.pending.append(changes)

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
        return Directory(self.number, left, dict(left), modified_ms=self.modified_ms)


def _apply(entries: dict[str, Content | Directory], changes: dict[str, Content | Directory | None]) -> None:
    for name, node in changes.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
