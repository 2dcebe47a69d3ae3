"""The dump of an offset index (`.index`): its entries, and whether the log has the batches that they say."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kafkafs.dump.entry_dump import Entry
from kafkafs.dump.index_dump import IndexDump, IndexView
from kafkafs.dump.mismatches import Mismatches
from storage.errors import StorageError
from storage.segment.offset_index import OffsetIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from kafkafs.dump.log_beside import LogBeside
    from storage.files import Files, ReadableFile


class OffsetIndexDump(IndexDump):
    """One offset index's dump. An entry should have the last offset of the batch at its position.

    Older brokers write entries for which that is not so, where one append brought several batches.
    """

    slot = Struct(">ii")  # last offset less the base offset, position

    def __init__(self, files: Files, file: ReadableFile, form: EntryForm, view: IndexView, *, limit_bytes: int) -> None:
        super().__init__(files, file, form, view, limit_bytes=limit_bytes)
        self._differing = Mismatches(
            f"Mismatches in :{self._absolute_path}", "  Index offset: {}, log offset: {}", last_first=True
        )

    def _entries(self, log: LogBeside | None) -> Iterator[Entry | StorageError]:
        for number, (relative, position) in self._slots():
            if relative == 0 and number > 0:
                return
            offset = self._base_offset + relative
            fields = {"offset": offset, "position": position}
            if log is not None:
                try:
                    found = log.batch_at(position).last_offset
                except StorageError as error:
                    if number == 0 and self._is_unused():
                        yield self._unused()
                        return
                    yield self._located(error, offset)
                else:
                    if found != offset:
                        self._differing.add(offset, found)
                        fields["logOffset"] = found
            if self._view is IndexView.ENTRIES:
                yield Entry("indexEntry", fields, f"offset: {offset} position: {position}")

    def _mismatches(self) -> tuple[Mismatches, ...]:
        return (self._differing,)

    def _check(self) -> None:
        path = self._file.path
        OffsetIndex.open_reading(self._files, path, self._base_offset, limit_bytes=self._limit_bytes).check()

    def _is_said_to_be_empty(self) -> bool:
        return self._slots_count == 0
