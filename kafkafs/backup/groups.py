"""The offsets that groups have committed in a run, held against the ends of its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.log import FollowedLog
from storage.store import InternalTopics, Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from storage.clock import Clock
    from storage.files import Directory, Files
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


def commits_beyond(
    files: Files, clock: Clock, directory: Directory, ends: Mapping[Partition, int]
) -> Iterator[CommitBeyond]:
    """Yield the commits in the run that lie above an end, by group and partition."""
    path: Path | str = directory.path
    with Store.open([path], mode=Mode.READ_ONLY, files=files, clock=clock) as run:

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
