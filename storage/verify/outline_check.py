"""The check of a partition that reads no log, but for what follows its end: for a look at very many partitions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.record.layout import CURRENT_MAGIC, MAGIC_AT
from storage.segment.index import OffsetIndexReader, TimeIndexReader, is_zero
from storage.segment.names import FileName, Kind
from storage.verify.finding import missing_index
from storage.verify.log_check import LogCheck
from storage.verify.partition_check import PartitionCheck

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.files import Directory, FileStatus
    from storage.verify.context import LogEnd, PartitionContext

_ENTRY_BYTES: Final = {
    Kind.OFFSET_INDEX: OffsetIndexReader.entry_bytes,
    Kind.TIME_INDEX: TimeIndexReader.entry_bytes,
}


class OutlineCheck(PartitionCheck):
    """The check of names, missing indexes, small files, the bytes after the log's end, and offsets beyond it.

    Without an `end`, or if the log has another last segment by now, its end is not checked.
    """

    def __init__(self, context: PartitionContext, listing: Mapping[str, FileStatus], end: LogEnd | None) -> None:
        super().__init__(context, listing)
        self._end = end

    def run(self) -> None:
        """Check what takes no reading of the log."""
        end, bases = self._end, self._names.bases
        self._names.report()
        for base_offset in bases:
            self._check_has_indexes(base_offset)
        if end is not None and bases[-1:] == [end.base_offset]:
            with suppress(OSError):  # what cannot be read is a finding of the names, or of reading the log
                self._check_end(end)
        self.topic_id = self._topic_id(is_used=end is not None and end.position > 0)

    def _check_has_indexes(self, base_offset: int) -> None:
        """Report indexes that a segment lacks, unless a broker wrote it that made none."""
        names = [str(FileName(base_offset, kind)) for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX)]
        missing = [name for name in names if name not in self._names.texts]
        if missing and self._begins_with_current_batch(base_offset):
            for name in missing:
                self._findings.add(missing_index(name))

    def _begins_with_current_batch(self, base_offset: int) -> bool:
        with suppress(OSError), self._context.directory.open_reading(str(FileName(base_offset, Kind.LOG))) as file:
            return file.read_at(MAGIC_AT, 1) == bytes([CURRENT_MAGIC])
        return False

    def _check_end(self, end: LogEnd) -> None:
        """Report what follows the end in the last segment, and an end before offsets that other files have."""
        directory, name = self._context.directory, str(FileName(end.base_offset, Kind.LOG))
        with directory.open_reading(name) as file:
            size_bytes = file.size_bytes()
            if size_bytes < end.position:
                return  # the log was truncated meanwhile
            log = LogCheck(
                file,
                end.base_offset,
                self._findings,
                name=name,
                end=size_bytes,
                may_end_in_zeros=not self._expected.is_clean and _is_untrimmed(directory, end.base_offset),
                advance=self._context.advance,
                begins=(end.position, end.offset),
            )
            for _ in log:
                pass  # batches that a broker has appended since
        self._check_reached(name, log.position, max(log.claimed_offset, log.next_offset))


def _is_untrimmed(directory: Directory, base_offset: int) -> bool:
    """Return True if an index of the segment ends in zeros, as files do that are allocated in advance."""
    for kind, entry_bytes in _ENTRY_BYTES.items():
        with suppress(OSError), directory.open_reading(str(FileName(base_offset, kind))) as file:
            size_bytes = file.size_bytes()
            if size_bytes >= entry_bytes and is_zero(file, size_bytes - entry_bytes, size_bytes):
                return True
    return False
