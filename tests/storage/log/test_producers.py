"""Kafka's rules for producers and transactions, one by one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from memory_logs import check

from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    RefusedAppendError,
    TransactionCoordinatorFencedError,
)
from storage.log.producers.producers import ProducerStates
from storage.log.producers.state import AppendOrigin, CachedBatch, ProducerState
from storage.log.producers.transactions import CompletedTransaction
from storage.record import RecordBatch, read_batches
from storage.testing.codec import CONTROL, TRANSACTIONAL, OracleRecord, batch_of, encode_batch, encode_control_key
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    Batches = Callable[..., RecordBatch]

CLIENT, COORDINATOR, REPLICATION = AppendOrigin
LAST = 2**31 - 1
DAY_MS = 86_400_000


@pytest.fixture
def producers() -> ProducerStates:
    return ProducerStates(MemoryFiles().directory("/"), expiration_ms=DAY_MS)


def state_of(producers: ProducerStates, producer_id: int = 7) -> ProducerState:
    (state,) = (state for state in producers.states() if state.producer_id == producer_id)
    return state


def refused(producers: ProducerStates, batch: RecordBatch, origin: AppendOrigin) -> type[RefusedAppendError]:
    before = producers.states(), producers.end_offset, producers.first_unstable_offset
    with pytest.raises(RefusedAppendError) as caught:
        check(producers, batch, origin=origin)
    assert caught.value.offset == batch.base_offset
    assert (producers.states(), producers.end_offset, producers.first_unstable_offset) == before
    return type(caught.value)


# Idempotence


def test_a_batch_without_producer_leaves_no_trace(producers: ProducerStates, data: Batches) -> None:
    batch = data(-1, -1, -1, offset=4, count=3)
    assert check(producers, batch, origin=CLIENT) is None
    assert producers.apply(batch) is None
    assert producers.states() == []
    assert producers.end_offset == 7


def test_checking_changes_nothing(producers: ProducerStates, data: Batches) -> None:
    assert check(producers, data(), origin=CLIENT) is None
    assert producers.states() == []
    assert producers.end_offset == 0


@pytest.mark.parametrize("sequence", [0, 5, LAST])
def test_an_unknown_producer_may_begin_anywhere(producers: ProducerStates, data: Batches, sequence: int) -> None:
    assert check(producers, data(sequence=sequence), origin=CLIENT) is None


def test_sequences_go_on(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(sequence=5, count=3))
    assert check(producers, data(sequence=8, offset=3), origin=CLIENT) is None
    for sequence in (0, 6, 9, 100):
        assert refused(producers, data(sequence=sequence, offset=3), CLIENT) is OutOfOrderSequenceError


@pytest.mark.parametrize(("first", "count", "following"), [(LAST - 1, 2, 0), (LAST - 1, 4, 2), (LAST, 1, 0)])
def test_sequences_wrap(producers: ProducerStates, data: Batches, first: int, count: int, following: int) -> None:
    batch = data(sequence=first, count=count, offset=10)
    producers.apply(batch)
    assert check(producers, data(sequence=following), origin=CLIENT) is None
    assert refused(producers, data(sequence=following + 1), CLIENT) is OutOfOrderSequenceError
    repeated = check(producers, batch, origin=CLIENT)
    assert repeated is not None
    assert (repeated.first_sequence, repeated.first_offset, repeated.last_offset) == (first, 10, 9 + count)


def test_the_last_five_batches_are_answered_with_their_offsets(producers: ProducerStates, data: Batches) -> None:
    batches = [data(sequence=2 * i, count=2, offset=10 * i, timestamp=100 + i) for i in range(7)]
    for batch in batches:
        assert check(producers, batch, origin=CLIENT) is None
        producers.apply(batch)
    for i, batch in enumerate(batches[2:], 2):
        again = data(sequence=2 * i, count=2, offset=1000)
        repeated = check(producers, again, origin=CLIENT)
        assert repeated == CachedBatch(batch.last_sequence, batch.last_offset, 1, 100 + i)
    for batch in batches[:2]:
        assert refused(producers, batch, CLIENT) is OutOfOrderSequenceError


def test_only_the_same_range_of_the_same_epoch_repeats(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(epoch=1, count=4))
    assert refused(producers, data(epoch=1, count=3), CLIENT) is OutOfOrderSequenceError
    assert refused(producers, data(epoch=0, count=4), CLIENT) is InvalidProducerEpochError
    assert check(producers, data(epoch=2, count=4), origin=CLIENT) is None
    assert check(producers, data(epoch=1, count=4), origin=COORDINATOR) is None


def test_a_new_epoch_begins_at_0(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(epoch=1, sequence=5))
    assert refused(producers, data(epoch=2, sequence=6), CLIENT) is OutOfOrderSequenceError
    assert check(producers, data(epoch=2, sequence=0), origin=CLIENT) is None
    producers.apply(data(epoch=2, sequence=0, offset=1, timestamp=50))
    assert state_of(producers) == ProducerState(7, 2, -1, 50, None, (CachedBatch(0, 1, 0, 50),))


def test_old_epochs_are_fenced(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(epoch=3))
    for origin in (CLIENT, COORDINATOR):
        assert refused(producers, data(epoch=2, sequence=1), origin) is InvalidProducerEpochError


def test_coordinators_have_no_sequences(producers: ProducerStates, data: Batches) -> None:
    for offset in range(3):
        batch = data(sequence=-1, offset=offset, transactional=True)
        assert check(producers, batch, origin=COORDINATOR) is None
        producers.apply(batch)
    assert state_of(producers).last_sequence == -1


def test_replicas_take_what_their_leader_has(
    producers: ProducerStates, data: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    producers.apply(data(epoch=3, sequence=5))
    with caplog.at_level(logging.WARNING):
        assert check(producers, data(epoch=3, sequence=100, offset=1), origin=REPLICATION) is None
        assert caplog.records == []
        assert check(producers, data(epoch=2, sequence=0, offset=9), origin=REPLICATION) is None
    assert "epoch 2, known is 3 (offset 9)" in caplog.text


def test_batches_of_one_append_follow_each_other(producers: ProducerStates, data: Batches, marker: Batches) -> None:
    first, second = data(sequence=0, transactional=True), data(sequence=1, offset=1)
    with pytest.raises(InvalidTransactionStateError):
        check(producers, first, second, origin=REPLICATION)
    assert check(producers, first, marker(offset=1), data(sequence=1, offset=2), origin=REPLICATION) is None
    assert check(producers, data(sequence=3), data(sequence=4), data(8, sequence=9), origin=CLIENT) is None
    with pytest.raises(OutOfOrderSequenceError):
        check(producers, data(sequence=3), data(sequence=5), origin=CLIENT)


# Transactions


def test_a_transaction_from_begin_to_commit(producers: ProducerStates, data: Batches, marker: Batches) -> None:
    producers.apply(data(transactional=True, offset=10, count=5))
    producers.apply(data(sequence=5, transactional=True, offset=15))
    assert state_of(producers).transaction_offset == 10
    assert producers.first_unstable_offset == 10
    assert producers.last_stable_offset(0, 16) == 10
    end = marker(offset=16, coordinator_epoch=4, timestamp=77)
    assert check(producers, end, origin=COORDINATOR) is None
    assert producers.apply(end) == CompletedTransaction(7, 10, 16, 17, is_aborted=False)
    state = state_of(producers)
    assert (state.transaction_offset, state.coordinator_epoch, state.last_timestamp) == (None, 4, 77)
    assert [batch.last_offset for batch in state.batches] == [14, 15]


def test_an_ended_transaction_is_unstable_until_its_marker_is_replicated(
    producers: ProducerStates, data: Batches, marker: Batches
) -> None:
    producers.apply(data(transactional=True, offset=10))
    producers.apply(marker(offset=11))
    producers.on_high_watermark(11)
    assert producers.last_stable_offset(0, 11) == 10
    producers.on_high_watermark(12)
    assert producers.first_unstable_offset is None
    assert producers.last_stable_offset(0, 12) == 12


def test_the_last_stable_offset_keeps_within_the_log(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(transactional=True, offset=10))
    assert producers.last_stable_offset(0, 5) == 5
    assert producers.last_stable_offset(12, 20) == 12


def test_aborted_transactions_say_what_is_stable_after_them(
    producers: ProducerStates, data: Batches, marker: Batches
) -> None:
    producers.apply(data(1, transactional=True, offset=0))
    producers.apply(data(2, transactional=True, offset=1))
    producers.apply(data(3, transactional=True, offset=2))
    assert producers.apply(marker(2, offset=3, commit=False)) == CompletedTransaction(2, 1, 3, 0, is_aborted=True)
    assert producers.apply(marker(1, offset=4, commit=False)) == CompletedTransaction(1, 0, 4, 2, is_aborted=True)
    assert producers.apply(marker(3, offset=5, commit=False)) == CompletedTransaction(3, 2, 5, 6, is_aborted=True)
    producers.on_high_watermark(5)
    assert producers.first_unstable_offset == 2


def test_a_marker_without_data_ends_nothing(producers: ProducerStates, marker: Batches, data: Batches) -> None:
    end = marker(epoch=2, offset=5, commit=False, coordinator_epoch=1)
    assert check(producers, end, origin=COORDINATOR) is None
    assert producers.apply(end) is None
    assert producers.first_unstable_offset is None
    assert producers.end_offset == 6
    assert state_of(producers) == ProducerState(7, 2, 1, 1000)
    assert check(producers, data(epoch=2, sequence=0), origin=CLIENT) is None
    assert refused(producers, data(epoch=2, sequence=1), CLIENT) is OutOfOrderSequenceError


@pytest.mark.parametrize("origin", AppendOrigin)
def test_other_batches_are_refused_meanwhile(producers: ProducerStates, data: Batches, origin: AppendOrigin) -> None:
    producers.apply(data(transactional=True))
    batch = data(sequence=1, offset=1)
    assert refused(producers, batch, origin) is InvalidTransactionStateError
    assert producers.apply(batch) is None
    assert state_of(producers).transaction_offset == 0


def test_markers_of_old_epochs_and_coordinators_are_fenced(
    producers: ProducerStates, data: Batches, marker: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    producers.apply(data(epoch=3, transactional=True))
    producers.apply(marker(epoch=3, offset=1, coordinator_epoch=5))
    old_epoch, old_coordinator = marker(epoch=2, offset=2, coordinator_epoch=5), marker(epoch=3, offset=2)
    assert refused(producers, old_epoch, COORDINATOR) is InvalidProducerEpochError
    assert refused(producers, old_coordinator, COORDINATOR) is TransactionCoordinatorFencedError
    assert check(producers, marker(epoch=3, offset=2, coordinator_epoch=5), origin=COORDINATOR) is None
    with caplog.at_level(logging.WARNING):
        assert check(producers, old_epoch, origin=REPLICATION) is None
        assert check(producers, old_coordinator, origin=REPLICATION) is None
    assert len(caplog.records) == 2


def test_a_marker_of_a_new_epoch_ends_the_old_ones_transaction(
    producers: ProducerStates, data: Batches, marker: Batches
) -> None:
    producers.apply(data(transactional=True))
    producers.apply(marker(epoch=1, offset=1, commit=False))
    assert state_of(producers) == ProducerState(7, 1, 0, 1000)
    assert refused(producers, data(sequence=1, offset=2, transactional=True), CLIENT) is InvalidProducerEpochError
    assert check(producers, data(epoch=1, offset=2, transactional=True), origin=CLIENT) is None


def control(*records: OracleRecord) -> RecordBatch:
    batch = batch_of(records, base_offset=3, attributes=TRANSACTIONAL | CONTROL, producer_id=7, producer_epoch=2)
    found = next(read_batches(encode_batch(batch)))
    assert isinstance(found, RecordBatch)
    return found


@pytest.mark.parametrize("records", [(), (OracleRecord(3, 0, encode_control_key(77), b""),)])
def test_a_control_batch_that_is_no_marker_only_names_its_producer(
    producers: ProducerStates, data: Batches, records: tuple[OracleRecord, ...]
) -> None:
    """The cleaner leaves such batches behind, and a broker then has an entry like this one."""
    batch = control(*records)
    assert check(producers, batch, origin=REPLICATION) is None
    assert producers.apply(batch) is None
    assert state_of(producers) == ProducerState(7)
    assert check(producers, data(epoch=0, sequence=44), origin=CLIENT) is None


# Forgetting


def test_silent_producers_expire(producers: ProducerStates, data: Batches) -> None:
    producers.apply(data(1, timestamp=1000))
    producers.apply(data(2, timestamp=2000, offset=1))
    producers.apply(data(3, timestamp=1000, offset=2, transactional=True))
    producers.expire(1000 + DAY_MS - 1)
    assert len(producers.states()) == 3
    producers.expire(1000 + DAY_MS)
    assert [state.producer_id for state in producers.states()] == [2, 3]
    assert check(producers, data(1, sequence=50), origin=CLIENT) is None
    producers.expire(10 * DAY_MS)
    assert [state.producer_id for state in producers.states()] == [3]
    assert producers.first_unstable_offset == 2


def test_moving_the_start_forgets_ended_transactions_before_it(
    producers: ProducerStates, data: Batches, marker: Batches
) -> None:
    producers.apply(data(1, transactional=True, offset=0))
    producers.apply(marker(1, offset=1))
    producers.apply(data(2, transactional=True, offset=2))
    producers.apply(marker(2, offset=3))
    producers.advance_log_start(2)
    assert producers.first_unstable_offset == 2
    assert producers.end_offset == 4
    producers.advance_log_start(9)
    assert producers.first_unstable_offset is None
    assert producers.end_offset == 9
    assert len(producers.states()) == 2
