"""The leader epochs of a replica's batches, which no checksum covers.

They ascend in every log. Where some contradict others, those of the fewer batches are taken for flipped bits. If
both are as many, the batches that go on with the epoch before them are believed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.log.epoch_entries import EpochStart
from storage.record.layout import NO_LEADER_EPOCH

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from storage.record.reading import Batch


class OddEpoch(NamedTuple):
    """Batches in a part of a file that have an `epoch` where that of the others is `epoch_there`."""

    name: str
    begin: int
    end: int
    epoch: int
    epoch_there: int


_FIRSTS_MAX: Final = 4


@dataclass(slots=True)
class _Span:
    """Batches of one epoch, one after another; `places` are the parts of files that they lie in.

    `firsts` are the first few: file, position and offset.
    """

    epoch: int
    first_offset: int
    firsts: list[tuple[str, int, int]]
    next_offset: int = 0
    count: int = 0
    places: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, other: _Span) -> None:
        """Add the batches that follow."""
        self.next_offset = other.next_offset
        self.count += other.count
        self.firsts += other.firsts[: _FIRSTS_MAX - len(self.firsts)]
        for name, begin, end in other.places:
            if self.places and self.places[-1][0] == name:
                self.places[-1] = (name, self.places[-1][1], end)
            else:
                self.places.append((name, begin, end))


class EpochOrder:
    """The epochs of the batches that are added in the order of the log."""

    def __init__(self) -> None:
        self._known: list[_Span] = []
        self._doubtful: list[_Span] = []  # ascending, and below the last known one
        self._odd: list[_Span] = []

    @property
    def last_epoch(self) -> int:
        """The last batch's epoch, -1 if none has any."""
        return self._known[-1].epoch if self._known else NO_LEADER_EPOCH

    def add(self, batch: Batch, name: str) -> None:
        """Add the next batch, of the file of that name."""
        epoch = batch.leader_epoch
        if epoch == NO_LEADER_EPOCH:
            return
        end = batch.position + batch.size_bytes
        if self._known and not self._doubtful and epoch == self._known[-1].epoch:
            last = self._known[-1]
            if last.places[-1][0] == name:  # the usual case, which makes nothing
                last.next_offset = batch.last_offset + 1
                last.count += 1
                if len(last.firsts) < _FIRSTS_MAX:
                    last.firsts.append((name, batch.position, batch.base_offset))
                last.places[-1] = (name, last.places[-1][1], end)
                return
        first = (name, batch.position, batch.base_offset)
        self._add(_Span(epoch, batch.base_offset, [first], batch.last_offset + 1, 1, [(name, batch.position, end)]))

    def _add(self, span: _Span) -> None:
        if span.epoch < 0:
            self._odd.append(span)
        elif not self._known or span.epoch >= self._known[-1].epoch:
            if self._doubtful and self._doubts() == self._contradicted() and self._is_going_on():
                self._believe_doubtful()
            self._odd += self._doubtful
            self._doubtful = []
            _extend(self._known, span)
        elif not self._doubtful or span.epoch >= self._doubtful[-1].epoch:
            _extend(self._doubtful, span)
            if self._doubts() > self._contradicted():
                self._believe_doubtful()
        else:
            self._odd.append(span)

    def _doubts(self) -> int:
        return sum(each.count for each in self._doubtful)

    def _contradicted(self) -> int:
        """Return the number of batches whose epochs are above the first doubtful one."""
        return sum(each.count for each in self._known if each.epoch > self._doubtful[0].epoch)

    def _is_going_on(self) -> bool:
        """Return True if the first doubtful epoch is that of the batches before the contradicted ones."""
        return any(each.epoch == self._doubtful[0].epoch for each in self._known)

    def _believe_doubtful(self) -> None:
        while self._known and self._known[-1].epoch > self._doubtful[0].epoch:
            self._odd.append(self._known.pop())
        for span in self._doubtful:
            _extend(self._known, span)
        self._doubtful = []

    def settle(self, left_out: Collection[tuple[str, int, int]]) -> None:
        """Decide about the last batches, when all were added: where as many contradict one another, for the lower.

        No epoch begins with a batch in one of the places that were left out.
        """
        if self._doubtful and self._doubts() == self._contradicted():
            self._believe_doubtful()
        self._odd += self._doubtful
        self._doubtful = []
        if left_out:
            for span in self._known:
                kept = [offset for name, position, offset in span.firsts if not _is_in(left_out, name, position)]
                span.first_offset = kept[0] if kept else span.first_offset

    def starts(self, checkpoint: Iterable[EpochStart]) -> tuple[EpochStart, ...]:
        """Return where the epochs begin, by the batches and those entries of a checkpoint that no batch contradicts.

        Its entries say more where batches are gone.
        """
        starts = {each.epoch: each.first_offset for each in self._known}
        for epoch, offset in checkpoint:
            lower = max((each.next_offset for each in self._known if each.epoch < epoch), default=0)
            upper = min((each.first_offset for each in self._known if each.epoch >= epoch), default=-1)
            if lower <= offset <= upper:
                starts[epoch] = offset
        return tuple(EpochStart(epoch, offset) for epoch, offset in sorted(starts.items()))

    def odd(self, starts: Iterable[EpochStart]) -> tuple[OddEpoch, ...]:
        """Return the batches whose epochs are not those that begin there, by file and position."""
        found = []
        entries = list(starts)
        for span in self._odd:
            there = [each.epoch for each in entries if each.offset <= span.first_offset]
            there = there or [each.epoch for each in entries[:1]] or [NO_LEADER_EPOCH]
            found += [OddEpoch(*place, span.epoch, there[-1]) for place in span.places]
        return tuple(sorted(found))


def _is_in(places: Iterable[tuple[str, int, int]], name: str, position: int) -> bool:
    return any(file == name and begin <= position < end for file, begin, end in places)


def _extend(spans: list[_Span], span: _Span) -> None:
    if spans and spans[-1].epoch == span.epoch:
        spans[-1].add(span)
    else:
        spans.append(span)
