"""The files at the top of a run, which make its partitions one log directory that was closed properly.

The partitions of all log directories of a store lie in one directory of the run: no two have the same name, and whose
disk each came from is in the manifest. The run belongs to the same node of the same cluster, and has the directory id
of the store's first log directory.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkafs.backup.manifest import sha256_of
from kafkafs.backup.manifest_lines import RunFile
from storage.commit import LEDGER_NAME, Ledger
from storage.errors import ConfigError, CorruptMetadataError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.log_dir import (
    CLUSTER_METADATA,
    RUN_MANIFEST_NAME,
    LogDir,
    OffsetCheckpoint,
    write_meta_properties,
    write_offsets,
    write_settings_file,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from kafkafs.backup.manifest_lines import RunPartition
    from storage.clock import Clock
    from storage.files import Directory
    from storage.log_dir import MetaProperties, Partition
    from storage.store import Store

_BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"


class RunOffsets:
    """The offsets of a run's partitions, which its checkpoints will have."""

    def __init__(self) -> None:
        self._offsets: dict[OffsetCheckpoint, dict[Partition, int]] = {each: {} for each in OffsetCheckpoint}
        self.ends: dict[Partition, int] = {}

    def add(self, partition: RunPartition, base_offset: int | None) -> None:
        """Take in a partition whose first segment begins at this offset; None if it has none."""
        key = (partition.topic, partition.partition)
        self.ends[key] = partition.end_offset
        if partition.topic == CLUSTER_METADATA:
            return
        self._offsets[OffsetCheckpoint.RECOVERY_POINT][key] = partition.end_offset
        self._offsets[OffsetCheckpoint.HIGH_WATERMARK][key] = partition.end_offset
        if base_offset is not None and partition.start_offset > base_offset:
            self._offsets[OffsetCheckpoint.LOG_START][key] = partition.start_offset
        if partition.first_dirty_offset is not None:
            self._offsets[OffsetCheckpoint.FIRST_DIRTY][key] = partition.first_dirty_offset

    def remove(self, partition: Partition) -> None:
        """Forget a partition that is in the run no more."""
        self.ends.pop(partition, None)
        for offsets in self._offsets.values():
            offsets.pop(partition, None)

    def compacted_since(self, partitions: Collection[Partition]) -> None:
        """Note partitions that a cleaner has compacted since they were taken: their offsets may have gaps."""
        known = self._offsets[OffsetCheckpoint.FIRST_DIRTY]
        for partition in partitions:
            if partition in self.ends:
                known.setdefault(partition, 0)

    def write(self, directory: Directory) -> None:
        """Write the checkpoints."""
        for checkpoint, offsets in self._offsets.items():
            if offsets or checkpoint in (OffsetCheckpoint.RECOVERY_POINT, OffsetCheckpoint.HIGH_WATERMARK):
                write_offsets(directory, checkpoint, dict(sorted(offsets.items())))


def owner_of(store: Store) -> MetaProperties | None:
    """Return which node of which cluster the store belongs to, None if it does not say."""
    return next((each.properties for each in store.log_dirs if each.properties is not None), None)


def write_top_files(
    directory: Directory, store: Store, clock: Clock, offsets: RunOffsets, ledger: bytes | None
) -> Iterator[str]:
    """Make a properly closed log directory of a run's partitions; yield what is damaged in the store's own files."""
    owner = owner_of(store)
    if owner is not None:
        write_meta_properties(directory, owner, clock.now_ms())
    offsets.write(directory)
    try:
        settings = store.topics.settings_file.current
        if settings.is_made_here or settings.topics or settings.others:
            write_settings_file(directory, replace(settings.without_void(), is_begun=False))
    except ConfigError as error:
        yield f"{error.path}: {error.reason}"
    if ledger is not None:
        directory.replace(LEDGER_NAME, ledger)
        try:
            entries = Ledger([directory]).current
            if entries.pending is not None:  # what it would add is not in the copies
                Ledger([directory]).replace(entries.without_pending())
        except CorruptMetadataError as error:
            yield f"{LEDGER_NAME}: {error.reason}"
    for log_dir in store.log_dirs:
        with suppress(FileNotFoundError):
            data = log_dir.directory.read_small(_BOOTSTRAP_NAME, CorruptMetadataError, SNAPSHOT_BYTES_MAX)
            directory.replace(_BOOTSTRAP_NAME, data)
            break
    for log_dir in store.log_dirs:
        for checkpoint, flaw in log_dir.flaws().items():
            yield f"{log_dir.directory.path_of(checkpoint.value)}: {flaw}"
    LogDir(directory).write_clean_marker()


def read_ledger(store: Store) -> bytes | None:
    """Return the store's record of commits, None if it has none. It is read before the logs that it speaks of."""
    for log_dir in store.log_dirs:
        with suppress(FileNotFoundError):
            return log_dir.directory.read_small(LEDGER_NAME, CorruptMetadataError, SNAPSHOT_BYTES_MAX)
    return None


def top_files(directory: Directory) -> list[RunFile]:
    """Return the files at the top of a run, but for its manifest."""
    found = []
    for name, status in sorted(directory.statuses().items()):
        if status.is_file and name != RUN_MANIFEST_NAME:
            found.append(RunFile(name, status.size_bytes, sha256_of(directory, name, status.size_bytes)))
    return found
