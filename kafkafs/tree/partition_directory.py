"""A partition: the views of its log, and the files to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.locator.paths import PartitionDirectory, PartitionFile, PartitionPath, UnattachedPath
from kafkafs.tree.node import Attributes, Directory
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.log_source import LogSource

_VIEWS: Final = (
    *PartitionDirectory,
    PartitionFile.VALUES,
    PartitionFile.RECORDS,
    PartitionFile.INFO,
    PartitionFile.LOG_START_OFFSET,
    PartitionFile.TRANSACTIONS,
    PartitionFile.PRODUCERS,
    PartitionFile.LEADER_EPOCHS,
    PartitionFile.RETENTION_PLAN,
    PartitionFile.COMPACTION_PLAN,
)
_WAYS_TO_WRITE: Final = (
    PartitionFile.APPEND,
    PartitionFile.APPEND_JSONL,
    PartitionFile.APPEND_KV,
    PartitionFile.APPEND_RAW,
    PartitionFile.APPEND_BATCH,
)


class PartitionNode(Directory):
    """The directory of a log. One that is no topic's partition has the same views, and no files to write to."""

    def __init__(self, path: PartitionPath | UnattachedPath, source: LogSource) -> None:
        super().__init__(path, identity=source.identity)
        self._source = source

    def attributes(self) -> Attributes:
        """Report the log's last change, or its directory's if the log cannot be read."""
        source = self._source
        try:
            modified_ms = source.modified_ms(source.visible().view)
        except (StorageError, OSError):
            status = source.files.status(source.directory)
            modified_ms = 0 if status is None else status.modified_ms
        return Attributes(modified_ms=modified_ms, place=source.directory)

    def names(self) -> Iterator[str]:
        """Yield every view and every file to write to."""
        yield from map(str, _VIEWS)
        if isinstance(self.path, PartitionPath):
            yield from map(str, _WAYS_TO_WRITE)
