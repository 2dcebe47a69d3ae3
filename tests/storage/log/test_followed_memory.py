"""How much memory a log takes that a reader looked at once: a store may have tens of thousands."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, PRODUCER_EXPIRATION_MS, StandingClock, sent

from storage.config import TopicConfig
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.record import BatchForm
from storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path

LOGS = 100
BYTES_MAX = 4000
DECIDED_BYTES_MAX = 200


def log_of_one_record(store: Store) -> Log:
    """Make a log of one record, which no idempotent producer sent."""
    store.topics.create("t", 1)
    log = store.log("t", 0)
    assert isinstance(log, Log)
    log.append_as_leader(sent([(NOW_MS, b"a")]))
    return log


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Make a closed store with such a log."""
    with Store.create([tmp_path / "store"], files=Files(), clock=StandingClock()) as store:
        log_of_one_record(store)
    return tmp_path / "store"


def looked_at(store_path: Path) -> FollowedLog:
    directory = Files().directory(store_path).at("t-0")
    config = TopicConfig.resolve({})
    log = FollowedLog(StandingClock(), directory, config, producer_expiration_ms=PRODUCER_EXPIRATION_MS)
    assert log.view.end_offset == 1
    return log


def test_a_log_that_was_looked_at_takes_little(store_path: Path) -> None:
    looked_at(store_path)
    gc.collect()
    tracemalloc.start()
    try:
        logs = [looked_at(store_path) for _ in range(LOGS)]
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(logs) < BYTES_MAX


def test_that_a_log_has_no_producers_takes_next_to_nothing(store_path: Path) -> None:
    assert looked_at(store_path).view.last_stable_offset == 1
    logs = [looked_at(store_path) for _ in range(LOGS)]
    gc.collect()
    tracemalloc.start()
    try:
        assert {log.view.last_stable_offset for log in logs} == {1}
        for log in logs:
            for segment in log.view.segments:
                segment.unload()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(logs) < DECIDED_BYTES_MAX


def test_a_producer_that_comes_later_is_known(tmp_path: Path) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=StandingClock()) as store:
        log = log_of_one_record(store)
        followed = looked_at(tmp_path / "store")
        assert followed.producers.states() == []
        form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_as_leader(sent([(NOW_MS, b"b")], form))
        (state,) = followed.producers.states()
        assert (state.producer_id, state.transaction_offset) == (7, 1)
        assert followed.view.last_stable_offset == 1
