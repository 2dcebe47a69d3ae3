"""The producer snapshots of a log during recovery: which are kept, written, replaced and removed.

Recovery first leaves out the snapshots that it does not trust, and then writes most of them again. A file that holds
the same producers stays as it is, byte for byte. Those left out for good are removed at the end.
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
    """The snapshots of a partition during recovery; `settle` ends it.

    `offsets` are those of the snapshots to keep. No file is removed before `settle`.
    """

    def __init__(self, directory: Directory, offsets: Iterable[int]) -> None:
        super().__init__(directory, offsets=offsets)
        self._found = frozenset(self.offsets)
        self._changed: set[int] = set()

    def write(self, offset: int, states: Iterable[ProducerState], *, sync: bool) -> None:
        """Write the states before an offset; a file that has them already is only brought to disk."""
        states = list(states)
        if offset in self._found and self._holds(offset, states):
            self.sync_found(offset)
            self._add(offset)
            return
        self._changed.add(offset)
        super().write(offset, states, sync=sync)

    def sync_found(self, offset: int) -> None:
        """Bring the snapshot of an offset, if recovery found one, to disk: a roll writes it without a sync."""
        if offset in self._found:
            with self._directory.open_writing(str(FileName(offset, Kind.SNAPSHOT))) as file:
                file.sync()

    def _holds(self, offset: int, states: list[ProducerState]) -> bool:
        """True if a file holds these producers. Their order does not matter: brokers write them in any."""
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

    def leave_before_start(self, start_offset: int, checkpointed_start: int, end_offset: int) -> None:
        """Leave out snapshots at or before the log's start, as recovery does not go on from them. Keep one at its end.

        A broker removes the one at the base of the first segment too, and so loses its producers if it has to recover
        that segment again. Here it stays if it has producers.
        """
        left_out = []
        for offset in self.offsets:
            is_kept = checkpointed_start < offset == start_offset and self.has_producers(offset)
            if offset <= start_offset and offset != end_offset and not is_kept:
                left_out.append(offset)
        self.remove_all(left_out)

    def settle(self, reason: str) -> list[Step]:
        """Remove the files left out, durably; returns the steps for all files. `reason` is that of the removals."""
        steps = []
        kept = frozenset(self.offsets)
        for offset in sorted(self._found | self._changed):
            name = str(FileName(offset, Kind.SNAPSHOT))
            if offset not in kept:
                super()._remove_file(offset)
                if offset in self._found:
                    steps.append(Step(Repair.REMOVED, name, reason))
            elif offset not in self._found:
                steps.append(Step(Repair.ADDED, name, "there was none of the producers at this offset"))
            elif offset in self._changed:
                steps.append(Step(Repair.REBUILT, name, "its producers are not those of the log"))
        self._directory.sync()
        return steps

    def _remove_file(self, offset: int) -> None:
        """Leave the file where it is: `settle` removes it unless it is written again."""
