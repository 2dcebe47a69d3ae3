"""A `.log` file read as recovery reads it: up to the first byte that a broker would not keep.

A batch is kept if it is framed, its checksum is right, and its offsets follow those of the batch before it. Its records
need not decode: a broker does not decode them either, and serves for ever what it once accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError
from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.files import ReadableFile
    from storage.record.reading import Batch


class CheckedScan:
    """The batches of a segment's log that recovery keeps, in order; iterate over it once.

    After the iteration `position` and `next_offset` follow the last of them. `error` says why the rest is bad; it is
    None where the file ends, even within a batch. `overflows` is true if the next batch is sound, but its offsets do
    not fit into 31 bits relative to the segment's base. A batch that would need a segment of its own at or after
    `end_offset`, where the next segment begins, is bad.
    """

    def __init__(self, file: ReadableFile, base_offset: int, end_offset: int | None = None) -> None:
        self.position = 0
        self.next_offset = base_offset
        self.error: CorruptBatchError | None = None
        self.overflows = False
        self._scan = LogScan(file)
        self._base_offset = base_offset
        self._end_offset = end_offset

    @property
    def trailing_bytes(self) -> int:
        """The number of bytes after the last batch that is kept."""
        return self._scan.end - self.position

    def __iter__(self) -> Iterator[Batch]:
        offset_max = self._base_offset + LARGEST_OFFSET_DELTA
        path = self._scan.file.path
        next_offset = self.next_offset  # a local variable, as a log has very many batches
        kept: Batch | None = None
        try:
            for batch in self._scan:
                if not batch.crc_matches:
                    batch.check_crc()
                last_offset = batch.last_offset
                if last_offset < next_offset:
                    raise _misplaced(batch, batch.base_offset, next_offset)
                if last_offset > offset_max:
                    base_of_part(batch, next_offset, self._end_offset)
                    self.overflows = True
                    return
                next_offset = last_offset + 1
                kept = batch
                yield batch
        except CorruptBatchError as error:
            self.error = error.located(path=path)
        finally:
            self.next_offset = next_offset
            if kept is not None:
                self.position = kept.position + kept.size_bytes


def base_of_part(batch: Batch, due_offset: int, end_offset: int | None = None) -> int:
    """Return the base offset of a segment that begins with the batch, after one that ends before `due_offset`.

    Raises `CorruptBatchError` if the batch cannot begin one there, below `end_offset`. The header of an old compressed
    batch has its last offset only, and may contradict its records.
    """
    first_offset = batch.read_first_offset()
    if (
        first_offset < due_offset
        or batch.last_offset - first_offset > LARGEST_OFFSET_DELTA
        or (end_offset is not None and batch.last_offset >= end_offset)
    ):
        raise _misplaced(batch, first_offset, due_offset)
    return first_offset


def _misplaced(batch: Batch, first_offset: int, due_offset: int) -> CorruptBatchError:
    return CorruptBatchError(
        f"the batch has the offsets {first_offset} to {batch.last_offset} where {due_offset} is due",
        position=batch.position,
        offset=first_offset,
    )


def lacks_offsets(base_offset: int, batches: Iterable[Batch]) -> bool:
    """Return True if offsets are missing before a segment's batches, between them or, by their headers, within one.

    Batches that were only appended lack none; after a compaction most segments lack many. The header of a batch with a
    wrong checksum proves nothing.
    """
    next_offset = base_offset
    before: Batch | None = None
    for batch in batches:
        lacks = batch.base_offset != next_offset
        if batch.count is not None:
            lacks |= batch.count <= batch.last_offset - batch.base_offset
        if lacks and batch.crc_matches and (before is None or before.crc_matches):
            return True
        next_offset, before = batch.last_offset + 1, batch
    return False
