"""A partition: the views of its log, and the files to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath, UnattachedPath
from kafkafs.locator.views import PARTITION_VIEWS, Kind
from kafkafs.tree.node import Attributes, Directory
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.log_source import LogSource


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
        is_topics = isinstance(self.path, PartitionPath)
        yield from (name for name, view in PARTITION_VIEWS.items() if is_topics or view.kind is not Kind.INPUT)
