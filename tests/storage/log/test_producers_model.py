"""Random histories of producers against a model that knows nothing but the log: every answer is found by reading it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_logs import check

from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    RefusedAppendError,
    TransactionCoordinatorFencedError,
)
from storage.log.producers.producers import ProducerStates
from storage.log.producers.state import AppendOrigin
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.record import RecordBatch

    Batches = Callable[..., RecordBatch]

pytestmark = pytest.mark.property

MODULUS = 2**31
NEVER_MS = 2**62
FIRST_SEQUENCES = (0, 3, MODULUS - 3, MODULUS - 1)


@dataclass(frozen=True)
class Sent:
    """A batch as somebody would send it: `sequences` is empty for a marker."""

    producer_id: int
    epoch: int
    sequences: tuple[int, ...] = ()
    transactional: bool = True
    commit: bool = False
    coordinator_epoch: int = 0


@dataclass
class Model:
    """A log as the list of what is in it and at which offset."""

    log: list[tuple[int, Sent]] = field(default_factory=list)
    end: int = 0
    reloaded_at: int = 0  # of what is before, the last batch of a producer is known

    def of(self, producer_id: int) -> list[tuple[int, Sent]]:
        return [(offset, sent) for offset, sent in self.log if sent.producer_id == producer_id]

    def epoch(self, producer_id: int) -> int | None:
        sent = self.of(producer_id)
        return sent[-1][1].epoch if sent else None

    def remembered(self, producer_id: int) -> list[tuple[int, Sent]]:
        """The last batches of records since the epoch began."""
        batches: list[tuple[int, Sent]] = []
        for offset, sent in self.of(producer_id):
            if batches and batches[-1][1].epoch != sent.epoch:
                batches = []
            if sent.sequences:
                batches.append((offset, sent))
        old = [batch for batch in batches if batch[0] < self.reloaded_at]
        return (old[-1:] + batches[len(old) :])[-5:]

    def open_since(self, producer_id: int) -> int | None:
        since = None
        for offset, sent in self.of(producer_id):
            if not sent.sequences:
                since = None
            elif since is None and sent.transactional:
                since = offset
        return since

    def answer(self, sent: Sent) -> type[RefusedAppendError] | tuple[int, int] | None:
        """Why it is refused, or where it is already, or None."""
        epoch = self.epoch(sent.producer_id)
        remembered = self.remembered(sent.producer_id)
        if sent.sequences:
            for offset, other in remembered:
                if (other.epoch, other.sequences) == (sent.epoch, sent.sequences):
                    return offset, offset + len(sent.sequences) - 1
        if epoch is not None and sent.epoch < epoch:
            return InvalidProducerEpochError
        if not sent.sequences:
            seen = [other.coordinator_epoch for _, other in self.of(sent.producer_id) if not other.sequences]
            return TransactionCoordinatorFencedError if seen and sent.coordinator_epoch < seen[-1] else None
        if epoch is not None:
            goes_on = sent.epoch == epoch and remembered
            expected = (remembered[-1][1].sequences[-1] + 1) % MODULUS if goes_on else 0
            if sent.sequences[0] != expected:
                return OutOfOrderSequenceError
        if self.open_since(sent.producer_id) is not None and not sent.transactional:
            return InvalidTransactionStateError
        return None

    def append(self, sent: Sent) -> None:
        self.log.append((self.end, sent))
        self.end += len(sent.sequences) or 1


PRODUCER_IDS = (4, 9, 2**40)
choices = st.tuples(
    st.sampled_from(PRODUCER_IDS),
    st.sampled_from(["next"] * 6 + ["again"] * 2 + ["marker"] * 3 + ["epoch", "fenced", "gap", "plain", "reload"]),
    st.integers(0, 6),
    st.booleans(),
)


def to_send(model: Model, producer_id: int, kind: str, number: int, *, flag: bool) -> Sent:
    """Something near what the producer may send, so that much is accepted and the rest is refused for a reason."""
    epoch = model.epoch(producer_id)
    remembered = model.remembered(producer_id)
    last = remembered[-1][1].sequences[-1] if remembered else None
    first = (last + 1) % MODULUS if last is not None else 0 if epoch is not None else FIRST_SEQUENCES[number % 4]
    epoch = 1 if epoch is None else epoch
    if kind == "marker":
        return Sent(producer_id, epoch + (number == 6), commit=flag, coordinator_epoch=max(0, number - 3))
    if kind == "again":
        mine = [sent for _, sent in model.of(producer_id) if sent.sequences]
        if mine:
            return mine[-1 - number % len(mine)]
    if kind == "epoch":
        epoch, first = epoch + 1, 0 if flag else first
    if kind == "fenced":
        epoch -= 1
    if kind == "gap":
        first = (first + number) % MODULUS
    sequences = tuple((first + i) % MODULUS for i in range(1 + number % 3))
    transactional = flag if kind == "plain" else model.open_since(producer_id) is not None or flag
    return Sent(producer_id, epoch, sequences, transactional)


def made(sent: Sent, offset: int, data: Batches, marker: Batches) -> RecordBatch:
    if sent.sequences:
        return data(
            sent.producer_id,
            sent.epoch,
            sent.sequences[0],
            offset=offset,
            count=len(sent.sequences),
            transactional=sent.transactional,
        )
    return marker(
        sent.producer_id, sent.epoch, offset=offset, commit=sent.commit, coordinator_epoch=sent.coordinator_epoch
    )


def outcome(producers: ProducerStates, batch: RecordBatch) -> type[RefusedAppendError] | tuple[int, int] | None:
    try:
        repeated = check(producers, batch, origin=AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT)
    except RefusedAppendError as error:
        return type(error)
    return (repeated.first_offset, repeated.last_offset) if repeated else None


def assert_agree(producers: ProducerStates, model: Model) -> None:
    known = {state.producer_id: state for state in producers.states()}
    assert known.keys() == {sent.producer_id for _, sent in model.log}
    for producer_id, state in known.items():
        assert state.epoch == model.epoch(producer_id)
        assert state.transaction_offset == model.open_since(producer_id)
        remembered = [(offset, offset + len(sent.sequences) - 1) for offset, sent in model.remembered(producer_id)]
        assert [(batch.first_offset, batch.last_offset) for batch in state.batches] == remembered
    assert producers.end_offset == model.end
    open_since = [since for producer_id in known if (since := model.open_since(producer_id)) is not None]
    producers.on_high_watermark(model.end)
    assert producers.first_unstable_offset == min(open_since, default=None)


@settings(max_examples=150, deadline=None)
@given(history=st.lists(choices, max_size=60))
def test_against_the_model(history: list[tuple[int, str, int, bool]], data: Batches, marker: Batches) -> None:
    files = MemoryFiles()
    producers = ProducerStates(files.directory("/"), expiration_ms=NEVER_MS)
    model = Model()
    for producer_id, kind, number, flag in history:
        if kind == "reload":
            producers.take_snapshot()
            producers = ProducerStates(files.directory("/"), expiration_ms=NEVER_MS)
            producers.truncate_and_reload(0, model.end, now_ms=0)
            model.reloaded_at = model.end
            assert_agree(producers, model)
            continue
        sent = to_send(model, producer_id, kind, number, flag=flag)
        batch = made(sent, model.end, data, marker)
        answer = model.answer(sent)
        before = producers.states()
        assert outcome(producers, batch) == answer
        assert producers.states() == before
        if answer is None:
            was_open = model.open_since(producer_id)
            others = [model.open_since(other) for other in PRODUCER_IDS if other != producer_id]
            completed = producers.apply(batch)
            model.append(sent)
            if sent.sequences or was_open is None:
                assert completed is None
            else:
                assert completed is not None
                assert (completed.producer_id, completed.first_offset) == (producer_id, was_open)
                assert completed.last_offset == batch.base_offset
                assert completed.is_aborted is not sent.commit
                stable = min((since for since in others if since is not None), default=model.end)
                assert completed.last_stable_offset == stable
        assert_agree(producers, model)
