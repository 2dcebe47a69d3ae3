"""A partition: the views of its log, and the files to write to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionPath, UnattachedPath
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View
from kafkafs.tree.log_input import is_input_writable
from kafkafs.tree.node import Attributes, Directory, Entry
from kafkafs.tree.segment_files import segments_attributes
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
        return (name for name, _ in self._views())

    def walked(self) -> Iterator[Entry]:
        """Yield the same names with the log's time. The sizes of all views are unknown."""
        directory = self.attributes()
        written = directory._replace(size_bytes=None, is_writable=is_input_writable(self._source))
        of_kind = {
            Kind.DIRECTORY: directory,
            Kind.SETTING: written,
            Kind.INPUT: written._replace(size_bytes=0),
        }
        for name, view in self._views():
            if view is View.SEGMENTS:
                yield Entry(name, segments_attributes(self._source))
            else:
                yield Entry(name, of_kind.get(view.kind, directory._replace(size_bytes=None)))

    def _views(self) -> Iterator[tuple[str, View]]:
        is_topics = isinstance(self.path, PartitionPath)
        return ((name, view) for name, view in PARTITION_VIEWS.items() if is_topics or view.kind is not Kind.INPUT)
