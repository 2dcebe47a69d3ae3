"""The dump of an offset index (`.index`): its entries, and whether the log has the batches that they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.dump.entry_dump import Entry
from kafkafs.dump.index_dump import IndexDump, IndexView, Mismatches
from storage.errors import StorageError
from storage.segment.index import OFFSET_ENTRY, OffsetIndexReader, StaleTail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from kafkafs.dump.log_beside import LogBeside
    from storage.files import Files, ReadableFile


class OffsetIndexDump(IndexDump):
    """One offset index's dump. An entry should have the last offset of the batch at its position.

    Older brokers write entries for which that is not so: those of a first offset, and where one append brought several
    batches. Entries that a truncation left in the index of an active segment are no damage; a line says where they
    begin, and they are not compared.
    """

    slot = OFFSET_ENTRY
    _known_stale_begin: int | None = None

    def __init__(self, files: Files, file: ReadableFile, form: EntryForm, view: IndexView, *, limit_bytes: int) -> None:
        super().__init__(files, file, form, view, limit_bytes=limit_bytes)
        self._differing = Mismatches(
            f"Mismatches in :{self._absolute_path}", "  Index offset: {}, log offset: {}", last_first=True
        )

    def _entries(self, log: LogBeside | None) -> Iterator[Entry | StorageError]:
        is_stale = False
        for number, (relative, position) in self._slots():
            if relative == 0 and number > 0:
                return
            offset = self._base_offset + relative
            fields = {"offset": offset, "position": position}
            if log is not None and not is_stale:
                try:
                    found = log.batch_at(position).last_offset
                except StorageError as error:
                    if number == 0 and self._is_unused():
                        yield self._unused()
                        return
                    is_stale = number == self._stale_begin(log)
                    yield self._stale() if is_stale else self._located(error, offset)
                else:
                    if found != offset:
                        self._differing.add(offset, found)
                        fields["logOffset"] = found
            if self._view is IndexView.ENTRIES:
                yield Entry("indexEntry", fields, f"offset: {offset} position: {position}")

    def _stale(self) -> Entry:
        return self._remark("stale", "has no more entries of the log as it is: the rest was left by a truncation.")

    def _stale_begin(self, log: LogBeside) -> int:
        """Return the number of the first entry that a truncation left; the count of entries if there is none.

        It leaves them only in a file whose slots are not all used, which its broker has open or had when it died, and
        only at or after a place where the log may have been truncated.
        """
        if self._known_stale_begin is not None:
            return self._known_stale_begin
        tail = StaleTail()
        if self._file.size_bytes() >= self.slot.size and not self._is_trimmed():
            truncation = log.truncation(self._base_offset, begins_epoch=self._may_begin_epoch())
            for number, (relative, position) in self._slots():
                if relative == 0 and number > 0:
                    break
                try:
                    log.batch_at(position)
                except StorageError:
                    is_possible = relative >= 0 and position >= 0
                    if is_possible and truncation.explains(self._base_offset + relative, position=position):
                        tail.wrong(number)
                else:
                    tail.right()
        self._known_stale_begin = self._slots_count if tail.begin is None else tail.begin
        return self._known_stale_begin

    def _may_begin_epoch(self) -> bool:
        """Return True if a leader epoch may begin at the segment's base, by the epochs beside it."""
        from storage.log import EPOCHS_NAME, LeaderEpochs, may_begin_at

        directory, _ = self._files.parent(self._file.path)
        try:
            is_known = directory.status(EPOCHS_NAME) is not None
            return not is_known or may_begin_at(LeaderEpochs.load(directory).entries, self._base_offset)
        except (StorageError, OSError):
            return True

    def _is_trimmed(self) -> bool:
        last = self._file.read_at((self._slots_count - 1) * self.slot.size, self.slot.size)
        return any(last)

    def _mismatches(self) -> tuple[Mismatches, ...]:
        return (self._differing,)

    def _check(self) -> None:
        directory, name = self._files.parent(self._file.path)
        OffsetIndexReader.open(directory, name, self._base_offset, limit_bytes=self._limit_bytes).check()

    def _is_said_to_be_empty(self) -> bool:
        return self._slots_count == 0
