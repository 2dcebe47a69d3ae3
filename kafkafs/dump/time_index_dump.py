"""The dump of a time index (`.timeindex`): its entries, and whether the log has the times that they say."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from kafkafs.dump.entry_dump import Entry
from kafkafs.dump.file_kinds import beside
from kafkafs.dump.index_dump import IndexDump, IndexView, Mismatches
from storage.errors import CorruptIndexError, FramingError, StorageError
from storage.record import NO_TIMESTAMP
from storage.segment import Kind
from storage.segment.index import TIME_ENTRY, OffsetIndexReader, TimeIndexReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from kafkafs.dump.log_beside import LogBeside
    from storage.files import Files, ReadableFile
    from storage.record import Batch

_NOT_FOUND: Final = -1


class TimeIndexDump(IndexDump):
    """One time index's dump. An entry should have a batch's last offset and its records' largest timestamp.

    Older brokers write entries for which that is not so: they have the offset of the record that has the time.
    """

    slot = TIME_ENTRY

    def __init__(self, files: Files, file: ReadableFile, form: EntryForm, view: IndexView, *, limit_bytes: int) -> None:
        super().__init__(files, file, form, view, limit_bytes=limit_bytes)
        path = self._absolute_path
        self._differing = Mismatches(f"Found timestamp mismatch in :{path}", "  Index timestamp: {}, log timestamp: {}")
        self._descending = Mismatches(
            f"Found out of order timestamp in :{path}", "  Index timestamp: {}, Previously indexed timestamp: {}"
        )
        self._not_found = Mismatches(
            "The following indexed offsets are not found in the log.", "Indexed offset: {}, found log offset: {}"
        )
        index_path = beside(file.path, Kind.OFFSET_INDEX)
        self._offset_index = OffsetIndexReader.open(
            *files.parent(index_path), self._base_offset, limit_bytes=limit_bytes
        )

    def _entries(self, log: LogBeside | None) -> Iterator[Entry | StorageError]:
        if self._files.status(self._offset_index.path) is None:
            name = PurePath(self._offset_index.path).name
            yield CorruptIndexError(f"the offset index beside it, {name}, is missing")
        previous = NO_TIMESTAMP
        for number, (timestamp, relative) in self._slots():
            if relative == 0 and number > 0:
                return
            offset = self._base_offset + relative
            fields = {"timestamp": timestamp, "offset": offset}
            if log is not None:
                try:
                    fields |= self._differences(log, timestamp, offset, previous)
                except StorageError as error:
                    if number == 0 and self._is_unused():
                        yield self._unused()
                        return
                    yield self._located(error, offset)
            if self._view is IndexView.ENTRIES:
                yield Entry("timeIndexEntry", fields, f"timestamp: {timestamp} offset: {offset}")
            previous = timestamp

    def _differences(self, log: LogBeside, timestamp: int, offset: int, previous: int) -> dict[str, int]:
        """Note where the entry differs from the log and from the entry before, and say what the log has instead."""
        batch = self._batch_reaching(log, offset)
        if batch is None or batch.last_offset != offset:
            last_offset = _NOT_FOUND if batch is None else batch.last_offset
            self._not_found.add(offset, last_offset)
            return {"logOffset": last_offset}
        log_timestamp = log.largest_timestamp(batch)
        if previous >= timestamp:
            self._descending.add(timestamp, previous)
        if log_timestamp == timestamp:
            return {}
        self._differing.add(timestamp, log_timestamp)
        return {"logTimestamp": log_timestamp}

    def _batch_reaching(self, log: LogBeside, offset: int) -> Batch | None:
        """Return the first batch that reaches the offset, found by the offset index unless that is wrong.

        Where its slots are not all used the real tool begins at the log's start. So does this if an entry points to no
        batch, as those do that a truncation has left.
        """
        position = self._offset_index.lookup(offset).position
        try:
            return log.batch_reaching(offset, position)
        except (CorruptIndexError, FramingError):
            if position <= 0 or not self._offset_index.ignored_slots:
                raise
        return log.batch_reaching(offset, 0)

    def _mismatches(self) -> tuple[Mismatches, ...]:
        return self._differing, self._descending, self._not_found

    def _check(self) -> None:
        index = TimeIndexReader.open(
            *self._files.parent(self._file.path), self._base_offset, limit_bytes=self._limit_bytes
        )
        index.check()
        # Kafka takes an untrimmed tail for entries, so that the last one has a time of 0.
        if index.ignored_slots and index.entries_count and next(iter(index)).timestamp > 0:
            raise CorruptIndexError(
                f"the time index was not trimmed: {index.ignored_slots} slots after its {index.entries_count} entries"
                " are not used"
            )

    def _is_said_to_be_empty(self) -> bool:
        return False  # the real tool says so of offset indexes only
