"""The sizes of a short log's views, for a walk that asks for all of them: found at one look, and kept nowhere.

They are those that `stat` says, or None where finding one takes more, or where it fails: then the request for the name
finds it, or gets the error. Sizes that are counted once and kept are `kafkafs.content`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from kafkafs.tree.context import TreeContext
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Attributes
    from storage.log import LogView


def short_attributes(
    view: View, source: LogSource, context: TreeContext, log: LogView, directory: Attributes
) -> Attributes | None:
    """Return what `stat` says of a file of the partition, whose directory has these attributes; None for an error."""
    try:
        if view.kind is Kind.STREAM and log.segments and log.start_offset == log.segments[0].base_offset:
            return directory._replace(size_bytes=_stream_bytes(view, source, log))
        node = view_node(PartitionFilePath(source.path, view), source, context)
        if isinstance(node, LogFact):
            return directory._replace(size_bytes=node.size_bytes(log))
        return node.attributes()
    except (StorageError, TreeError, OSError):
        return None


def _stream_bytes(view: View, source: LogSource, log: LogView) -> int | None:
    """Return the size of a stream of a log that begins with its only segment; None if it is damaged."""
    (segment,) = log.segments
    end_offset = log.bound(source.options.isolation)
    is_committed = source.options.isolation is Isolation.COMMITTED and segment.base_offset < end_offset
    aborted = log.aborted(segment.base_offset, end_offset) if is_committed else ()
    lines = new_lines(view, source.topic, source.partition)
    pieces = LinePieces(lines, Visible(end_offset, aborted), segment.base_offset, to_tail=end_offset >= log.end_offset)
    size_bytes = 0
    with segment.open_log() as file:
        for piece in pieces.of(file, 0, log.end_position, only_sizes=True):
            if piece.damage is not None or piece.position == UNSETTLED:
                return None
            size_bytes += piece.size_bytes
    segment.check_end(log.end_position)
    return size_bytes
