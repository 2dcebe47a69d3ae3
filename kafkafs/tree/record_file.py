"""A record as a file: `offset/42`, `earliest`, `latest`, `last-10`, in every form; `.json` tells of the batch, too."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkafs.content.descriptor_memory import LITTLE_BYTES
from kafkafs.locator.formats import Format
from kafkafs.locator.offsets import AtOffset, FromEnd, RecordRange
from kafkafs.render.batch_member import batch_member
from kafkafs.render.record_cost import rendered_within_memory, stored_bytes
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.log_fact import is_long_to_read
from kafkafs.tree.node import Attributes, File
from kafkafs.tree.record_xattrs import record_xattrs
from kafkafs.tree.remade_reading import RemadeReading
from kafkafs.tree.stream_file import unknown_xattr
from storage.log import TransactionEnd, transaction_end
from storage.record import NO_TIMESTAMP
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from kafkafs.locator.offsets import Record as RecordName
    from kafkafs.locator.paths import OffsetPath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Reading
    from kafkafs.tree.visible_log import Found, VisibleLog
    from storage.files import Access
    from storage.record import Batch, LeasedBuffer, Record

    _Render: TypeAlias = Callable[[Record], bytes | LeasedBuffer]

_PINNED_BYTES_MAX: Final = LITTLE_BYTES
"""The most bytes that an open file keeps when others need memory."""


class RecordFile(File):
    """The record that the name means when the node is made, and the same one from then on.

    Raises `NotThereError` if it leads to none that is visible, and `DamagedError` if what holds it is damaged. The
    identity is that of the directory, so it is another one once the log was truncated or compacted.
    """

    def __init__(self, path: OffsetPath, source: LogSource, now_ms: int) -> None:
        self._format = path.name.format
        self._source = source
        self._visible, self._found = _find(path, source, now_ms)
        self._is_fixed = isinstance(path.name.records, AtOffset)
        self._rendered: bytes | LeasedBuffer | None = None
        self._is_decided = True  # the rendered bytes never change
        super().__init__(path, identity=self._visible.identity)

    def attributes(self) -> Attributes:
        """Report the record's time, or its segment's if it has none."""
        record, _, segment, _ = self._found
        access = self._source.access()
        if self._is_fixed and self._format is Format.VALUE:
            known = value_attributes(record, access)
            if known is not None:
                return known
        modified_ms, is_lasting = record.timestamp, self._is_fixed
        size_bytes: int | None = max(record.value_size, 0)
        if self._is_size_pending:
            size_bytes, is_lasting = None, False
        elif self._format is not Format.VALUE:
            size_bytes = len(self._data())
            is_lasting = is_lasting and self._is_decided
        if modified_ms == NO_TIMESTAMP:
            status = segment.log_status()
            modified_ms = 0 if status is None else status.modified_ms
            is_lasting = is_lasting and segment is not self._visible.view.segments[-1]
        return Attributes(size_bytes=size_bytes, modified_ms=modified_ms, access=access, is_lasting=is_lasting)

    def xattrs(self) -> Mapping[str, bytes]:
        """Report what the record has besides its value."""
        return record_xattrs(self._found) | unknown_xattr(None if self._is_size_pending else 0)

    @property
    def record(self) -> Record:
        """The record."""
        return self._found.record

    @property
    def held_bytes(self) -> int:
        """Return about how much memory the record's batch takes, and what was rendered."""
        return self._found.held_bytes + len(self._rendered or b"")

    def open(self) -> Reading:
        """Open it in memory."""
        data = self._data()
        if len(data) <= _PINNED_BYTES_MAX:
            return BytesReading(bytes(data))
        render, batch, offset = self._rendering(), self._found.batch, self._found.record.offset
        self._rendered = None
        return RemadeReading(partial(_rendered, render, batch, offset), data)

    def _data(self) -> bytes | LeasedBuffer:
        if self._rendered is None:
            self._rendered = self._rendering()(self._found.record)
        return self._rendered

    def _rendering(self) -> _Render:
        """Return a function that renders the record. It holds none of the decoded batch."""
        if self._format is Format.BATCH:
            stored = self._found.batch
            return lambda _: stored_bytes(stored)
        if self._format is Format.JSON:
            return self._indenting()
        return self._source.renderer(self._format).one

    def _indenting(self) -> _Render:
        record, batch, segment, _ = self._found
        end: TransactionEnd | None = None
        if batch.is_transactional:
            end = self._source.ask(lambda visible: transaction_end(batch, visible.view, self._source.log.producers))
            self._is_decided = end in {TransactionEnd.COMMITTED, TransactionEnd.ABORTED}
        member = batch_member(record, batch, segment=segment.name(Kind.LOG), transaction=end)
        envelope = self._source.renderer(Format.JSON).envelope
        return partial(rendered_within_memory, Format.JSON, partial(envelope.indented, batch=member))

    @property
    def _is_size_pending(self) -> bool:
        """True if finding how the record's transaction ended takes reading more than a `stat` may."""
        is_asked = self._format is Format.JSON and self._rendered is None and self._found.batch.is_transactional
        return is_asked and is_long_to_read(self._source)


def _rendered(render: _Render, batch: Batch, offset: int) -> bytes | LeasedBuffer:
    """Decode a batch again, and render the record at the offset."""
    return render(next(record for record in batch.records() if record.offset == offset))


def value_attributes(record: Record, access: Access) -> Attributes | None:
    """Return what `stat` says of a record's value; None if that takes more than the record."""
    if record.timestamp == NO_TIMESTAMP:
        return None
    size_bytes = max(record.value_size, 0)
    return Attributes(size_bytes=size_bytes, modified_ms=record.timestamp, access=access, is_lasting=True)


def _find(path: OffsetPath, source: LogSource, now_ms: int) -> tuple[VisibleLog, Found]:
    name = path.name.records
    assert not isinstance(name, RecordRange)
    if isinstance(name, AtOffset):
        recent = source.recent(now_ms)
        try:
            found = recent.find(name.offset)
        except (DamagedError, FileNotFoundError):
            found = None  # the recent view may be outdated
        if found is not None:
            return recent, found

    visible, found = source.ask(lambda visible: (visible, _found(name, visible)))
    if found is None:
        raise NotThereError(f"{path}: there is no such record to be seen{_why_not(name, visible)}")
    return visible, found


def _why_not(name: RecordName, visible: VisibleLog) -> str:
    """Return on which side of what can be seen an offset lies, as the end of a sentence."""
    if not isinstance(name, AtOffset):
        return ""
    if name.offset < visible.start_offset:
        return f": the log starts at offset {visible.start_offset}"
    if name.offset >= visible.view.end_offset:
        return f": the log ends at offset {visible.view.end_offset}"
    if name.offset >= visible.end_offset:
        return f": the last stable offset is {visible.end_offset}"
    return ""


def _found(name: RecordName, visible: VisibleLog) -> Found | None:
    offset: int | None
    if isinstance(name, AtOffset):
        offset = name.offset
    elif isinstance(name, FromEnd):
        offset = visible.from_end(name.count)
    else:
        records = visible.records(visible.start_offset, visible.end_offset)
        offset = next((record.offset for record in records), None)
    return None if offset is None else visible.find(offset)
