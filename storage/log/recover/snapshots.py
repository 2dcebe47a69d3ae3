"""The producer snapshots of a log while it is recovered: which are kept, made, replaced and removed.

Recovery first forgets the snapshots that it does not believe, and then makes most of them again. A file that holds the
same producers stays as it is, byte for byte, and what is forgotten for good is removed at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptSnapshotError
from storage.log.producers.snapshot import SnapshotFiles, encode_snapshot
from storage.log.recover.report import Repair, Step
from storage.segment.names import FileName, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.files import Directory
    from storage.log.producers.state import ProducerState


class RecoveredSnapshots(SnapshotFiles):
    """The snapshots of a partition that is recovered; `settle` ends it.

    `offsets` are those that count. No file is removed before `settle`.
    """

    def __init__(self, directory: Directory, offsets: Iterable[int]) -> None:
        super().__init__(directory, offsets=offsets)
        self._found = frozenset(self.offsets)
        self._changed: set[int] = set()

    def write(self, offset: int, states: Iterable[ProducerState], *, sync: bool) -> None:
        """Have a file with the states before an offset; one that has them already is only brought to disk."""
        states = list(states)
        if offset in self._found and self._holds(offset, states):
            self.sync_found(offset)
            self.offsets = sorted({*self.offsets, offset})
            return
        self._changed.add(offset)
        super().write(offset, states, sync=sync)

    def sync_found(self, offset: int) -> None:
        """Bring the snapshot of an offset to disk if there was one: a roll writes it without waiting for that."""
        if offset in self._found:
            with self._directory.open_writing(str(FileName(offset, Kind.SNAPSHOT))) as file:
                file.sync()

    def _holds(self, offset: int, states: list[ProducerState]) -> bool:
        """True if a file holds these producers, in any order, as brokers write them in any."""
        try:
            return encode_snapshot(self.read(offset)) == encode_snapshot(states)
        except (CorruptSnapshotError, FileNotFoundError):
            return False

    def has_producers(self, offset: int) -> bool:
        """True if a snapshot can be read and has any producer in it."""
        try:
            return bool(self.read(offset))
        except (CorruptSnapshotError, FileNotFoundError):
            return False

    def remove(self, offset: int) -> None:
        """Have a snapshot count no more, unless it is written again."""
        self.offsets = [other for other in self.offsets if other != offset]

    def settle(self, reason: str) -> list[Step]:
        """Remove the files that do not count, for this reason, durably; gives what was done to all of them."""
        steps = []
        for offset in sorted(self._found | self._changed):
            name = str(FileName(offset, Kind.SNAPSHOT))
            if offset not in self.offsets:
                super().remove(offset)
                if offset in self._found:
                    steps.append(Step(Repair.REMOVED, name, reason))
            elif offset not in self._found:
                steps.append(Step(Repair.ADDED, name, "there was none of the producers at this offset"))
            elif offset in self._changed:
                steps.append(Step(Repair.REBUILT, name, "its producers are not those of the log"))
        self._directory.sync()
        return steps
