"""The changes that recovery made in a log's directory, step by step, for operators who have to trust the log.

A step names every file that changed, except the indexes of a dropped or split segment, which share the step of its log.
Without a step no file changed.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log.epoch_entries import EpochStart


class Repair(Enum):
    """The repair of a file or a segment."""

    REMOVED = "removed"  # a file that a crash had left, or whose segment is gone
    RENAMED = "renamed"  # a file whose renaming the crash had prevented
    CUT = "cut"  # the end of a log, from the first bytes that cannot be kept
    DROPPED = "dropped"  # a segment after a cut, or before the log's start
    REBUILT = "rebuilt"  # a file that was missing or did not match the log
    TRIMMED = "trimmed"  # an index whose unused end is cut off
    ADDED = "added"  # a producer snapshot
    SPLIT = "split"  # a segment with more offsets than an index can hold


class Step(NamedTuple):
    """One repair: of the file called `name`, and why.

    `lost_bytes` of a log are batches, or bytes in their place, from `position` and the record offset `offset` on.
    Where sound batches are among them, `next_good_offset` is the base offset of the first.
    """

    repair: Repair
    name: str
    reason: str
    lost_bytes: int = 0
    position: int | None = None
    offset: int | None = None
    next_good_offset: int | None = None


class FoundLog(NamedTuple):
    """The contents of a sound directory, so that opening its log need not read it again.

    `bases` are the base offsets of its segments, `snapshots` the offsets of its producer snapshots, both ascending.
    """

    bases: tuple[int, ...] = ()
    end_offset: int = 0
    snapshots: tuple[int, ...] = ()
    epochs: Sequence[EpochStart] = ()


class RecoveryReport:
    """The steps in their order, the amount read for them, and the log's bounds after all of them.

    `trusted_segments` counts the segments of a log not closed properly that were not read, because its recovery point
    says that they are on disk. `found` is what the directory holds now.
    """

    def __init__(self, steps: list[Step] | None = None) -> None:
        self.steps: list[Step] = [] if steps is None else steps
        self.trusted_segments = 0
        self.scanned_segments = 0
        self.scanned_bytes = 0
        self.start_offset = 0
        self.end_offset = 0
        self.found = FoundLog()

    @property
    def lost_bytes(self) -> int:
        """The bytes of the logs that were cut or dropped."""
        return sum(step.lost_bytes for step in self.steps)

    @property
    def lost_from_offset(self) -> int | None:
        """The base offset of the first sound batch that was cut or dropped after damage; None if there is none."""
        return min((step.next_good_offset for step in self.steps if step.next_good_offset is not None), default=None)

    def summary(self) -> str:
        """Return the report in one line."""
        counts = ((repair, sum(step.repair is repair for step in self.steps)) for repair in Repair)
        done = ", ".join(f"{count} {repair.value}" for repair, count in counts if count) or "nothing to repair"
        lost = f", {self.lost_bytes} bytes of logs lost" if self.lost_bytes else ""
        if self.lost_from_offset is not None:
            lost += f", whole batches from offset {self.lost_from_offset} on among them"
        bounds = offsets_text(self.start_offset, self.end_offset)
        return f"{done}{lost}; {self.scanned_segments} segments read, {self.scanned_bytes} bytes; {bounds}"
