"""A partition: the views of its log, and the files to write to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkafs.locator.paths import PartitionFilePath, PartitionPath, UnattachedPath
from kafkafs.locator.views import PARTITION_VIEWS, Kind, View
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.log_input import is_input_writable
from kafkafs.tree.node import Attributes, Directory, Entry
from kafkafs.tree.partition_views import view_node
from kafkafs.tree.segment_files import segments_attributes
from kafkafs.tree.short_sizes import ShortSizes
from kafkafs.tree.walking import is_short, is_written_elsewhere
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource


class PartitionNode(Directory):
    """The directory of a log. One that is no topic's partition has the same views, and no files to write to."""

    def __init__(self, path: PartitionPath | UnattachedPath, source: LogSource, context: TreeContext) -> None:
        super().__init__(path, identity=source.identity)
        self._source = source
        self._context = context

    def attributes(self) -> Attributes:
        """Report the log's last change, or its directory's if the log cannot be read, or not by all users."""
        source, rights = self._source, self._source.rights
        access = source.access()
        if not rights.is_reached_by_more(access, rights.of_store()):
            with suppress(StorageError, OSError):
                modified_ms = source.modified_ms(source.visible().view)
                return Attributes(modified_ms=modified_ms, access=source.access())
        status = source.log.directory.own_status()
        return Attributes(modified_ms=0 if status is None else status.modified_ms, access=access)

    def names(self) -> Iterator[str]:
        """Yield every view and every file to write to."""
        return (name for name, _ in self._views())

    def walked(self, *, is_sized: bool = False) -> Iterator[Entry]:
        """Yield the same names with the log's time, all of them as they are at one look at the log."""
        with self._source.log.one_look():
            return iter(list(self._walked(is_sized=is_sized)))

    def _walked(self, *, is_sized: bool) -> Iterator[Entry]:
        # The directories in it, which are looked into next, show the same for a moment.
        self._source.recent(self._context.clock.now_ms())
        log = self._source.visible().view
        directory = self.attributes()
        written = directory._replace(size_bytes=None, is_writable=is_input_writable(self._source))
        of_kind = {
            Kind.DIRECTORY: directory,
            Kind.SETTING: written,
            Kind.INPUT: written._replace(size_bytes=0),
        }
        is_sized = is_sized and is_written_elsewhere(self._source) and is_short(log)
        sizes = ShortSizes(self._source, self._context, log, directory)
        for name, view in self._views():
            if view is View.SEGMENTS:
                yield Entry(name, segments_attributes(self._source))
            elif is_sized and view.kind not in {Kind.DIRECTORY, Kind.INPUT}:
                yield Entry(name, sizes.attributes(view))
            elif view.kind is Kind.TEXT and self._source.rights.is_shared:
                yield Entry(name, self._of_text(view, directory))
            else:
                yield Entry(name, of_kind.get(view.kind, directory._replace(size_bytes=None)))

    def _of_text(self, view: View, directory: Attributes) -> Attributes:
        """Return the attributes of a text without a size: it may show more than the log, and grant less."""
        node = view_node(PartitionFilePath(self._source.path, view), self._source, self._context)
        assert isinstance(node, LogFact)
        return directory._replace(size_bytes=None, access=node.access())

    def _views(self) -> Iterator[tuple[str, View]]:
        is_topics = isinstance(self.path, PartitionPath)
        return ((name, view) for name, view in PARTITION_VIEWS.items() if is_topics or view.kind is not Kind.INPUT)
