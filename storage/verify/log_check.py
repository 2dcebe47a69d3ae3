"""A `.log` file checked from its beginning to its end, damage or not.

Bytes after the last batch are damage too, except the zeros of a file that its broker has allocated in advance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from storage.errors import ChecksumError, CorruptBatchError, FramingError, MisplacedBatchError
from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.segment.scan import GappedScan, LogScan
from storage.verify.batch_check import CheckedBatch, check_batch
from storage.verify.finding import Finding, FindingKind, damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.files import ReadableFile
    from storage.record.reading import Batch
    from storage.segment.scan import Gap
    from storage.verify.finding import FindingList


class LogCheck:
    """The sound batches of a log up to `end`, in order; iterate over it once.

    `position` is after the last of them and `next_offset` above the highest. `claimed_offset` is where the log would
    end if the headers of damaged batches were right. `lost` are the offsets of the ranges that do not decode: from the
    first that is not known to be elsewhere up to the next that is, or None where nothing follows.

    `begins` are the position and the offset to go on from, where an earlier check of the log ended. `may_end_in_zeros`
    says that zeros after the last batch are those of a file allocated in advance.
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
        begins: tuple[int, int] | None = None,
    ) -> None:
        self.position, self.next_offset = begins or (0, base_offset)
        self.claimed_offset = self.next_offset
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
        self._last_good = None if self.next_offset == base_offset else self.next_offset - 1
        self._open: list[Finding] = []  # damage whose end is not known yet

    def __iter__(self) -> Iterator[CheckedBatch]:
        log = LogScan(self._file, start=self.position, end=self.end)
        scan = GappedScan(log, self.next_offset, end=self.end)
        while not scan.is_done:
            damaged: Batch | None = None
            try:
                for batch in scan:
                    self._advance(batch.size_bytes)
                    damaged = batch
                    checked = check_batch(batch)
                    damaged = None
                    self._take(checked)
                    yield checked
            except CorruptBatchError as error:
                scan.next_offset = self.next_offset
                gap = scan.gap_of(error, damaged)
                self._report_gap(gap)
                if damaged is not None and damaged.last_offset <= self._offset_max:
                    self.claimed_offset = max(self.claimed_offset, damaged.last_offset + 1)
                scan.resume(gap)
        self._settle(None)

    def _take(self, checked: CheckedBatch) -> None:
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

    def _report_gap(self, gap: Gap) -> None:
        if gap.end is None:
            self._report_tail(gap)
        elif gap.is_overrun:
            self._report(FindingKind.FRAMING, "the batch would overrun the file", gap.position, gap.end)
        else:
            self._report(kind_of(gap.error), gap.error.reason, gap.position, gap.end)

    def _report_tail(self, gap: Gap) -> None:
        size_bytes = self.end - gap.position
        self.damaged_ranges.append((gap.position, self.end))
        if not gap.is_unused:
            self._report(FindingKind.TORN_TAIL, gap.error.reason, gap.position, self.end)
        elif not self._may_end_in_zeros:
            self._report(FindingKind.ZERO_TAIL, f"{size_bytes} zeros follow the last batch", gap.position, self.end)
        self._advance(size_bytes)

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


def kind_of(error: CorruptBatchError) -> FindingKind:
    """Return the kind of the finding that reports an error."""
    if isinstance(error, ChecksumError):
        return FindingKind.CHECKSUM
    if isinstance(error, MisplacedBatchError):
        return FindingKind.OFFSETS
    return FindingKind.FRAMING if isinstance(error, FramingError) else FindingKind.RECORDS
