"""The directories that a broker recovers at its start although they are no topic's partition now: copies and strays.

A copy (`-future`) takes a partition's place once it has all of its records, and a stray may become a partition again.
So a log directory counts as closed properly only if they were, and its checkpoints speak of copies too. A symbolic link
in the place of a partition's directory leads a broker to a log that kafkafs never touches: checkpoints keep what they
say of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log_dir.directory_names import DirectoryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage.files import Directory
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.inventory import Inventory
    from storage.log_dir.log_dir import LogDir
    from storage.topics.open_logs import PartitionLog


class Beside:
    """What became of the copies and strays of an open store; only recovery changes one."""

    def __init__(self) -> None:
        self._logs: dict[Directory, PartitionLog | None] = {}  # None for those that could not be recovered

    def note(self, directory: Directory, log: PartitionLog | None) -> None:
        """Say of one that it was recovered, and what its log is then; None if that failed."""
        self._logs[directory] = log

    def is_noted(self, directory: Directory) -> bool:
        """Whether recovering this one was tried."""
        return directory in self._logs

    def is_closed(self, inventory: Inventory, log_dir: LogDir, *, was_clean: bool) -> bool:
        """Whether all of them in a log directory were recovered, or left alone since they were closed properly."""
        there = (*inventory.recovered_beside, *inventory.links)
        directories = (log_dir.directory.at(str(name)) for place, name in there if place is log_dir)
        return all(self._logs[each] is not None if each in self._logs else was_clean for each in directories)

    def checkpointed(
        self, inventory: Inventory, log_dir: LogDir, logs: Mapping[Partition, PartitionLog]
    ) -> tuple[set[Partition], dict[Partition, PartitionLog]]:
        """What the checkpoints of a log directory are about: partitions and copies; and the logs of some.

        As a broker's do, they forget strays.
        """
        partitions = set(_partitions_in(inventory, log_dir))
        current = frozenset(partitions)
        known = {partition: log for partition, log in logs.items() if partition in current}
        for place, name in (*inventory.recovered_beside, *inventory.links):
            partition = (name.topic, name.partition)
            if place is not log_dir or name.state is DirectoryState.STRAY or partition in current:
                continue
            partitions.add(partition)
            log = self._logs.get(log_dir.directory.at(str(name)))
            if log is not None:
                known[partition] = log
        return partitions, known


def _partitions_in(inventory: Inventory, log_dir: LogDir) -> Iterable[Partition]:
    return (partition for partition in inventory.partitions() if inventory.log_dir(*partition) is log_dir)
