"""A `.log` file looked through from its beginning to its end, whatever is in between.

Where a batch is damaged the look goes on at the next one: where the damaged batch ends by its own word if a batch
begins there, or else at the first place where a sound one does. What lies behind the last batch is damage too, with
one exception: the zeros of a file that its broker has allocated in advance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from storage.errors import ChecksumError, CorruptBatchError, FramingError
from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.segment.index.zero_tail import is_zero
from storage.segment.log_file import LogScan
from storage.segment.sound_batch_search import find_sound_batch, position_behind
from storage.verify.batch_check import CheckedBatch, check_batch
from storage.verify.finding import Finding, FindingKind, damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.files import ReadableFile
    from storage.verify.finding import FindingList


class LogCheck:
    """The sound batches of a log up to `end`, in order; iterate over it once.

    `position` is behind the last of them and `next_offset` above the highest. `claimed_offset` is where the log would
    end if the headers of damaged batches were right. `lost` are the offsets of the ranges that do not decode: from the
    first that is not known to be elsewhere up to the next that is, or None where nothing follows.

    `may_end_in_zeros` says that zeros behind the last batch are those of a file allocated in advance.
    """

    def __init__(
        self,
        file: ReadableFile,
        base_offset: int,
        findings: FindingList,
        *,
        name: str,
        end: int,
        may_end_in_zeros: bool,
        advance: Callable[[int], None],
    ) -> None:
        self.position = 0
        self.next_offset = self.claimed_offset = base_offset
        self.lost: list[tuple[int, int | None]] = []
        self.damaged_ranges: list[tuple[int, int]] = []
        self.end = end
        self._file = file
        self._base_offset = base_offset
        self._offset_max = base_offset + LARGEST_OFFSET_DELTA
        self._findings = findings
        self._name = name
        self._may_end_in_zeros = may_end_in_zeros
        self._advance = advance
        self._last_good: int | None = None
        self._open: list[Finding] = []  # damage of which it is not known yet what follows

    def __iter__(self) -> Iterator[CheckedBatch]:
        position: int | None = 0
        while position is not None and position < self.end:
            scan = LogScan(self._file, start=position, end=self.end)
            position = None
            try:
                for batch in scan:
                    self._advance(batch.size_bytes)
                    try:
                        checked = check_batch(batch)
                    except CorruptBatchError as error:
                        position = self._behind(error, batch.position, batch.position + batch.size_bytes)
                        if batch.last_offset <= self._offset_max:
                            self.claimed_offset = max(self.claimed_offset, batch.last_offset + 1)
                        break
                    self._place(checked)
                    yield checked
                else:
                    position = self._behind_tail(scan)
            except FramingError as error:
                position = self._behind(error, scan.position, None)
        self._settle(None)

    def _place(self, checked: CheckedBatch) -> None:
        """Take a sound batch into account, which may be out of place."""
        batch, first_offset, last_offset = checked.batch, checked.first_offset, checked.batch.last_offset
        if self._open:
            self._settle(first_offset)
        self.position = batch.position + batch.size_bytes
        if not self.next_offset <= first_offset <= last_offset <= self._offset_max:
            self._findings.add(
                damage(
                    FindingKind.OFFSETS,
                    self._name,
                    f"the batch has the offsets from {first_offset} to {last_offset}, where {self.next_offset} or more "
                    f"is due, and no more than {self._offset_max}",
                    position=batch.position,
                    end_position=self.position,
                    offset=first_offset,
                )
            )
        if last_offset <= self._offset_max:
            if last_offset >= self.next_offset:
                self.next_offset = last_offset + 1
            if self.next_offset > self.claimed_offset:
                self.claimed_offset = self.next_offset
            self._last_good = last_offset

    def _behind(self, error: CorruptBatchError, start: int, own_end: int | None) -> int | None:
        """Where to go on behind a batch that is damaged; its own end is known if it is framed."""
        position = position_behind(
            self._file, start, own_end, self.end, base_offset=self._base_offset, next_offset=self.next_offset
        )
        if position is None:
            self._report_tail(start, error.reason)
        else:
            self._report(_kind_of(error), error.reason, start, position)
        return position

    def _behind_tail(self, scan: LogScan) -> int | None:
        """Where to go on behind bytes that hold no whole batch."""
        if scan.trailing_bytes == 0:
            return None
        found = find_sound_batch(
            self._file, scan.position + 1, self.end, base_offset=self._base_offset, next_offset=self.next_offset
        )
        reason = f"{scan.end - scan.position} bytes follow the last whole batch"
        if found is None:
            self._report_tail(scan.position, reason)
        else:
            self._report(FindingKind.FRAMING, "the batch would overrun the file", scan.position, found)
        return found

    def _report_tail(self, start: int, reason: str) -> None:
        self.damaged_ranges.append((start, self.end))
        if not is_zero(self._file, start, self.end):
            self._report(FindingKind.TORN_TAIL, reason, start, self.end)
        elif not self._may_end_in_zeros:
            size_bytes = self.end - start
            self._report(FindingKind.ZERO_TAIL, f"{size_bytes} zeros follow the last batch", start, self.end)
        self._advance(self.end - start)

    def _report(self, kind: FindingKind, reason: str, start: int, end: int) -> None:
        self.damaged_ranges.append((start, end))
        self._open.append(
            damage(
                kind,
                self._name,
                reason,
                position=start,
                end_position=end,
                offset=self.next_offset,
                last_good_offset=self._last_good,
            )
        )

    def _settle(self, next_good: int | None) -> None:
        """Report the damage before a sound batch, or before the end."""
        if self._open:
            self.lost.append((self.next_offset, next_good))
        for finding in self._open:
            self._findings.add(replace(finding, next_good_offset=next_good))
        self._open.clear()


def _kind_of(error: CorruptBatchError) -> FindingKind:
    if isinstance(error, ChecksumError):
        return FindingKind.CHECKSUM
    return FindingKind.FRAMING if isinstance(error, FramingError) else FindingKind.RECORDS
