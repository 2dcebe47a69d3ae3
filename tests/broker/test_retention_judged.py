"""A real broker adopts partitions after our retention, and finds in them what we find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consuming import consumed
from memory_logs import NOW_MS, StandingClock, sent
from partition_writer import open_closed_log

from storage.files import Files
from storage.log.log import Log
from storage.log.view import Isolation
from storage.record.encoding import BatchForm
from storage.store.cleaning import StoreRetention
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

SETTINGS = {"segment.bytes": "2000", "segment.index.bytes": "1200", "index.interval.bytes": "256", "retention.ms": "-1"}


def fill(log: Log, batches: int = 24) -> None:
    """Records of an idempotent producer, under one leader after the other."""
    for number in range(batches):
        form = BatchForm(producer_id=9001, producer_epoch=0, base_sequence=2 * number)
        rows = [(NOW_MS + 1000 * number, b"%03d" % number * 50), (NOW_MS + 1000 * number, b"more")]
        log.append_as_leader(sent(rows, form), leader_epoch=number // 5)


def take_half(store: Store, retentions: StoreRetention, topic: str) -> None:
    view = store.log(topic, 0).view
    kept = sum(segment.size_bytes for segment in view.segments[len(view.segments) // 2 :])
    store.topics.change_config(topic, {"retention.bytes": str(kept)})
    plan = retentions.plan(topic, 0)
    assert 2 * len(plan.deleted) == len(view.segments) - len(view.segments) % 2
    retentions.apply(topic, 0, plan)


def take_all(store: Store, retentions: StoreRetention, topic: str) -> None:
    store.topics.change_config(topic, {"retention.ms": "1"})
    plan = retentions.plan(topic, 0)
    assert plan.rolls
    retentions.apply(topic, 0, plan)


def take_all_and_go_on(store: Store, retentions: StoreRetention, topic: str) -> None:
    take_all(store, retentions, topic)
    fill_behind = BatchForm(producer_id=9001, producer_epoch=0, base_sequence=48)
    store.log(topic, 0).append_as_leader(sent(b"behind", fill_behind), leader_epoch=7)


ACTS = {"half": take_half, "all": take_all, "all-and-on": take_all_and_go_on}


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_broker_adopts_what_retention_has_left(real_kafka: RealKafka, tmp_path: Path, *, is_closed: bool) -> None:
    clock = StandingClock()
    store = Store.create([tmp_path / "store"], files=Files(), clock=clock, open_log=open_closed_log)
    for topic in ACTS:
        store.topics.create(topic, 1, SETTINGS)
        fill(store.log(topic, 0))
    clock.ms = NOW_MS + 86_400_000
    found = {}
    for topic, act in ACTS.items():
        act(store, StoreRetention(store, clock), topic)
        log = store.log(topic, 0)
        assert isinstance(log, Log)
        records = [list(consumed(log, isolation)) for isolation in Isolation]
        found[f"{topic}-0"] = (log.view.start_offset, log.view.end_offset, *records)
    if is_closed:
        store.close()
    directories = [tmp_path / "store" / name for name in found]
    deleted = [path for directory in directories for path in directory.glob("*.deleted")]
    assert bool(deleted) is not is_closed  # who died left them to the next one

    judged = real_kafka.judge_all(directories, settings=SETTINGS, clean=is_closed)
    for name, (start_offset, end_offset, uncommitted, committed) in found.items():
        judgement = judged[name]
        assert (judgement.log_start_offset, judgement.end_offset) == (start_offset, end_offset)
        assert [record.offset for record in judgement.read_uncommitted] == [record.offset for record in uncommitted]
        assert [record.value for record in judgement.read_committed] == [record.value for record in committed]
        assert [line for line in judgement.broker_log if " ERROR " in line or "WARN" in line] == []
    assert judged["all-0"].read_uncommitted == []
    assert [record.value for record in judged["all-and-on-0"].read_uncommitted] == [b"behind"]
    store.close()
