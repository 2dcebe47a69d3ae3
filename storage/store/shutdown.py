"""The shutdown of log dirs: how a store found them, and the checkpoints and markers with which it closes them.

A broker that starts recovers more than the partitions of topics: copies (`-future`), which replace a partition once
they have all of its records, and strays, which may become partitions again. So a log dir counts as closed properly only
if these were, and its checkpoints keep the offsets of copies. A symbolic link in the place of a partition's directory
leads a broker to a log that kafkafs never touches: checkpoints keep what they say of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.files import free
from storage.log_dir.names import CLUSTER_METADATA, DirectoryState
from storage.log_dir.recognition import is_bare
from storage.topics.checkpointing import offsets_to_write, write_checkpoints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from storage.files import Directory
    from storage.log_dir.checkpoints import OffsetCheckpoint, Partition
    from storage.log_dir.log_dir import LogDir
    from storage.log_dir.names import DirectoryName
    from storage.topics.checkpointing import LogOffsets
    from storage.topics.topics import Topics


class Shutdown:
    """The shutdown of a store that is open, prepared: which log dirs were clean, and which will be.

    `unchanged` are log dirs in which, as the caller knows, nothing was changed: their markers stay as they were.
    """

    def __init__(self, log_dirs: Sequence[LogDir], topics: Topics) -> None:
        self.unchanged: set[LogDir] = set()
        self._log_dirs = log_dirs
        self._topics = topics
        self._clean = {each for each in log_dirs if each.is_clean() and self.has_marker(each)}
        self._recovered: dict[Directory, LogOffsets | None] = {}  # copies and strays; None where recovery failed

    def count_as_clean(self) -> None:
        """Take every log dir for one that was closed properly: the store has just been made."""
        self._clean.update(self._log_dirs)

    def has_marker(self, log_dir: LogDir) -> bool:
        """True if the log dir has a marker once it is closed properly: not a bare one, which has nothing to close."""
        is_bare_one = log_dir.properties is None and is_bare(log_dir.directory)
        return not is_bare_one and not self._topics.inventory.has_only_metadata(log_dir)

    def was_clean(self, log_dir: LogDir) -> bool:
        """True if the log dir's marker was there when the store was opened."""
        return log_dir in self._clean

    def partitions_in(self, log_dir: LogDir) -> Iterator[Partition]:
        """The partitions of topics in a log dir."""
        inventory = self._topics.inventory
        return (partition for partition in inventory.in_order() if inventory.log_dir(*partition) is log_dir)

    def unclean_partitions(self) -> Iterator[Partition]:
        """The partitions in log dirs that were not closed properly."""
        for log_dir in self._log_dirs:
            if log_dir not in self._clean and self.has_marker(log_dir):
                yield from self.partitions_in(log_dir)

    def note(self, directory: Directory, offsets: LogOffsets | None) -> None:
        """Remember what recovery found in a copy or a stray; None if it failed."""
        self._recovered[directory] = offsets

    def is_noted(self, directory: Directory) -> bool:
        """True if recovering this copy or stray was tried."""
        return directory in self._recovered

    def checkpoints_to_write(
        self, log_dir: LogDir, logs: Mapping[Partition, LogOffsets]
    ) -> dict[OffsetCheckpoint, dict[Partition, int]]:
        """Return the checkpoints of a log dir once the store is closed with these logs."""
        partitions, known = self._checkpointed(log_dir, logs)
        return offsets_to_write(log_dir, partitions, known, leads=self._topics.is_store_made_here)

    def write_checkpoints(self, logs: Mapping[Partition, LogOffsets]) -> None:
        """Bring the checkpoints of every log dir up to date, durably."""
        for log_dir in self._log_dirs_there():
            partitions, known = self._checkpointed(log_dir, logs)
            write_checkpoints(log_dir, partitions, known, leads=self._topics.is_store_made_here)
            free(partitions)

    def write_markers(self, closed: Collection[Partition], failed: Collection[Partition]) -> None:
        """Mark the log dirs that were closed properly, with these logs closed and these failed."""
        for log_dir in self._log_dirs_there():
            if self.has_marker(log_dir) and self.is_closed(log_dir, closed, failed):
                log_dir.write_clean_marker(is_unchanged=log_dir in self.unchanged)

    def is_closed(self, log_dir: LogDir, closed: Collection[Partition], failed: Collection[Partition]) -> bool:
        """True if all that a broker would recover in a log dir was closed or recovered, and nothing failed."""
        was_clean = log_dir in self._clean
        for partition in self.partitions_in(log_dir):
            if was_clean and partition[0] == CLUSTER_METADATA:
                continue  # the marker says nothing of this log, which a broker recovers at each start
            if partition in failed:
                return False
            if not was_clean and partition not in closed and partition not in self._topics.made:
                return False
        return all(
            self._recovered[each] is not None if each in self._recovered else was_clean
            for each, _ in self._beside(log_dir)
        )

    def _checkpointed(
        self, log_dir: LogDir, logs: Mapping[Partition, LogOffsets]
    ) -> tuple[set[Partition], dict[Partition, LogOffsets]]:
        """The partitions and copies in a log dir, and what is known of some. As a broker's, they lack strays."""
        partitions = set(self.partitions_in(log_dir))
        known = {partition: offsets for partition, offsets in logs.items() if partition in partitions}
        for directory, name in self._beside(log_dir):
            partition = (name.topic, name.partition)
            if name.state is DirectoryState.STRAY or partition in partitions:
                continue
            partitions.add(partition)
            offsets = self._recovered.get(directory)
            if offsets is not None:
                known[partition] = offsets
        return partitions, known

    def _beside(self, log_dir: LogDir) -> Iterator[tuple[Directory, DirectoryName]]:
        """Copies, strays, and links in the place of directories: what a broker recovers besides partitions."""
        inventory = self._topics.inventory
        for at, name in (*inventory.recovered_beside, *inventory.links):
            if at is log_dir:
                yield log_dir.directory.at(str(name)), name

    def _log_dirs_there(self) -> list[LogDir]:
        """The log dirs that have not been taken away: nothing is written to another directory in the place of one."""
        return [log_dir for log_dir in self._log_dirs if log_dir.is_there()]
