"""The offsets that groups have committed in a run, held against the ends of its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.files import Files
from storage.log import FollowedLog
from storage.store import InternalTopics, Mode, Store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from storage.clock import Clock
    from storage.files import Directory
    from storage.log_dir import Partition


class CommitBeyond(NamedTuple):
    """A committed offset above the end of the partition's copy: its group would begin with an offset out of range."""

    group: str
    topic: str
    partition: int
    committed_offset: int
    end_offset: int

    def to_json(self) -> dict[str, object]:
        """Return it as the manifest has it."""
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "committedOffset": self.committed_offset,
            "endOffset": self.end_offset,
        }


class _FilesOfRun(Files):
    """The files of a run that is being made, in the directory that is written: it may have lost its path."""

    def __init__(self, directory: Directory) -> None:
        super().__init__()
        self._roots = {directory.path: directory}

    def add_root(self, directory: str | os.PathLike[str]) -> Directory:
        """Return the directory of the run."""
        return self.directory(directory)


def commits_beyond(clock: Clock, directory: Directory, ends: Mapping[Partition, int]) -> Iterator[CommitBeyond]:
    """Yield the commits in the run that lie above an end, by group and partition."""
    with Store.open([directory.path], mode=Mode.READ_ONLY, files=_FilesOfRun(directory), clock=clock) as run:

        def log_of(topic: str, partition: int) -> FollowedLog:
            log = run.log(topic, partition)
            assert isinstance(log, FollowedLog)
            return log

        found = InternalTopics(run, clock, log_of).groups()
        for group_id in sorted(found.groups):
            for (topic, partition), committed in sorted(found.groups[group_id].offsets.items()):
                end_offset = ends.get((topic, partition))
                if end_offset is not None and committed.offset > end_offset:
                    yield CommitBeyond(group_id, topic, partition, committed.offset, end_offset)
