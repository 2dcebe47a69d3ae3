"""`offset/`: the newest records by their offsets."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkafs.content.patience import LOOK_S, Patience
from kafkafs.locator.offsets import Edge, FromEnd
from kafkafs.tree.node import Attributes, Directory, Entry
from kafkafs.tree.options import Damage
from kafkafs.tree.record_file import value_attributes
from kafkafs.tree.visible_batches import SkimmedBatch
from kafkafs.tree.visible_log import VisibleLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.locator.paths import PartitionDirectoryPath
    from kafkafs.tree.log_source import LogSource
    from storage.files import Access

_LISTED_XATTR: Final = "user.kafkafs.listed"
_EDGES: Final = (str(Edge.EARLIEST), str(FromEnd(1)))

logger = logging.getLogger(__name__)


class OffsetDirectory(Directory):
    """The directory of a log's records. Those in damaged batches are not listed."""

    def __init__(self, path: PartitionDirectoryPath, source: LogSource, now_ms: int) -> None:
        self._source = source
        self._visible = source.recent(now_ms)
        super().__init__(path, identity=self._visible.identity)

    def attributes(self) -> Attributes:
        """Report the log's last change, and its directory's owner."""
        return Attributes(modified_ms=self._source.modified_ms(self._visible.view), access=self._source.access())

    def xattrs(self) -> Mapping[str, bytes]:
        """Report how many records are listed of how many offsets, if not all are."""
        listed = self._listed(self._readable(), Patience(LOOK_S))
        return {} if listed is None else {_LISTED_XATTR: listed.encode()}

    def names(self) -> Iterator[str]:
        """The newest records, as many as the options say, ascending; and `earliest` and `latest` if there are any."""
        return (entry.name for entry in self.entries())

    def entries(self) -> Iterator[Entry]:
        """Yield the same names, with each record's value size and as a rule its time.

        Where records take long to decode the rest are listed by their batches' headers, without size and time.
        """
        visible, patience = self._readable(), Patience(LOOK_S)
        return self._entries(visible, self._listed(visible, patience), patience)

    def walked(self, *, is_sized: bool) -> Iterator[Entry]:  # noqa: ARG002
        """Yield the same names, with the attributes of the records that `earliest` and `latest` are."""
        visible, patience = self._as_readable(self._visible), Patience(LOOK_S)
        listed = self._listed(visible, patience)
        edges: dict[str, Attributes | None] = {}
        for entry in self._entries(visible, listed, patience):
            if entry.name in _EDGES:
                yield entry._replace(attributes=edges.get(entry.name))
            else:
                if listed is None:  # otherwise earlier ones are not listed
                    edges.setdefault(_EDGES[0], entry.attributes)
                edges[_EDGES[1]] = entry.attributes
                yield entry

    def _entries(self, visible: VisibleLog, listed: str | None, patience: Patience) -> Iterator[Entry]:
        access = self._source.access()
        first_offset: int | None = None
        if listed is not None:
            first_offset = visible.from_end(self._source.options.list_limit, patience)
            if self._source.is_first("listed"):
                logger.info("%s: the newest records are listed, %s; every one can be opened", self.path, listed)
        next_offset = visible.start_offset if first_offset is None else first_offset
        is_empty = True
        while True:
            try:
                for offset, attributes in _skimmed(visible, next_offset, access, patience):
                    is_empty = False
                    yield Entry(str(offset), attributes, visible.identity)
                    next_offset = offset + 1
                break
            except FileNotFoundError:  # the next records were removed meanwhile
                newer = self._readable()
                if newer.view is visible.view:
                    raise
                visible = newer
        if not is_empty:
            yield from map(Entry, _EDGES)

    def _listed(self, visible: VisibleLog, patience: Patience) -> str | None:
        """Return how many records are listed of how many offsets; None if all are."""
        limit = self._source.options.list_limit
        offsets = visible.end_offset - visible.start_offset
        if not limit or offsets <= limit or visible.from_end(limit + 1, patience) is None:
            return None
        return f"{limit} of {offsets}"

    def _readable(self) -> VisibleLog:
        """Return the readable part of the log as it is now."""
        return self._as_readable(self._source.visible())

    def _as_readable(self, visible: VisibleLog) -> VisibleLog:
        source = self._source
        return VisibleLog(
            visible.view, replace(source.options, damage=Damage.SKIP), source.batches, identity=visible.identity
        )


def _skimmed(
    visible: VisibleLog, start: int, access: Access, patience: Patience
) -> Iterator[tuple[int, Attributes | None]]:
    """Yield the offsets of records from one on, and what is known of the files of their values."""
    batches = visible.skimmed(start, visible.end_offset, patience)
    while batch := next(batches, None):
        if isinstance(batch, SkimmedBatch):
            found: Iterator[tuple[int, Attributes | None]] = ((offset, None) for offset in batch.offsets)
        else:
            found = ((record.offset, value_attributes(record, access)) for record in batch.records)
        del batch  # so that one batch at a time is decoded
        yield from found
