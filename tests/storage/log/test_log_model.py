"""The log against the model: after the same operations, crashes included, every question has the same answer.

Under the profile `prove` the machine takes a hundred thousand steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consuming import consumed
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from memory_logs import PRODUCER_EXPIRATION_MS, SETTINGS, LogOnMemory

from storage.errors import BatchTooLargeError, OutOfOrderSequenceError
from storage.log.flushing import Durability
from storage.log.producers.state import AppendOrigin
from storage.log.view import Isolation, SpecialTimestamp
from storage.record import RecordBatch
from storage.record.control import EndTransactionMarker, encode_end_transaction
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch
from storage.testing.model import ModelBatch, ModelLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.record import EncodedBatch, Record
    from storage.record.reading import Batch
    from storage.testing.memory_files import MemoryFiles

SEGMENT_BYTES = int(SETTINGS["segment.bytes"])
SEGMENT_MS = 10_000
STEPS_PER_RUN = 50
STEPS_OF_A_PROOF = 100_000

pytestmark = pytest.mark.property

time_shifts = st.integers(-3000, 3000)
values = st.builds(lambda byte, size_bytes: bytes([byte]) * size_bytes, st.integers(0, 255), st.integers(0, 200))
rows = st.lists(st.tuples(time_shifts, values), min_size=1, max_size=8)
idempotent, transactional = st.sampled_from([1, 2]), st.sampled_from([3, 4])
producers = st.one_of(idempotent, transactional)
senders = st.one_of(st.none(), producers)
shares = st.floats(0, 1)
read_sizes = st.integers(1, 6000)


class LogMachine(RuleBasedStateMachine):
    """A log in memory, and the model of it. Producers 1 and 2 are idempotent, 3 and 4 only write in transactions."""

    steps_done = 0

    @initialize(durability=st.sampled_from(Durability), allows_offset_gaps=st.booleans())
    def create(self, durability: Durability, *, allows_offset_gaps: bool) -> None:
        type(self).steps_done -= 1  # this is none, but is counted like one
        self.durability = durability
        self.allows_offset_gaps = allows_offset_gaps
        self.lab = LogOnMemory({**SETTINGS, "segment.ms": str(SEGMENT_MS)}, durability=durability)
        self.model = ModelLog(SEGMENT_BYTES, SEGMENT_MS)
        self.epoch = 1

    # Appending

    def batch(
        self,
        offset: int,
        rows: Sequence[tuple[int, bytes]],
        producer_id: int | None,
        sequence: int | None = None,
        *,
        base_offset: int = 0,
    ) -> tuple[EncodedBatch, ModelBatch]:
        """A batch as it is sent, and as it is to be found at the offset."""
        form = BatchForm(leader_epoch=self.epoch)
        if producer_id is not None:
            sequence = self.model.next_sequence(producer_id) if sequence is None else sequence
            form = BatchForm(
                leader_epoch=self.epoch,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=producer_id in (3, 4),
            )
        timed = [(timestamp, b"key", value, ()) for timestamp, value in rows]
        (data,) = batches_of_rows(timed, base_offset=base_offset, form=form)
        return data, ModelBatch.at(
            offset,
            rows,
            len(data),
            leader_epoch=self.epoch,
            producer_id=form.producer_id,
            base_sequence=form.base_sequence,
            is_transactional=form.transactional,
        )

    def now(self, rows: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        return [(self.lab.clock.ms + shift_ms, value) for shift_ms, value in rows]

    @rule(rows=rows, producer_id=senders)
    def append(self, rows: list[tuple[int, bytes]], producer_id: int | None) -> None:
        data, batch = self.batch(self.model.end_offset, self.now(rows), producer_id)
        appended = self.lab.log.append_as_leader(data, leader_epoch=self.epoch)
        assert appended == (batch.first_offset, batch.last_offset, False)
        self.model.append(batch)

    @rule(pieces=st.lists(st.tuples(st.integers(0, 3), rows, senders), min_size=1, max_size=3))
    def follow(self, pieces: list[tuple[int, list[tuple[int, bytes]], int | None]]) -> None:
        offset = self.model.end_offset
        sequences: dict[int, int] = {}
        sent = []
        for gap, piece, producer_id in pieces:
            sequence = None
            if producer_id is not None:
                sequence = sequences.get(producer_id, self.model.next_sequence(producer_id))
                sequences[producer_id] = sequence + len(piece)
            offset += gap * self.allows_offset_gaps
            sent.append(self.batch(offset, self.now(piece), producer_id, sequence, base_offset=offset))
            offset += len(piece)
        data = b"".join(each for each, _ in sent)
        batches = [batch for _, batch in sent]
        if len(data) > SEGMENT_BYTES:
            with pytest.raises(BatchTooLargeError):
                self.lab.log.append_as_follower([data])
            return
        self.lab.log.append_as_follower([data])
        assert self.lab.log.view.end_offset == batches[-1].last_offset + 1
        self.model.append(*batches)

    @rule(producer_id=transactional, commits=st.booleans(), follows=st.booleans())
    def end_transaction(self, producer_id: int, *, commits: bool, follows: bool) -> None:
        open_ones = (each.producer_id for each in self.model.transactions() if each.last_offset is None)
        if producer_id not in open_ones:
            return
        marker = EndTransactionMarker(committed=commits, coordinator_epoch=0)
        offset, now_ms = self.model.end_offset, self.lab.clock.ms
        data = marker_batch(
            marker,
            offset=offset,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            leader_epoch=self.epoch,
        )
        if follows:
            self.lab.log.append_as_follower([data])
        else:
            self.lab.log.append_as_leader(data, leader_epoch=self.epoch, origin=AppendOrigin.COORDINATOR)
        self.model.append(
            ModelBatch.at(
                offset,
                [(now_ms, encode_end_transaction(marker)[1])],
                len(data),
                leader_epoch=self.epoch,
                producer_id=producer_id,
                is_transactional=True,
                commits=commits,
            )
        )

    def last_of_known(self, producer_id: int) -> ModelBatch | None:
        """The last batch of a producer that the log surely knows."""
        batches = self.model.batches_of(producer_id)
        sent = [batch for batch in batches if batch.commits is None]
        if not sent or self.lab.clock.ms - batches[-1].max_timestamp >= PRODUCER_EXPIRATION_MS:
            return None
        return sent[-1]

    @rule(producer_id=producers)
    def send_again(self, producer_id: int) -> None:
        last = self.last_of_known(producer_id)
        if last is not None:
            data, _ = self.batch(last.first_offset, last.rows, producer_id, last.base_sequence)
            again = self.lab.log.append_as_leader(data, leader_epoch=self.epoch)
            assert again == (last.first_offset, last.last_offset, True)

    @rule(producer_id=producers, missing=st.integers(1, 5))
    def leave_sequences_out(self, producer_id: int, missing: int) -> None:
        if self.last_of_known(producer_id) is not None:
            sequence = self.model.next_sequence(producer_id) + missing
            data, _ = self.batch(0, self.now([(0, b"")]), producer_id, sequence)
            with pytest.raises(OutOfOrderSequenceError):
                self.lab.log.append_as_leader(data, leader_epoch=self.epoch)

    # Time, leaders, flushes

    @rule(milliseconds=st.one_of(st.integers(0, SEGMENT_MS), st.just(PRODUCER_EXPIRATION_MS)))
    def later(self, milliseconds: int) -> None:
        self.lab.clock.ms += milliseconds
        self.lab.files.now_ms = self.lab.clock.ms

    @rule()
    def another_leader(self) -> None:
        self.epoch += 1

    @rule()
    def expire_producers(self) -> None:
        self.lab.log.expire_producers()
        left = {state.producer_id for state in self.lab.log.producers.states()}
        assert left >= {producer_id for producer_id in (1, 2, 3, 4) if self.last_of_known(producer_id) is not None}

    @rule()
    def background(self) -> None:
        self.lab.run_tasks()

    @rule()
    def flush(self) -> None:
        self.lab.log.flush()
        assert self.lab.log.recovery_point == self.model.end_offset

    # Segments and bounds

    @rule()
    def roll(self) -> None:
        self.lab.log.roll()
        self.model.roll()

    @rule(share=shares)
    def truncate(self, share: float) -> None:
        first = self.model.bases[0]
        offset = first + int(share * (self.model.end_offset - first))
        cut = self.model.find(offset)
        if cut is not None and not self.allows_offset_gaps:
            offset = cut.first_offset
        self.lab.log.truncate_to(offset)
        self.model.truncate_to(offset)
        self.answer_everything()

    @rule(share=shares)
    def advance_start(self, share: float) -> None:
        # Of a transaction that begins before the log does, no broker knows for sure after a truncation.
        start, end = self.model.start_offset, self.model.end_offset
        offset = self.model.settled_before(start + int(share**2 * (end - start)))
        self.lab.log.advance_start(offset)
        self.model.advance_start(offset)

    @rule(looks_first=st.booleans())
    def reopen(self, *, looks_first: bool) -> None:
        self.lab.log.close()
        self.lab.tasks.clear()
        if looks_first and self.model.segments[-1].next_offset >= self.model.start_offset:
            report = self.lab.recover(is_clean=True, start_offset=self.model.start_offset)
            assert (report.steps, report.scanned_bytes) == ([], 0)
        self.lab.open(self.model.start_offset)
        self.model.reopen()
        self.answer_everything()

    # Crashes

    @rule(knows_recovery_point=st.booleans())
    def die(self, *, knows_recovery_point: bool) -> None:
        self.crash(self.lab.files.after_process_death(), self.model.end_offset, knows_recovery_point)

    @rule(seed=st.integers(0, 2**32 - 1), knows_recovery_point=st.booleans())
    def lose_power(self, seed: int, *, knows_recovery_point: bool) -> None:
        is_synced = self.durability is Durability.SYNCED
        durable_offset = self.model.end_offset if is_synced else self.lab.log.recovery_point
        self.crash(self.lab.files.after_power_loss(seed), durable_offset, knows_recovery_point)

    def crash(self, files: MemoryFiles, durable_offset: int, knows_recovery_point: bool) -> None:
        """Go on with what is left: everything before the durable offset, and of each segment a beginning.

        That is a beginning of the log too, as far as recovery can tell. It takes offsets that are missing between
        segments for a loss, unless some are missing within a segment as well.
        """
        recovery_point = self.lab.log.recovery_point if knows_recovery_point else 0
        start_offset, before = self.model.start_offset, [bounds_of_model(batch) for batch in self.model.batches]
        lacks_offsets = self.model.lacks_offsets_within(self.model.end_offset)
        gap = self.model.first_gap(recovery_point)
        if gap is not None and not self.model.lacks_offsets_within(durable_offset):
            durable_offset = min(durable_offset, gap)
        durable = {bounds for bounds in before if start_offset <= bounds[1] < durable_offset}
        self.lab.open_after_crash(files, recovery_point=recovery_point, start_offset=start_offset)
        segments = self.lab.log.view.segments
        self.model.recover({segment.base_offset: segment.read_next_offset() for segment in segments})
        left = [bounds_of(batch) for segment in segments for batch in segment.batches()]
        assert left == [bounds_of_model(batch) for batch in self.model.batches]
        assert not durable - set(left)
        assert lacks_offsets or left == before[: len(left)]
        self.answer_everything()

    # Questions

    def answer_everything(self) -> None:
        """Ask what a reader who knows nothing of the log would ask."""
        for isolation in Isolation:
            self.consume(isolation, 2000)
        self.find_special()
        self.look_up_epochs()
        for producer_id in (1, 2, 3, 4):
            self.send_again(producer_id)
            self.leave_sequences_out(producer_id, 1)
        for batch in self.model.batches:
            found = self.lab.log.view.find(batch.last_offset)
            assert found is not None
            assert bounds_of(found) == bounds_of_model(batch)
            self.look_up_timestamp(batch.max_timestamp)

    @rule(share=shares, max_bytes=read_sizes, isolation=st.sampled_from(Isolation))
    def read(self, share: float, max_bytes: int, isolation: Isolation) -> None:
        start, end = self.model.start_offset, self.model.end_offset
        offset = start + int(share * (end - start))
        found = self.lab.log.read(offset, max_bytes=max_bytes, isolation=isolation)
        expected = self.model.read(offset, max_bytes, committed=isolation is Isolation.COMMITTED)
        assert [bounds_of(batch) for batch in found.batches] == [bounds_of_model(batch) for batch in expected]
        assert [record_of(record) for batch in found.batches for record in batch.records()] == [
            record for batch in expected for record in batch.records
        ]

    @rule(isolation=st.sampled_from(Isolation), max_bytes=read_sizes)
    def consume(self, isolation: Isolation, max_bytes: int) -> None:
        found = consumed(self.lab.log, isolation, max_bytes=max_bytes)
        expected = self.model.consumed(committed=isolation is Isolation.COMMITTED)
        assert [(record.offset, record.timestamp, record.value) for record in found] == expected

    @rule(share=shares)
    def find(self, share: float) -> None:
        first = self.model.bases[0]
        offset = first + int(share * (self.model.end_offset - first))
        found, expected = self.lab.log.view.find(offset), self.model.find(offset)
        assert (found and bounds_of(found)) == (expected and bounds_of_model(expected))

    @rule(shift_ms=time_shifts, is_known=st.booleans(), nudge=st.integers(-1, 1), data=st.data())
    def find_timestamp(self, shift_ms: int, *, is_known: bool, nudge: int, data: st.DataObject) -> None:
        timestamp = self.lab.clock.ms + shift_ms
        known = [record.timestamp for batch in self.model.batches for record in batch.records]
        if is_known and known:
            timestamp = data.draw(st.sampled_from(known)) + nudge
        self.look_up_timestamp(timestamp)

    def look_up_timestamp(self, timestamp: int) -> None:
        found = self.lab.log.find_timestamp(timestamp)
        expected = self.model.find_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @rule()
    def find_special(self) -> None:
        log = self.lab.log
        assert log.list_offset(SpecialTimestamp.LATEST) == (self.model.end_offset, -1, -1)
        assert log.list_offset(SpecialTimestamp.LATEST, isolation=Isolation.COMMITTED) == (
            self.model.last_stable_offset,
            -1,
            -1,
        )
        assert log.list_offset(SpecialTimestamp.EARLIEST) == (self.model.start_offset, -1, -1)
        assert log.list_offset(SpecialTimestamp.EARLIEST_LOCAL) == (self.model.start_offset, -1, -1)
        assert log.list_offset(SpecialTimestamp.LATEST_TIERED) == (-1, -1, -1)
        found, expected = log.list_offset(SpecialTimestamp.LARGEST), self.model.find_largest_timestamp()
        assert (found and (found.offset, found.timestamp)) == (expected and (expected.offset, expected.timestamp))

    @rule()
    def look_up_epochs(self) -> None:
        entries, last_offset = self.lab.log.epochs.entries, max(self.model.end_offset - 1, self.model.start_offset)
        assert list(entries) == sorted(set(entries))
        assert all(entry.offset <= last_offset for entry in entries)
        for batch in self.model.batches:
            if batch.first_offset >= self.model.start_offset:
                in_force = [entry.epoch for entry in entries if entry.offset <= batch.first_offset]
                assert in_force[-1] == batch.leader_epoch

    @invariant()
    def bounds_and_segments_are_the_same(self) -> None:
        type(self).steps_done += 1
        view = self.lab.log.view
        assert (view.start_offset, view.end_offset) == (self.model.start_offset, self.model.end_offset)
        assert view.last_stable_offset == self.model.last_stable_offset
        assert view.bases == self.model.bases
        sizes = [segment.size_bytes for segment in view.segments]
        assert sizes == [segment.size_bytes for segment in self.model.segments]


def bounds_of(batch: Batch) -> tuple[int, int]:
    assert isinstance(batch, RecordBatch)
    return batch.base_offset, batch.last_offset


def bounds_of_model(batch: ModelBatch) -> tuple[int, int]:
    return batch.first_offset, batch.last_offset


def record_of(record: Record) -> tuple[int, int, bytes | None]:
    return record.offset, record.timestamp, record.value


def test_the_log_against_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    is_proof = settings.get_current_profile_name() == "prove"
    runs = STEPS_OF_A_PROOF // STEPS_PER_RUN * 6 // 5 if is_proof else 250  # some end early
    LogMachine.steps_done = 0
    run_state_machine_as_test(LogMachine, settings=settings(max_examples=runs, stateful_step_count=STEPS_PER_RUN))
    with capsys.disabled():
        print(f"\n{LogMachine.steps_done} steps against the model")
    assert LogMachine.steps_done >= (STEPS_OF_A_PROOF if is_proof else 1)
