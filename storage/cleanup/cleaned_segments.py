"""The segments that are to replace a group of others, while they are written.

They are named `.cleaned` beside the others, with their indexes, until the log renames them. Usually it is one segment;
one that would exceed the topic's segment size, or an index's range of offsets, is cut into several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.record.reading import read_batches
from storage.segment.checked_scan import base_of_part
from storage.segment.index.builder import IndexBuilder
from storage.segment.names import FileName, FileSuffix, Kind, parsed
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.cleanup.batch_filter import KeptBatch
    from storage.config import TopicConfig
    from storage.files import Directory, WritableFile
    from storage.record.reading import Batch

_LARGEST_LOG_BYTES: Final = 2**31 - 1


class CountedSegments:
    """The segments that would replace a group of others: counted, and not written.

    `limit_bytes` is how large each segment may become, unless a single batch is larger. `bases` are where they begin.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.size_bytes = 0
        self.bases: list[int] = []
        self._limit_bytes = min(limit_bytes, _LARGEST_LOG_BYTES)
        self._used_bytes = 0  # of the last segment
        self._due_offset = 0  # after the last batch

    def begin(self, base_offset: int) -> None:
        """Begin a segment at the offset for the following batches."""
        self.bases.append(base_offset)
        self._used_bytes = 0
        self._due_offset = base_offset

    def add(self, batch: Batch, kept: KeptBatch) -> None:
        """Add the kept bytes of the next batch.

        Raises `CorruptBatchError` if they need a segment of their own and cannot begin one.
        """
        if not kept.is_unchanged:
            (batch,) = read_batches(kept.data)
        is_too_large = self._used_bytes > 0 and self._used_bytes + batch.size_bytes > self._limit_bytes
        if is_too_large or batch.last_offset - self.bases[-1] > LARGEST_OFFSET_DELTA:
            self.begin(base_of_part(batch, self._due_offset))
        self._used_bytes += batch.size_bytes
        self.size_bytes += batch.size_bytes
        self._due_offset = batch.last_offset + 1
        self._take(batch, kept)

    def flush(self) -> int:
        """Nothing is written."""
        return 0

    def finish(self, modified_ms: int) -> None:
        """Nothing is written."""

    def _take(self, batch: Batch, kept: KeptBatch) -> None:
        """Keep nothing."""


class CleanedSegments(CountedSegments):
    """The segments that replace a group of others, written. Added batches are in memory until they are flushed."""

    def __init__(
        self,
        directory: Directory,
        config: TopicConfig,
        *,
        limit_bytes: int,
    ) -> None:
        super().__init__(limit_bytes)
        self._directory = directory
        self._config = config
        self._indexes: list[IndexBuilder] = []
        self._log: WritableFile | None = None  # the last segment's
        self._written_bytes = 0  # of the last segment
        self._pending: list[tuple[Batch, Buffer]] = []
        self._flushed_bytes = 0  # since that was last told

    def begin(self, base_offset: int) -> None:
        """Begin a segment at the offset for the following batches."""
        self._write()
        super().begin(base_offset)
        self.close()
        self._log = self._directory.open_writing(_cleaned_log(base_offset), create=True)
        self._indexes.append(IndexBuilder(base_offset, self._config))
        self._written_bytes = 0

    def flush(self) -> int:
        """Write the added batches, and return how many bytes were written since the last call."""
        self._write()
        flushed_bytes, self._flushed_bytes = self._flushed_bytes, 0
        return flushed_bytes

    def finish(self, modified_ms: int) -> None:
        """Sync the complete segments, and set their modification time."""
        self._write()
        self.close()
        for base_offset, indexes in zip(self.bases, self._indexes, strict=True):
            with self._directory.open_writing(_cleaned_log(base_offset)) as log:
                log.set_modified(modified_ms)
                log.sync()
            indexes.write_cleaned(Segment(self._directory, base_offset))
        self._directory.sync()

    def close(self) -> None:
        """Close the open file. All files stay as they are."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _take(self, batch: Batch, kept: KeptBatch) -> None:
        self._pending.append((batch, kept.data))
        if kept.aborted is not None:
            self._indexes[-1].add_aborted(kept.aborted)

    def _write(self) -> None:
        if not self._pending:
            return
        assert self._log is not None
        self._log.write_at(self._written_bytes, [data for _, data in self._pending])
        begun_bytes = self._written_bytes
        for batch, _ in self._pending:
            self._indexes[-1].add(batch, self._written_bytes)
            self._written_bytes += batch.size_bytes
        self._flushed_bytes += self._written_bytes - begun_bytes
        self._pending.clear()


def _cleaned_log(base_offset: int) -> str:
    return str(FileName(base_offset, Kind.LOG, FileSuffix.CLEANED))


def remove_cleaned(directory: Directory) -> None:
    """Remove the files of an unfinished run from a directory, durably.

    While any of them exists, recovery takes an interrupted replacement for an incomplete one.
    """
    names = [name for name in parsed(directory.names()) if name.suffix is FileSuffix.CLEANED]
    for name in names:
        directory.remove(str(name))
    if names:
        directory.sync()
