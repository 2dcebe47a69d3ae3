"""A log that is followed against the one that its writer has: both are the same after any changes between two looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from memory_logs import DIRECTORY, NOW_MS, SETTINGS, LogOnMemory, sent

from storage.log.followed_log import FollowedLog
from storage.log.producers.state import AppendOrigin
from storage.log.view import Isolation, SpecialTimestamp
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, marker_batch
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.log.view import LogView
    from storage.record import Batch

pytestmark = pytest.mark.property

timestamps = st.integers(NOW_MS - 3000, NOW_MS + 3000)
rows = st.lists(st.tuples(timestamps, st.binary(max_size=200)), min_size=1, max_size=8)
shares = st.floats(0, 1)


class FollowingMachine(RuleBasedStateMachine):
    topic_settings: ClassVar = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.lab = LogOnMemory(self.topic_settings)
        self.transactions = self.truncations = 0
        self.first_base = 0  # what is before was deleted, of which the writer knows nothing
        self.followed = FollowedLog(
            self.lab.clock, self.lab.files.directory(DIRECTORY), self.lab.config, producer_expiration_ms=86_400_000
        )
        self.kept: LogView | None = None

    # The writer

    @rule(rows=rows)
    def append(self, rows: list[tuple[int, bytes]]) -> None:
        self.lab.log.append_as_leader(self.shifted(rows), leader_epoch=3)

    def shifted(self, rows: list[tuple[int, bytes]]) -> bytes:
        """What is written after a truncation does not have the timestamps of what was written before."""
        return sent([(timestamp + 10_000 * self.truncations, value) for timestamp, value in rows])

    @rule(producer_id=st.integers(1, 3))
    def produce(self, producer_id: int) -> None:
        now_ms = NOW_MS + 10_000 * self.truncations
        form = BatchForm(
            producer_id=100 * self.transactions + producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )
        self.lab.log.append_as_leader(sent([(now_ms, b"x" * 100)], form), leader_epoch=3)

    @rule(index=st.integers(0, 3), committed=st.booleans())
    def end_transaction(self, index: int, *, committed: bool) -> None:
        open_ones = [each for each in self.lab.log.producers.states() if each.transaction_offset is not None]
        if open_ones:
            marker = marker_batch(
                EndTransactionMarker(committed=committed, coordinator_epoch=0),
                offset=0,
                timestamp_ms=NOW_MS + 10_000 * self.truncations,
                producer_id=open_ones[index % len(open_ones)].producer_id,
                producer_epoch=0,
            )
            self.lab.log.append_as_leader(marker, leader_epoch=3, origin=AppendOrigin.COORDINATOR)
            self.transactions += 1

    @rule()
    def roll(self) -> None:
        self.lab.log.roll()

    @rule()
    def background(self) -> None:
        self.lab.run_tasks()

    @rule(share=shares, leaves_entries=st.booleans(), rows=st.none() | rows)
    def truncate(self, share: float, *, leaves_entries: bool, rows: list[tuple[int, bytes]] | None) -> None:
        log = self.lab.log
        start = max(log.view.start_offset, self.first_base)
        offset = start + int(share * (log.view.end_offset - start))
        entries = self.entries()
        log.truncate_to(offset)
        self.followed.checkpointed_start = log.view.start_offset
        self.truncations += 1
        self.transactions += 1
        if leaves_entries:
            self.leave(entries)
        while rows is not None and log.view.end_offset < offset + 20:
            log.append_as_leader(self.shifted(rows), leader_epoch=4 + self.truncations)

    def entries(self) -> dict[str, bytes]:
        """The indexes as they are, by the names of their files."""
        names = self.lab.files.names(DIRECTORY)
        return {name: self.lab.files.read(f"{DIRECTORY}/{name}") for name in names if name.endswith("index")}

    def leave(self, entries: dict[str, bytes]) -> None:
        """A broker leaves the entries that a truncation drops in the file, after those that count."""
        active = self.lab.log.view.segments[-1]
        for kind, index in ((Kind.OFFSET_INDEX, active.offset_index), (Kind.TIME_INDEX, active.time_index)):
            path = active.path(kind)
            used_bytes = index.entries_count * index.entry_bytes
            left = entries.get(active.name(kind), b"")[used_bytes:]
            with self.lab.files.open_writing(path) as file:
                room_bytes = file.size_bytes() - used_bytes
                file.write_at(used_bytes, [left[:room_bytes]])

    @rule(share=shares)
    def advance_start(self, share: float) -> None:
        log = self.lab.log
        start = max(log.view.start_offset, self.first_base)
        log.advance_start(start + int(share * (log.view.end_offset - start) / 3))
        self.followed.checkpointed_start = log.view.start_offset

    @rule()
    def reopen(self) -> None:
        if self.first_base == 0:
            self.lab.log.close()
            self.lab.open(self.lab.log.view.start_offset)

    # Others in the directory

    @precondition(lambda self: sum(base >= self.first_base for base in self.lab.log.view.bases) > 1)
    @rule(renamed=st.booleans())
    def delete_first(self, *, renamed: bool) -> None:
        self.lab.run_tasks()
        first, following = [base for base in self.lab.log.view.bases if base >= self.first_base][:2]
        for kind in SEGMENT_KINDS:
            name = FileName(first, kind)
            path = f"{DIRECTORY}/{name}"
            if self.lab.files.status(path) is not None:
                if renamed:
                    self.lab.files.rename(path, f"{DIRECTORY}/{name.with_suffix(FileSuffix.DELETED)}")
                else:
                    self.lab.files.remove(path)
        self.first_base = following

    @rule(rows=rows, share=shares)
    def look_at_half_a_batch(self, rows: list[tuple[int, bytes]], share: float) -> None:
        active = self.lab.log.view.segments[-1]
        data = sent(rows)
        part = data[: int(share * (len(data) - 1))]
        if not any(data[len(part) :]):
            return  # among zeros that is all of it
        with self.lab.files.open_writing(active.path(Kind.LOG)) as file:
            size_bytes = file.size_bytes()
            file.write_at(active.size_bytes, [part])
            self.look()
            file.write_at(active.size_bytes, [bytes(len(part))])
            file.truncate(size_bytes)

    # The reader

    @rule()
    def look(self) -> None:
        view, writer = self.followed.view, self.lab.log.view
        expected = list(self.expected(writer))
        last = expected[-1].last_offset + 1 if expected else writer.bases[-1]
        end_offset = max(last, writer.bases[-1], view.start_offset)
        start_offset = max(self.followed.checkpointed_start, self.first_base, writer.bases[0])
        assert (view.start_offset, view.end_offset) == (start_offset, end_offset)
        assert view.bases == tuple(base for base in writer.bases if base >= self.first_base)
        found = list(view.batches(view.start_offset))
        wanted = [batch for batch in expected if batch.last_offset >= view.start_offset]
        assert [bytes(batch.view(0, batch.size_bytes)) for batch in found] == [
            bytes(batch.view(0, batch.size_bytes)) for batch in wanted
        ]
        assert [batch.position for batch in found] == [batch.position for batch in wanted]
        assert self.followed.view is view
        self.kept = view

    def expected(self, writer: LogView) -> Iterator[Batch]:
        for segment in writer.segments:
            if segment.base_offset >= self.first_base:
                yield from segment.batches()

    @rule()
    def look_at_transactions(self) -> None:
        view, writer = self.followed.view, self.lab.log.view
        if self.is_whole:
            assert view.last_stable_offset == min(writer.last_stable_offset, view.end_offset)
            end_offset = view.last_stable_offset
            assert view.aborted(0, end_offset) == writer.aborted(0, end_offset)

    @property
    def is_whole(self) -> bool:
        """Whether all is there, so that a writer which opened it now would know of every transaction."""
        return self.first_base == self.lab.log.view.start_offset == 0

    @rule(share=shares, max_bytes=st.integers(1, 6000), isolation=st.sampled_from(Isolation))
    def read(self, share: float, max_bytes: int, isolation: Isolation) -> None:
        view = self.followed.view
        offset = view.start_offset + int(share * (view.end_offset - view.start_offset))
        isolation = isolation if self.is_whole else Isolation.UNCOMMITTED
        found = self.followed.read(offset, max_bytes=max_bytes, isolation=isolation)
        expected = self.lab.log.read(offset, max_bytes=max_bytes, isolation=isolation)
        assert [batch.position for batch in found.batches] == [batch.position for batch in expected.batches]
        assert [batch.base_offset for batch in found.batches] == [batch.base_offset for batch in expected.batches]

    @rule()
    def find_largest_timestamp(self) -> None:
        if self.first_base == 0:
            largest = SpecialTimestamp.LARGEST
            assert self.followed.list_offset(largest) == self.lab.log.list_offset(largest)

    @rule(timestamp=timestamps, nudge=st.integers(-1, 1), data=st.data())
    def find_timestamp(self, timestamp: int, nudge: int, data: st.DataObject) -> None:
        writer = self.lab.log.view
        known = [record.timestamp for batch in self.expected(writer) for record in batch.records()]
        if known and timestamp > 0 and data.draw(st.booleans()):
            timestamp = data.draw(st.sampled_from(known)) + nudge
        if self.first_base == 0:
            assert self.followed.find_timestamp(timestamp) == self.lab.log.find_timestamp(timestamp)

    @invariant()
    def a_view_that_was_kept_shows_no_more_than_before(self) -> None:
        if self.kept is not None:
            assert self.kept.end_offset >= self.kept.start_offset


class PreallocatedMachine(FollowingMachine):
    topic_settings: ClassVar = {**SETTINGS, "preallocate": "true"}


TestFollowing = FollowingMachine.TestCase
TestFollowingPreallocated = PreallocatedMachine.TestCase
TestFollowing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestFollowingPreallocated.settings = TestFollowing.settings
