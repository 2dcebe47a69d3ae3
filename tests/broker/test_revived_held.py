"""A broker that starts on very old records deletes and forgets nothing, until a topic is released."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker_clients import create_topic
from group_stores import commit, transaction
from one_broker_client import OneBrokerClient
from real_brokers import releases
from revived_stores import all_records, group_offsets, revive, revived_broker, stored_records
from waiting import until

import kafkafs
from storage.clock import Clock
from storage.files import Files
from storage.internal import TransactionState, offsets, transactions
from storage.log.view import Isolation
from storage.record import BatchForm, batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

OLD_MS: Final = 1_600_000_000_000
GROUP: Final = "billing"
EXPIRED_GROUP: Final = "of-an-old-broker"
ORDERS: Final = ("orders", 0)
RECORDS: Final = 200
IMPATIENT: Final = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
}
PRODUCER_ID, COORDINATED_ID, UNKNOWN_ID, SEQUENCES = 77, 78, 79, 5


UNKNOWN_FROM: Final = RECORDS + 2 * SEQUENCES
"""Where the transaction begins that no coordinator knows."""


def make_store(path: Path) -> None:
    """Make a store whose retention is over, with a producer, two open transactions, and groups.

    `__transaction_state` knows one of the two transactions.
    """
    with kafkafs.open([path], write=True) as store:
        week = {"retention.ms": "604800000"}
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
        orders = store.create("orders", settings=week)
        orders[0].append_many({"value": b"%d" % number, "timestamp": OLD_MS + number} for number in range(RECORDS))
        customers = store.create("customers", settings=compacted)
        customers[0].append_many(
            {"key": b"%d" % (number % 5), "value": b"%d" % number, "timestamp": OLD_MS + number}
            for number in range(500)
        )
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.topics.create(offsets.TOPIC, 2)
        opened.topics.create(transactions.TOPIC, 1)
        commit(opened, GROUP, "orders", 0, 42, at=_partition_of(GROUP, 2))
        commit(opened, EXPIRED_GROUP, "orders", 0, 43, at=_partition_of(EXPIRED_GROUP, 2), expireTimestamp=OLD_MS)
        transaction(opened, "hangs", COORDINATED_ID, TransactionState.ONGOING, 0)
        log = opened.log_to_write("orders", 0)
        for producer_id in (PRODUCER_ID, COORDINATED_ID, UNKNOWN_ID):
            batch = _batch(producer_id, 0, transactional=producer_id != PRODUCER_ID)
            log.append_as_leader(batch, leader_epoch=0)


def _batch(producer_id: int, sequence: int, *, transactional: bool = False) -> bytes:
    form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=transactional)
    rows = [(OLD_MS + number, None, b"from a producer", ()) for number in range(SEQUENCES)]
    (batch,) = batches_of_rows(rows, base_offset=None, form=form)
    return bytes(batch)


def _partition_of(group: str, count: int) -> int:
    """Return the partition of a group: Java's hash of the name."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return (value - (1 << 32) if value >= 1 << 31 else value).__abs__() % count


async def start_offset(bootstrap: str, topic: str) -> int:
    place = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        return int((await consumer.beginning_offsets([place]))[place])


def last_stable_offset(bootstrap: str) -> int:
    """Return the offset up to which every transaction of `orders` has ended."""
    place = TopicPartition(*ORDERS)

    async def ask() -> int:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
            return int((await consumer.end_offsets([place]))[place])

    return asyncio.run(ask())


async def produce(bootstrap: str, topic: str, *, is_idempotent: bool = False) -> int:
    """Produce an old record; return its offset."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=is_idempotent) as producer:
        sent = await producer.send_and_wait(topic, b"new", b"key", partition=0, timestamp_ms=OLD_MS)
        return int(sent.offset)


def until_retention_has_run(bootstrap: str) -> None:
    """Wait until the broker has deleted what it may delete."""
    name = f"canary-{OLD_MS}"
    asyncio.run(create_topic(bootstrap, name, 1, {"retention.ms": "1000", "file.delete.delay.ms": "100"}))
    asyncio.run(produce(bootstrap, name))
    until(lambda: asyncio.run(start_offset(bootstrap, name)) > 0, "retention has run")


@pytest.mark.parametrize("version", releases("4"))
def test_nothing_goes_until_it_is_released(version: str, real_kafka: RealKafka, tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "node"
    make_store(source)
    folder.mkdir()
    printed = revive(source, "--into", folder / "logs")
    assert f"open transaction of hangs, producer {COORDINATED_ID}: Ongoing" in printed
    (abort,) = [line for line in printed.splitlines() if "kafka-transactions" in line]
    stored = stored_records([source])
    (release,) = [line for line in printed.splitlines() if "kafka-configs" in line and "orders" in line]
    with revived_broker(real_kafka, folder, IMPATIENT, version=version) as broker:
        until_retention_has_run(broker.bootstrap)
        served = all_records(broker.bootstrap, Isolation.UNCOMMITTED, ["orders", "customers"])
        assert served == stored
        for group, offset in ((GROUP, 42), (EXPIRED_GROUP, 43)):
            assert asyncio.run(group_offsets(broker.bootstrap, group)) == {ORDERS: offset}
        with OneBrokerClient(broker.bootstrap) as client:
            client.produce("orders", _batch(PRODUCER_ID, SEQUENCES))
            with pytest.raises(AssertionError, match="answers with error 45"):
                client.produce("orders", _batch(PRODUCER_ID, 3 * SEQUENCES))
        ended = "the broker ends the transaction that its coordinator knows"
        until(lambda: last_stable_offset(broker.bootstrap) == UNKNOWN_FROM, ended)
        words = shlex.split(abort)[3:]
        real_kafka.tool("TransactionsCommand", "--bootstrap-server", broker.bootstrap, *words, version=version)
        until(lambda: len(_values(broker.bootstrap, "orders")) == RECORDS + 2 * SEQUENCES, "what is printed ends it")
        last = asyncio.run(produce(broker.bootstrap, "customers", is_idempotent=True))
        until(lambda: _sees(broker.bootstrap, "customers", last), "the new producer's record is there")
        words = shlex.split(release)[3:]
        real_kafka.tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, *words, version=version)
        until(lambda: asyncio.run(start_offset(broker.bootstrap, "orders")) > 0, "the released topic is cleaned up")
        broker.stop()
    with revived_broker(real_kafka, folder, {**IMPATIENT, "log.cleaner.enable": "true"}, version=version) as broker:
        asyncio.run(produce_keyed(broker.bootstrap))
        until(lambda: len(_values(broker.bootstrap, "customers")) < 500, "the compacted topic is cleaned")


async def produce_keyed(bootstrap: str) -> None:
    """Produce a record of a key, after which the segment before it can be cleaned."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        await producer.send_and_wait("customers", b"last", key=b"0", partition=0)


def _values(bootstrap: str, topic: str) -> list[bytes]:
    (records,) = all_records(bootstrap, Isolation.COMMITTED, [topic]).values()
    return [value for *_, value, _ in records]


def _sees(bootstrap: str, topic: str, offset: int) -> bool:
    (records,) = all_records(bootstrap, Isolation.COMMITTED, [topic]).values()
    return any(each[0] == offset for each in records)
