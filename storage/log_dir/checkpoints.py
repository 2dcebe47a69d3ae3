"""A log directory's four checkpoints: an offset for each of its partitions.

Their contents are hints that a broker writes now and then. What follows from one that is damaged or out of date is
left to those who open the partitions.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from storage.checkpoint_text import read_checkpoint_data, write_checkpoint
from storage.log_dir.offset_entries import OffsetEntries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.files import Directory

Partition: TypeAlias = tuple[str, int]  # topic and number


class OffsetCheckpoint(StrEnum):
    """The kinds of checkpoints, by their files' names."""

    RECOVERY_POINT = "recovery-point-offset-checkpoint"  # below it everything is on disk
    LOG_START = "log-start-offset-checkpoint"  # the first offset, where that is not a segment's
    HIGH_WATERMARK = "replication-offset-checkpoint"  # below it everything is replicated
    FIRST_DIRTY = "cleaner-offset-checkpoint"  # below it everything is compacted


def read_offsets(directory: Directory, checkpoint: OffsetCheckpoint) -> dict[Partition, int]:
    """Read the offsets in the file's order, none if there is no file; raises `CorruptCheckpointError`."""
    return dict(read_offsets_again(directory, checkpoint, None).offsets)


class ReadOffsets(NamedTuple):
    """The offsets of a checkpoint, and the digest of the bytes that they were read from."""

    digest: bytes
    offsets: OffsetEntries


def read_offsets_again(directory: Directory, checkpoint: OffsetCheckpoint, before: ReadOffsets | None) -> ReadOffsets:
    """Read the offsets as `read_offsets` does, and parse them only if the bytes are others than before."""
    data = read_checkpoint_data(directory, checkpoint.value)
    digest = blake2b(data).digest()
    if before is not None and before.digest == digest:
        return before
    return ReadOffsets(digest, OffsetEntries(data, directory.path_of(checkpoint.value)))


def write_offsets(directory: Directory, checkpoint: OffsetCheckpoint, offsets: Mapping[Partition, int]) -> None:
    """Replace the file, in one step and durably."""
    entries = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    write_checkpoint(directory, checkpoint.value, entries)
