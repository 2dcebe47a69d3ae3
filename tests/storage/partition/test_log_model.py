"""The log against the model: whatever is done to both, every question has the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage.partition.view import SpecialTimestamp
from storage.testing.logs import NOW_MS, SETTINGS, LogOnMemory, sent
from storage.testing.model import ModelBatch, ModelLog

if TYPE_CHECKING:
    from storage.record import Record

SEGMENT_MS = 10_000

pytestmark = pytest.mark.property

timestamps = st.integers(NOW_MS - 3000, NOW_MS + 3000)
rows = st.lists(st.tuples(timestamps, st.binary(max_size=200)), min_size=1, max_size=8)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lab = LogOnMemory({**SETTINGS, "segment.ms": str(SEGMENT_MS)})
        self.model = ModelLog(4096, SEGMENT_MS)
        self.shift = 0

    @rule(rows=rows)
    def append(self, rows: list[tuple[int, bytes]]) -> None:
        rows = [(timestamp + self.shift, value) for timestamp, value in rows]
        data = sent(rows)
        appended = self.lab.log.append_as_leader(data, leader_epoch=3)
        expected = self.model.append(rows, len(data))
        assert (appended.first_offset, appended.last_offset) == (expected.first_offset, expected.last_offset)

    @rule(milliseconds=st.integers(0, SEGMENT_MS))
    def later(self, milliseconds: int) -> None:
        self.shift += milliseconds

    @rule()
    def roll(self) -> None:
        self.lab.log.roll()
        self.model.roll()

    @rule()
    def background(self) -> None:
        self.lab.run_tasks()

    @rule()
    def flush(self) -> None:
        self.lab.log.flush()
        assert self.lab.log.recovery_point == self.model.end_offset

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        first = self.model.bases[0]
        offset = first + int(share * (self.model.end_offset - first))
        self.lab.log.truncate_to(offset)
        self.model.truncate_to(offset)

    @rule(share=st.floats(0, 1))
    def advance_start(self, share: float) -> None:
        start, end = self.model.start_offset, self.model.end_offset
        offset = start + int(share * (end - start) / 4)
        self.lab.log.advance_start(offset)
        self.model.advance_start(offset)

    @rule()
    def reopen(self) -> None:
        self.lab.log.close()
        self.lab.open(self.model.start_offset)
        # A truncation into a batch leaves a gap at the end, which only lasts while the log is open.
        last = self.model.segments[-1]
        end_offset = last.batches[-1].last_offset + 1 if last.batches else last.base_offset
        self.model.end_offset = max(end_offset, self.model.start_offset)

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 6000))
    def read(self, share: float, max_bytes: int) -> None:
        start, end = self.model.start_offset, self.model.end_offset
        offset = start + int(share * (end - start))
        found = self.lab.log.read(offset, max_bytes=max_bytes)
        expected = self.model.read(offset, max_bytes)
        assert [(batch.base_offset, batch.last_offset) for batch in found.batches] == [
            (batch.first_offset, batch.last_offset) for batch in expected
        ]
        assert [record_of(record) for batch in found.batches for record in batch.records()] == records_of(expected)

    @rule(timestamp=timestamps, is_known=st.booleans(), nudge=st.integers(-1, 1), data=st.data())
    def find_timestamp(self, timestamp: int, is_known: bool, nudge: int, data: st.DataObject) -> None:
        known = [record.timestamp for batch in self.model.batches for record in batch.records]
        if is_known and known:
            timestamp = data.draw(st.sampled_from(known)) + nudge
        found = self.lab.log.find_timestamp(timestamp)
        expected = self.model.find_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @rule()
    def find_special(self) -> None:
        log = self.lab.log
        assert log.find_timestamp(SpecialTimestamp.LATEST) == (self.model.end_offset, -1, -1)
        assert log.find_timestamp(SpecialTimestamp.EARLIEST) == (self.model.start_offset, -1, -1)
        assert log.find_timestamp(SpecialTimestamp.EARLIEST_LOCAL) == (self.model.start_offset, -1, -1)
        assert log.find_timestamp(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)
        found, expected = log.find_timestamp(SpecialTimestamp.LARGEST), self.model.find_largest_timestamp()
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @invariant()
    def bounds_and_segments_are_the_same(self) -> None:
        view = self.lab.log.view
        assert (view.start_offset, view.end_offset) == (self.model.start_offset, self.model.end_offset)
        assert view.bases == self.model.bases
        sizes = [segment.size_bytes for segment in view.segments]
        assert sizes == [segment.size_bytes for segment in self.model.segments]


def record_of(record: Record) -> tuple[int, int, bytes | None]:
    return record.offset, record.timestamp, record.value


def records_of(batches: list[ModelBatch]) -> list[tuple[int, int, bytes]]:
    return [tuple(record) for batch in batches for record in batch.records]


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
