"""A partition that is written by us and by a real broker in turn: each goes on where the other stopped."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from broker_clients import CODECS, consume, create_topic
from consuming import consumed
from memory_logs import StandingClock
from partition_writer import Content, PartitionWriter, open_closed_log
from real_brokers import releases
from waiting import until

from storage.files import Files
from storage.log.view import Isolation
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

    from storage.log.log import Log

TOPIC = "shared"
NAME = f"{TOPIC}-0"
BROKER = {"log.index.size.max.bytes": "240", "log.index.interval.bytes": "256", "log.retention.ms": "-1"}
"""Indexes small enough for some segments."""

# Our producers, none of whose ids a broker has given out so soon.
IDEMPOTENT, COMMITTING, OPEN, TO_ABORT = range(9001, 9005)


def open_store(log_dir: Path, clock: StandingClock) -> Store:
    return Store.open(
        [log_dir],
        mode=Mode.READ_WRITE,
        files=Files(),
        clock=clock,
        open_log=open_closed_log,
        broker_settings=BROKER,
    )


def said_of_the_log(broker_log: Path, begin: int) -> list[str]:
    """What a broker said of our partition from that position of its output on, without times and threads."""
    lines = broker_log.read_bytes()[begin:].decode().splitlines()
    return [line.partition("] ")[2] for line in lines if re.search(rf"\b{NAME}\b", line)]


def complaints(said: list[str]) -> list[str]:
    return [line for line in said if not line.startswith("INFO ")]


def described(real_kafka: RealKafka, bootstrap: str, version: str) -> set[tuple[int | None, ...]]:
    """The producers of the partition as its broker knows them."""
    at = ("--bootstrap-server", bootstrap, "describe-producers", "--topic", TOPIC, "--partition", 0)
    _, *rows = real_kafka.tool("TransactionsCommand", *at, version=version).strip().splitlines()
    return {tuple(None if word == "None" else int(word) for word in row.split()) for row in rows}


def described_without_theirs(real_kafka: RealKafka, bootstrap: str, version: str) -> set[tuple[int | None, ...]] | None:
    """Return the same once no transaction is open but ours that is left open."""
    found = described(real_kafka, bootstrap, version)
    return found if {producer[0] for producer in found if producer[-1] is not None} == {OPEN} else None


def known(log: Log) -> set[tuple[int | None, ...]]:
    """The same, as we know them."""
    return {
        (
            state.producer_id,
            state.epoch,
            state.coordinator_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.transaction_offset,
        )
        for state in log.producers.states()
    }


async def produce(bootstrap: str) -> dict[int, Content]:
    """Have the broker append batches in every codec, and transactions that end either way."""
    sent: dict[int, Content] = {}

    async def send(producer: AIOKafkaProducer, count: int) -> None:
        for number in range(count):
            content = Content(b"theirs", b"%d" % number * 100, (("header", b""),))
            answer = await producer.send_and_wait(TOPIC, content.value, key=content.key, headers=list(content.headers))
            sent[answer.offset] = content

    for codec in CODECS:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=codec is not None
        ) as producer:
            await send(producer, 10)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="theirs") as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            await send(producer, 10)
            await end()
    return sent


def begin(writer: PartitionWriter) -> bytes:
    """Our first turn: returns the last batch of our idempotent producer."""
    writer.produce(OPEN, 2, is_transactional=True)
    for turn in range(20):
        last = writer.produce(IDEMPOTENT, 3)
        writer.produce(COMMITTING, 3, is_transactional=True)
        writer.end_transaction(COMMITTING, committed=turn % 2 == 0)
    writer.produce(TO_ABORT, 2, is_transactional=True)
    return last


def go_on(writer: PartitionWriter, last: bytes) -> None:
    """Our second turn: what we sent the first time counts, and so does what the broker did meanwhile."""
    states = {state.producer_id: state for state in writer.log.producers.states()}
    assert states[OPEN].transaction_offset is not None
    assert states[TO_ABORT].transaction_offset is None
    assert writer.repeat(last).is_duplicate
    theirs = sorted(states.keys() - {IDEMPOTENT, COMMITTING, OPEN, TO_ABORT})
    assert len(theirs) == len(CODECS)  # all but the one that has no id, and the transactional one
    for producer_id in theirs:
        writer.begin_at(producer_id, states[producer_id].last_sequence + 1, epoch=states[producer_id].epoch)
        writer.produce(producer_id, 2, epoch=states[producer_id].epoch)
    writer.end_transaction(OPEN, committed=True)
    begin(writer)


def compared(log: Log, isolation: Isolation) -> list[tuple[object, ...]]:
    """What `consume` is to find."""
    return [(offset, at, *content) for offset, at, _, *content, _ in consumed(log, isolation)]


@pytest.mark.parametrize("version", releases("4"))
def test_a_broker_and_we_take_turns(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    log_dir, broker_log = tmp_path / "logs", tmp_path / "broker.log"
    with real_kafka.broker(tmp_path, BROKER, version=version) as broker:
        asyncio.run(create_topic(broker.bootstrap, TOPIC, 1))
        broker.stop()

    clock = StandingClock(int(time.time() * 1000) - 600_000)  # a broker forgets producers who were silent for a day
    with open_store(log_dir, clock) as store:
        writer = PartitionWriter(store.log(TOPIC, 0), clock, seed="ours")
        last = begin(writer)
        producers = known(writer.log)
        (to_abort,) = (state for state in writer.log.producers.states() if state.producer_id == TO_ABORT)

    begin_at = broker_log.stat().st_size
    with real_kafka.broker(tmp_path, BROKER, version=version) as broker:
        said = said_of_the_log(broker_log, begin_at)
        assert not any("Recovering" in line for line in said)
        assert any("Loading producer state from snapshot file" in line for line in said)
        assert described(real_kafka, broker.bootstrap, version) == producers
        at = ("--bootstrap-server", broker.bootstrap, "abort", "--topic", TOPIC, "--partition", 0)
        start = ("--start-offset", to_abort.transaction_offset)
        real_kafka.tool("TransactionsCommand", *at, *start, version=version)
        writer.contents |= asyncio.run(produce(broker.bootstrap))
        # The broker answers that a transaction has ended before it has written so.
        producers = until(
            lambda: described_without_theirs(real_kafka, broker.bootstrap, version), "their transactions have ended"
        )
        broker.stop()
    assert complaints(said_of_the_log(broker_log, begin_at)) == []

    killed = tmp_path / "killed" / "logs"
    with open_store(log_dir, clock) as store:
        writer.log = store.log(TOPIC, 0)
        assert known(writer.log) == producers
        writer.leader_epoch = writer.log.epochs.latest_epoch
        clock.ms = int(time.time() * 1000) - 60_000
        go_on(writer, last)
        readings = {isolation: list(consumed(writer.log, isolation)) for isolation in Isolation}
        expected = {isolation: compared(writer.log, isolation) for isolation in Isolation}
        view = writer.log.view
        store.write_checkpoints()
        shutil.copytree(log_dir, killed)
    contents = {record.offset: Content(*record[3:6]) for record in readings[Isolation.UNCOMMITTED]}
    assert contents == writer.contents

    judged = real_kafka.judge(log_dir / NAME, version=version, clean=True)
    assert (judged.end_offset, judged.last_stable_offset) == (view.end_offset, view.last_stable_offset)
    assert judged.read_uncommitted == readings[Isolation.UNCOMMITTED]
    assert judged.read_committed == readings[Isolation.COMMITTED]
    assert judged.broker_log == []

    recovery_point = read_offsets(Files().directory(killed), OffsetCheckpoint.RECOVERY_POINT)[TOPIC, 0]
    unflushed = [base for base, end in pairwise((*view.bases, view.end_offset)) if end > recovery_point]
    assert 0 < len(unflushed) < len(view.bases)
    with real_kafka.broker(killed.parent, BROKER, version=version) as broker:
        for isolation in Isolation:
            assert asyncio.run(consume(broker.bootstrap, TOPIC, 0, isolation)) == expected[isolation]
        broker.stop()
    said = said_of_the_log(killed.parent / "broker.log", 0)
    assert complaints(said) == []
    recovered = [int(match[1]) for line in said if (match := re.search(r"Recovering unflushed segment (\d+)\.", line))]
    assert recovered == unflushed
