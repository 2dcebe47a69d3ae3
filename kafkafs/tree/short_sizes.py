"""The sizes of a short log's views, for a walk that asks for all of them: found at one look, and kept nowhere.

They are those that `stat` says, or None where finding one takes more, or where it fails: then the request for the name
finds it, or gets the error. Sizes that are counted once and kept are `kafkafs.content`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.content.piece import UNSETTLED
from kafkafs.content.pieces import LinePieces
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import Kind, View
from kafkafs.render.batch_lines import Visible, new_lines
from kafkafs.tree.errors import TreeError
from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.partition_views import view_node
from storage.errors import StorageError
from storage.log import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkafs.content.piece import Piece
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Attributes
    from storage.log import LogView

_STREAMS: Final = tuple(view for view in View if view.kind is Kind.STREAM)


class ShortSizes:
    """The sizes of the files in a partition's directory, whose own attributes are these, for one look at its log."""

    def __init__(self, source: LogSource, context: TreeContext, log: LogView, directory: Attributes) -> None:
        self._source = source
        self._context = context
        self._log = log
        self._directory = directory
        self._streams: dict[View, int | None] | None = None

    def attributes(self, view: View) -> Attributes | None:
        """Return what `stat` says of a file; None for an error."""
        source, log, directory = self._source, self._log, self._directory
        try:
            if view.kind is Kind.STREAM and log.segments and log.start_offset == log.segments[0].base_offset:
                if self._streams is None:
                    self._streams = _streams_bytes(source, log)
                return directory._replace(size_bytes=self._streams[view])
            node = view_node(PartitionFilePath(source.path, view), source, self._context)
            if isinstance(node, LogFact):
                access = node.access()
                size_bytes = None if node.hides_size(access) else node.size_bytes(log)
                return directory._replace(size_bytes=size_bytes, access=access)
            return node.attributes()
        except (StorageError, TreeError, OSError):
            return None


def _streams_bytes(source: LogSource, log: LogView) -> dict[View, int | None]:
    """Return the sizes of the streams of a log that begins with its only segment; None of one that is damaged.

    Raises `CorruptBatchError` if the log ends at damage.
    """
    (segment,) = log.segments
    end_offset = log.bound(source.options.isolation)
    is_committed = source.options.isolation is Isolation.COMMITTED and segment.base_offset < end_offset
    visible = Visible(end_offset, log.aborted(segment.base_offset, end_offset) if is_committed else ())
    to_tail = end_offset >= log.end_offset
    found: dict[View, int | None] = {}
    with segment.open_log() as file:
        for view in _STREAMS:
            lines = new_lines(view, source.topic, source.partition)
            pieces = LinePieces(lines, visible, segment.base_offset, to_tail=to_tail)
            found[view] = _size_of(pieces.of(file, 0, log.end_position, only_sizes=True))
    segment.check_end(log.end_position)
    return found


def _size_of(pieces: Iterable[Piece]) -> int | None:
    size_bytes = 0
    for piece in pieces:
        if piece.damage is not None or piece.position == UNSETTLED:
            return None
        size_bytes += piece.size_bytes
    return size_bytes
