"""The disk space that a commit takes besides its staged files, foreseen before anything changes.

The logs get all of the batches, in segments whose files each take whole blocks, and new topics get all of their
partitions' directories and small files. Log directories on one file system share its space.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from storage.errors import DiskFullError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.commit.staged_file import StagedFile
    from storage.config import TopicConfig
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.topics.topics import Topics

_PARTITION_BYTES: Final = 32 * 1024
"""Of a partition: its directory, the small files in it, and the last blocks of its active segment's files."""
_SEGMENT_BYTES: Final = 20 * 1024
"""Of a segment that follows: the last blocks of its files and of a snapshot."""
_ENTRIES_BYTES: Final = 20  # one entry in each of the two indexes


def check_space(staged: Sequence[StagedFile], topics: Topics) -> None:
    """Raise `DiskFullError` where a commit would fill the disk; the topics of the staged files are the right ones."""
    sizes: Counter[Partition] = Counter()
    made: dict[Partition, None] = {}
    for each in staged:
        for run in each.runs:
            sizes[run.partition] += run.size_bytes
        for name, topic in each.topics.items():
            if name not in topics.inventory.topics:
                made.update(dict.fromkeys((name, number) for number in range(topic.partitions)))
    log_dirs = topics.log_dirs_for(list(made))
    log_dirs.update({each: topics.location(*each)[1] for each in sizes if each not in made})
    needed_bytes: Counter[int] = Counter()
    places: dict[int, LogDir] = {}
    configs = {name: topics.store_config(name).topic() for name in {topic for topic, _ in log_dirs}}
    for partition, log_dir in log_dirs.items():
        device = _device(log_dir)
        places.setdefault(device, log_dir)
        needed_bytes[device] += partition_bytes(sizes[partition], configs[partition[0]])
    for device, size_bytes in needed_bytes.items():
        free_bytes = places[device].directory.free_bytes()
        if size_bytes > free_bytes:
            raise DiskFullError(
                f"nothing was committed: {size_bytes} bytes are needed, and {free_bytes} are free",
                path=places[device].path,
            )


def partition_bytes(size_bytes: int, config: TopicConfig) -> int:
    """Return what a partition may take on disk for batches of so many bytes."""
    segments = size_bytes // config.segment_bytes
    entries = size_bytes // max(config.index_interval_bytes, 1)
    return size_bytes + _PARTITION_BYTES + segments * _SEGMENT_BYTES + entries * _ENTRIES_BYTES


def _device(log_dir: LogDir) -> int:
    status = log_dir.directory.own_status()
    return 0 if status is None else status.identity[0]
