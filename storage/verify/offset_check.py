"""The offsets of a log from segment to segment: nothing twice, and nothing missing that was not compacted away.

Within a segment it is for the check of its log to say whether offsets rise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.verify.finding import Finding, FindingKind, damage

if TYPE_CHECKING:
    from storage.verify.batch_check import CheckedBatch
    from storage.verify.finding_list import FindingList


class OffsetCheck:
    """The offsets of sound batches, in the order of the log; `next_offset` is the one behind the highest.

    A leader leaves no gap, so one is damage in a log of which nothing was compacted: neither does anybody say so, nor
    has any batch lost records that it was written with.
    """

    def __init__(self, findings: FindingList, *, is_compacted: bool) -> None:
        self.next_offset = 0
        self._findings = findings
        self._is_compacted = is_compacted
        self._gaps: list[Finding] = []
        self._name = ""
        self._is_lost = True  # whether what comes next need not follow on anything

    def begin(self, base_offset: int, name: str) -> None:
        """The next segment, and the name of its log."""
        self._name = name
        if base_offset < self.next_offset:
            self._findings.add(
                damage(
                    FindingKind.OFFSETS,
                    name,
                    f"the segment begins at {base_offset}, and the one before it reaches up to {self.next_offset}",
                    position=0,
                    offset=base_offset,
                )
            )
        self._follow(base_offset, 0)
        self.next_offset = max(self.next_offset, base_offset)
        self._is_lost = False

    def add(self, checked: CheckedBatch) -> None:
        """The next sound batch."""
        if checked.first_offset != self.next_offset:
            self._follow(checked.first_offset, checked.batch.position)
        self._is_lost = False
        if not checked.is_gapless:
            self._is_compacted = True
        last_offset = checked.batch.last_offset
        if last_offset >= self.next_offset:
            self.next_offset = last_offset + 1

    def lose(self) -> None:
        """What was behind the last batch is not known."""
        self._is_lost = True

    def report(self) -> None:
        """Report the gaps, unless there are reasons for them."""
        if not self._is_compacted:
            for gap in self._gaps:
                self._findings.add(gap)

    def _follow(self, offset: int, position: int) -> None:
        if offset > self.next_offset and not self._is_lost and not self._is_compacted:
            self._gaps.append(
                damage(
                    FindingKind.OFFSET_GAP,
                    self._name,
                    f"the offsets from {self.next_offset} up to {offset} are missing, and nothing shows that the log "
                    "was compacted",
                    position=position,
                    offset=self.next_offset,
                    last_good_offset=self.next_offset - 1,
                    next_good_offset=offset,
                )
            )
