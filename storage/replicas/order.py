"""The sound batches of a replica in the order of their offsets, which no checksum covers.

A flipped bit moves a batch far up or down, and then it contradicts those around it. Where batches contradict one
another, the fewest are left out that leave the others ascending. Of as few on both sides the offsets tell which are
likelier to be wrong, if they do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAIL_MAX: Final = 16
"""How many batches at the end of a run may turn out to be too high: flipped bits move one batch at a time."""


class Run(NamedTuple):
    """Sound batches one after another in a file, with offsets from `first_offset` up to `next_offset`."""

    name: str
    base_offset: int  # of the segment
    begin: int
    end: int
    first_offset: int
    next_offset: int


class Damage(NamedTuple):
    """Bytes of a file that are no sound batch in its place. `offset` is the one due there.

    `end` is None where the file cannot be read any further, or is missing.
    """

    name: str
    position: int
    end: int | None
    offset: int
    kind: FindingKind
    reason: str


class LostOffsets(NamedTuple):
    """Offsets that the log lacks, up to `end`, or without one all from `begin` on that there were."""

    begin: int
    end: int | None


class _Taken(NamedTuple):
    """The place of a batch."""

    position: int
    first_offset: int
    next_offset: int


@dataclass(slots=True)
class _OpenRun:
    """A run, the last of its batches, and how many of the first ones lie below the run before it.

    `rest` is the first batch that does not.
    """

    name: str
    base_offset: int
    begin: int
    first_offset: int
    end: int = 0
    next_offset: int = 0
    count: int = 0
    tail: deque[_Taken] = field(default_factory=lambda: deque(maxlen=_TAIL_MAX))
    low: int = 0
    rest: _Taken | None = None

    def add(self, batch: _Taken, end: int, floor: int) -> None:
        """Add the next batch. All that is before the run ends at the floor."""
        if self.rest is None:
            if batch.first_offset < floor:
                self.low += 1
            else:
                self.rest = batch
        self.tail.append(batch)
        self.count += 1
        self.end, self.next_offset = end, batch.next_offset

    def closed(self) -> Run:
        """Return the run."""
        return Run(self.name, self.base_offset, self.begin, self.end, self.first_offset, self.next_offset)


class RunOrder:
    """The runs of a replica, to which sound batches are added in the order of the files.

    `damages` are for the caller to add to; those of batches that contradict others come among them. `left_out` has
    the places of those.
    """

    def __init__(self) -> None:
        self.damages: list[Damage] = []
        self.left_out: list[tuple[str, int, int]] = []
        self._start_offset = 0
        self._runs: list[_OpenRun] = []
        self._open: _OpenRun | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The closed runs."""
        return tuple(each.closed() for each in self._runs)

    @property
    def is_open(self) -> bool:
        """True if a run is under way."""
        return self._open is not None

    @property
    def due_offset(self) -> int:
        """The offset after the last batch."""
        return self._floor if self._open is None else self._open.next_offset

    @property
    def surely_due_offset(self) -> int:
        """The offset after the batch before the last, whose own may be too high."""
        runs = self._runs if self._open is None else [*self._runs[-1:], self._open]
        if runs and runs[-1].count > 1:
            return runs[-1].tail[-2].next_offset
        return max(runs[-2].next_offset if len(runs) > 1 else 0, self._start_offset)

    @property
    def _floor(self) -> int:
        return max(self._runs[-1].next_offset if self._runs else 0, self._start_offset)

    def go_on_at(self, offset: int) -> None:
        """Take the offset, which is above all so far, for the one that is due: a segment begins there."""
        self._start_offset = offset

    def add(self, segment: tuple[str, int], position: int, end: int, first_offset: int, next_offset: int) -> None:
        """Add the next batch of a segment, which is given by the name of its file and its base offset."""
        if self._open is None or first_offset < self._open.next_offset:
            self.close()
            self._open = _OpenRun(*segment, position, first_offset)
        self._open.add(_Taken(position, first_offset, next_offset), end, self._floor)

    def close(self) -> None:
        """End the run under way: what follows is another file, or comes after damage."""
        run, self._open = self._open, None
        if run is None:
            return
        if run.low:
            self._settle(run)
        if run.count:
            self._runs.append(run)

    def _settle(self, run: _OpenRun) -> None:
        """Leave out the end of the runs so far, or the beginning of this one."""
        high, due_offset = self._too_high(run)
        if high and (len(high) < run.low or (len(high) == run.low and _is_too_high(run, high, due_offset))):
            for before, batch in high:
                self._leave_out_last(before, batch)
            return
        end = run.end if run.rest is None else run.rest.position
        self._note(run.name, run.begin, end, self._floor, run.low)
        run.count -= run.low
        if run.rest is not None:
            run.begin, run.first_offset = run.rest.position, run.rest.first_offset

    def _too_high(self, run: _OpenRun) -> tuple[list[tuple[_OpenRun, _Taken]], int]:
        """Return the batches so far that do not end before this run, the last first, and the offset due before them.

        None are returned if they are many.
        """
        found: list[tuple[_OpenRun, _Taken]] = []
        for before, batch in self._backwards():
            if batch is None or len(found) > run.low:
                return [], 0
            if batch.next_offset <= run.first_offset:
                return found, batch.next_offset
            found.append((before, batch))
        return found, self._start_offset

    def _backwards(self) -> Iterator[tuple[_OpenRun, _Taken | None]]:
        """Yield the batches so far, the last first, and None in place of those that were not kept."""
        for before in reversed(self._runs):
            for batch in reversed(before.tail):
                yield before, batch
            if before.count > len(before.tail):
                yield before, None

    def _leave_out_last(self, run: _OpenRun, batch: _Taken) -> None:
        end = run.end
        run.tail.pop()
        run.count -= 1
        if run.count:
            run.end, run.next_offset = batch.position, run.tail[-1].next_offset
        else:
            self._runs.remove(run)
        self._note(run.name, batch.position, end, self._floor, 1)

    def _note(self, name: str, position: int, end: int, offset: int, count: int) -> None:
        what = "the batch has offsets" if count == 1 else f"{count} batches have offsets"
        reason = f"{what} that contradict those around"
        self.damages.append(Damage(name, position, end, offset, FindingKind.OFFSETS, reason))
        self.left_out.append((name, position, end))


def _is_too_high(run: _OpenRun, high: list[tuple[_OpenRun, _Taken]], due_offset: int) -> bool:
    """Return True if of as many batches on both sides those before the run are likelier to be wrong.

    If one flipped bit keeps the run from following on them, it was theirs if without it they are not too low.
    Otherwise they are wrong if they follow on a gap.
    """
    first_offset = high[-1][1].first_offset
    bit = run.first_offset ^ high[0][1].next_offset
    if bit.bit_count() == 1:
        return bool(first_offset & bit) and first_offset ^ bit >= due_offset
    return first_offset > due_offset
