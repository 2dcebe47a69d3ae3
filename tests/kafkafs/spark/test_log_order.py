"""The gaps of a log are the same for every cut into splits, and those of one pass over all of it."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkafs.spark.jobs import log_order
from kafkafs.spark.jobs.gap_kinds import Gap, GapKind
from kafkafs.spark.jobs.log_order import LogOrder, Stretch
from storage.errors import CorruptBatchError
from storage.record.columns import read_columns
from storage.record.encoding import BatchForm, batches_of_rows
from storage.record.layout import LAST_SEQUENCE
from storage.record.reading import read_batches
from storage.split.batches import TIME_COLUMNS, BatchRun

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG_NAME = "00000000000000000000.log"
NO_PRODUCER = (-1, -1)


class Written(NamedTuple):
    """A batch: its first offset, the times of its records, and its producer, epoch and first sequence."""

    offset: int
    times: tuple[int, ...] = (0,)
    producer: tuple[int, int] = NO_PRODUCER
    sequence: int = -1
    is_damaged: bool = False

    @property
    def end_offset(self) -> int:
        return self.offset + len(self.times)

    def run(self, position: int) -> BatchRun:
        form = BatchForm(producer_id=self.producer[0], producer_epoch=self.producer[1], base_sequence=self.sequence)
        rows = [(time, None, b"", ()) for time in self.times]
        (data,) = batches_of_rows(rows, base_offset=self.offset, form=form)
        times = list(read_columns(data, origin=position, columns=TIME_COLUMNS))
        return BatchRun(LOG_NAME, list(read_batches(data, origin=position)), times)


def looked_at(stretches: Sequence[Sequence[tuple[int, Written]]], start: int, end: int, threshold_ms: int) -> list[Gap]:
    """What is found, stretch by stretch; each batch comes with its position."""
    order = LogOrder(start_offset=start, threshold_ms=threshold_ms)
    found: list[Gap] = []
    for number, batches in enumerate(stretches):
        stretch = Stretch(start_offset=0 if number else start, threshold_ms=threshold_ms)
        for position, batch in batches:
            if batch.is_damaged:
                stretch.lose(CorruptBatchError("it is damaged", path=f"/t-0/{LOG_NAME}", position=position))
            else:
                found += stretch.add(batch.run(position))
        found += order.add(stretch.ends)
    return sorted([*found, *order.finish(end)], key=repr)


def found_in(*batches: Written, start: int = 0, end: int | None = None, threshold_ms: int = 0) -> list[Gap]:
    placed = [(position * 100, batch) for position, batch in enumerate(batches)]
    return looked_at([placed], start, batches[-1].end_offset if end is None else end, threshold_ms)


def seen_at_once(batches: Sequence[Written], end: int, threshold_ms: int) -> list[tuple[object, ...]]:
    """The kinds, first offsets and counts, by the simplest means: no stretch, no vector, and nothing kept twice."""
    found: list[tuple[object, ...]] = []
    steps: list[tuple[int, int]] = []
    sound: list[Written] = []  # since the last damage
    lost, lost_from = 0, None
    for batch in batches:
        if batch.is_damaged:
            if not lost:
                lost_from = sound[-1].end_offset if sound else 0
            lost += 1
            sound.clear()
            continue
        found += [(GapKind.DAMAGE, lost_from, None if lost_from is None else max(batch.offset - lost_from, 0))] * lost
        due = sound[-1].end_offset if sound else batch.offset if lost else 0
        found += between(due, batch.offset)
        found += sequence_of(batch, [each for each in sound if each.producer == batch.producer])
        times = [*(time for each in sound[-1:] for time in each.times[-1:]), *batch.times]
        steps += [
            (before - after, offset)
            for offset, (before, after) in enumerate(pairwise(times), batch.end_offset - len(times) + 1)
            if before - after > threshold_ms
        ]
        sound.append(batch)
        lost = 0
    if lost:
        found += [(GapKind.DAMAGE, lost_from, None if lost_from is None else max(end - lost_from, 0))] * lost
    else:
        found += [gap for gap in between(batches[-1].end_offset, end) if gap[0] is GapKind.HOLE]
    if steps:
        largest = max(step for step, _ in steps)
        found.append((GapKind.TIME_REGRESSION, next(at for step, at in steps if step == largest), len(steps)))
    return sorted(found, key=repr)


def between(due: int, offset: int) -> list[tuple[object, ...]]:
    if offset == due:
        return []
    return [(GapKind.HOLE, due, offset - due) if offset > due else (GapKind.DUPLICATE, offset, due - offset)]


def sequence_of(batch: Written, earlier: Sequence[Written]) -> list[tuple[object, ...]]:
    if batch.sequence < 0 or not earlier:
        return []
    expected = earlier[-1].sequence + len(earlier[-1].times)
    ahead, behind = (batch.sequence - expected) % 2**31, (expected - batch.sequence) % 2**31
    if not ahead:
        return []
    kind = GapKind.SEQUENCE_GAP if ahead < behind else GapKind.SEQUENCE_DUPLICATE
    return [(kind, batch.offset, min(ahead, behind))]


def some_log(rng: random.Random) -> list[Written]:
    batches: list[Written] = []
    offset, time = rng.choice([0, 0, 5]), 1000
    sequences = {(producer, epoch): rng.choice([0, LAST_SEQUENCE - 3]) for producer in range(3) for epoch in range(2)}
    for _ in range(rng.randrange(1, 25)):
        times = []
        for _ in range(rng.randrange(1, 5)):
            time += rng.choice([1, 1, 1, 5, 0, -3, -40])
            times.append(max(time, 0))
        producer = rng.choice([NO_PRODUCER, *sequences])
        sequence = -1
        if producer != NO_PRODUCER:
            sequence = (sequences[producer] + rng.choice([0] * 6 + [2, -2])) % 2**31
            sequences[producer] = (sequence + len(times)) % 2**31
        batches.append(Written(offset, tuple(times), producer, sequence, is_damaged=rng.random() < 0.1))
        offset = max(batches[-1].end_offset + rng.choice([0] * 6 + [3, -2]), 0)
    return batches


@pytest.mark.parametrize("threshold_ms", [0, 10])
def test_wherever_a_log_is_cut_the_same_is_found(threshold_ms: int) -> None:
    rng = random.Random(threshold_ms)
    kinds = set()
    for _ in range(150):
        batches = some_log(rng)
        end = batches[-1].end_offset + rng.choice([0, 0, 7])
        placed = [(position * 100, batch) for position, batch in enumerate(batches)]
        whole = looked_at([placed], 0, end, threshold_ms)
        assert sorted([(gap.kind, gap.first_offset, gap.extent) for gap in whole], key=repr) == seen_at_once(
            batches, end, threshold_ms
        )
        kinds |= {gap.kind for gap in whole}
        for _ in range(3):
            cuts = [0, *sorted(rng.choices(range(len(placed) + 1), k=rng.randrange(1, 6))), len(placed)]
            pieces = [placed[begin:behind] for begin, behind in pairwise(cuts)]
            assert looked_at(pieces, 0, end, threshold_ms) == whole
    assert kinds == set(GapKind)


def test_a_log_may_begin_within_a_batch() -> None:
    batch = Written(10, (9, 8, 7, 6))
    assert found_in(batch, Written(14, (7,)), start=13) == []
    (regression,) = found_in(batch, start=12)
    assert (regression.kind, regression.first_offset, regression.extent) == (GapKind.TIME_REGRESSION, 13, 1)
    (hole,) = found_in(Written(10), start=7)
    assert (hole.kind, hole.first_offset, hole.last_offset, hole.extent) == (GapKind.HOLE, 7, 9, 3)


def test_sequences_begin_again_with_each_epoch_and_wrap_after_the_last() -> None:
    last = LAST_SEQUENCE
    assert found_in(Written(0, (0,) * 3, (7, 0), last - 1), Written(3, (0,), (7, 0), 1)) == []
    assert found_in(Written(0, (0,), (7, 0), 41), Written(1, (0,), (7, 1), 0), Written(2, (0,), (7, 1), 1)) == []
    (gap,) = found_in(Written(0, (0,), (7, 0), last), Written(1, (0,), (7, 0), 2))
    assert (gap.kind, gap.extent, gap.sequence, gap.expected_sequence) == (GapKind.SEQUENCE_GAP, 2, 2, 0)
    (again,) = found_in(Written(0, (0,), (7, 0), 0), Written(1, (0,), (7, 0), 0))
    assert (again.kind, again.extent, again.producer_id, again.producer_epoch) == (GapKind.SEQUENCE_DUPLICATE, 1, 7, 0)
    assert (again.place.position, again.place.log_name) == (100, LOG_NAME)


def test_producers_that_were_silent_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_order, "PRODUCERS_MAX", 2)
    batches = [Written(offset, (0,), (producer, 0), 5) for offset, producer in enumerate((1, 2, 1, 3, 2, 1))]
    placed = [[(offset * 100, batch)] for offset, batch in enumerate(batches)]
    found = looked_at(placed, 0, len(batches), 0)
    assert [(gap.producer_id, gap.first_offset) for gap in found] == [(1, 2)]
