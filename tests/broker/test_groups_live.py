"""Groups, their lag and their members, and open transactions of running brokers, are what Kafka's own tools say."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner
from memory_logs import StandingClock
from real_brokers import releases
from waiting import until

from kafkafs.cli import main
from kafkafs.top.reading import Reader
from storage.files import Files
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from real_brokers import Broker, RealKafka

    from kafkafs.top.reading import PartitionReading

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
IDLE_TIME_MS_MAX = 180_000
"""After which the console's consumer ends by itself, so that none outlives a run that was killed."""
DESCRIBED = {
    "committedOffset": "CURRENT-OFFSET",
    "endOffset": "LOG-END-OFFSET",
    "lag": "LAG",
    "memberId": "CONSUMER-ID",
    "host": "HOST",
    "clientId": "CLIENT-ID",
}
"""The columns that both have, by our names."""


def table(text: str) -> list[dict[str, str]]:
    """The rows of what a tool prints as a table."""
    lines = [line.split() for line in text.splitlines() if line.split()]
    at = next(at for at, line in enumerate(lines) if line[0] in {"GROUP", "TransactionalId", "Topic"})
    return [dict(zip(lines[at], line, strict=False)) for line in lines[at + 1 :] if len(line) >= 4]


def printed(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def ours(broker: Broker, group: str) -> tuple[dict[tuple[str, str], dict[str, str]], set[str]]:
    rows = json.loads(printed("groups", broker.log_dirs[0], group, "--json"))
    by_partition = {
        (row["topic"], str(row["partition"])): {
            name: "-" if row[name] is None else str(row[name]) for name in DESCRIBED
        }
        for row in rows
        if row["topic"] is not None
    }
    return by_partition, {row["state"] for row in rows}


def theirs(kafka: RealKafka, broker: Broker, version: str, group: str) -> tuple[object, set[str]]:
    def tool(*options: str) -> list[dict[str, str]]:
        to = ("--bootstrap-server", broker.bootstrap, "--describe", "--group", group)
        return table(kafka.tool("ConsumerGroupCommand", *to, *options, version=version))

    by_partition = {
        (row["TOPIC"], row["PARTITION"]): {name: row[theirs] for name, theirs in DESCRIBED.items()} for row in tool()
    }
    states = {state for row in tool("--state") for state in row.values() if state in {"Stable", "Empty"}}
    return by_partition, states


@pytest.mark.parametrize("version", releases("4"))
def test_groups_and_transactions_of_a_running_broker(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    settings = SETTINGS | ({} if version == "4" else {"group.coordinator.rebalance.protocols": "classic,consumer"})
    with real_kafka.broker(tmp_path / "one", settings, version=version) as broker:
        to = ("--bootstrap-server", broker.bootstrap)
        create = ("--create", "--topic", "orders", "--partitions", 2)
        real_kafka.tool("TopicCommand", *to, *create, version=version)
        asyncio.run(classic(broker, lambda group: same(real_kafka, broker, version, group)))
        same(real_kafka, broker, version, "old")  # whose member has left
        newer(real_kafka, broker, version)
        asyncio.run(transactional(broker, lambda: transactions_are_the_same(real_kafka, broker, version)))


def same(kafka: RealKafka, broker: Broker, version: str, group: str) -> None:
    """Wait until both say the same of a group of which something is known; it may change while they answer."""
    said: list[tuple[object, set[str]]] = []

    def agree() -> bool:
        said[:] = [theirs(kafka, broker, version, group), ours(broker, group)]
        return bool(said[0][0]) and said[0] == said[1]

    until(agree, lambda: f"theirs and ours: {said}")
    print(version, group, said[0])


def looked_at(reader: Reader) -> dict[int, PartitionReading]:
    """What `kafkafs top` finds of the topic."""
    reading = reader.read()
    assert reading is not None
    assert reading.shortcomings == ()
    return {each.partition: each for each in reading.partitions if each.topic == "orders"}


async def classic(broker: Broker, check: Callable[[str], None]) -> None:
    """Commit as a member of a classic group, while it is looked at, and so is what the topic grows by."""
    clock = StandingClock()
    with Store.open(broker.log_dirs, mode=Mode.READ_ONLY, files=Files(), clock=clock) as store:
        reader = Reader(store, clock)
        until(lambda: [each.end_offset for each in looked_at(reader).values()] == [0, 0], "the partitions are there")
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(20):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        clock.ms += 5000
        assert [each.records_per_second for each in looked_at(reader).values()] == [2, 2]
        await commit_as_a_member(broker, check)
        clock.ms += 5000
        assert all(each.lags == (("old", 0),) for each in looked_at(reader).values())


async def commit_as_a_member(broker: Broker, check: Callable[[str], None]) -> None:
    """Read and commit in two steps."""
    options = {"group_id": "old", "client_id": "reader", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, **options) as consumer:
        for _ in range(7):
            await consumer.getone()
        await consumer.commit()
        await asyncio.to_thread(check, "old")
        await consumer.getmany(timeout_ms=500)
        await consumer.commit()
        await asyncio.to_thread(check, "old")


def newer(kafka: RealKafka, broker: Broker, version: str) -> None:
    """Look at a group of the protocol of KIP-848 while it has a member, and afterwards."""
    options = ("--consumer-property", "group.protocol=consumer", "--group", "new", "--timeout-ms", IDLE_TIME_MS_MAX)
    arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "orders", "--from-beginning", *options)
    with kafka.running_tool("ConsoleConsumer", *arguments, version=version):
        until(lambda: _has_read(broker), "the new group read everything")
        same(kafka, broker, version, "new")
    same(kafka, broker, version, "new")


def _has_read(broker: Broker) -> bool:
    result = CliRunner().invoke(main, ["groups", str(broker.log_dirs[0]), "new", "--json"])
    rows = json.loads(result.stdout) if result.exit_code == 0 else []
    return bool(rows) and all(row["lag"] == 0 and row["state"] == "Stable" for row in rows)


async def transactional(broker: Broker, check: Callable[[], None]) -> None:
    """Leave a transaction open while it is looked at.

    The broker answers that the transaction has ended before it has written so: the view follows a little later.
    """
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="paid") as producer:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"1", partition=1)
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"2", partition=1)
        await asyncio.to_thread(check)
        await producer.abort_transaction()
    until(
        lambda: len(printed("cat", broker.log_dirs[0], ".kafkafs/transactions").splitlines()) == 1,
        "no transaction was open",
    )


def transactions_are_the_same(kafka: RealKafka, broker: Broker, version: str) -> None:
    def tool(*arguments: object) -> list[dict[str, str]]:
        to = ("--bootstrap-server", broker.bootstrap)
        return table(kafka.tool("TransactionsCommand", *to, *arguments, version=version))

    names, line = printed("cat", broker.log_dirs[0], ".kafkafs/transactions").splitlines()
    row = dict(zip(names.split("\t"), line.split("\t"), strict=True))
    [listed] = [each for each in tool("list") if each["TransactionState"] == "Ongoing"]
    assert (row["transactionalId"], row["producerId"], row["state"]) == (
        listed["TransactionalId"],
        listed["ProducerId"],
        listed["TransactionState"],
    )
    [described] = table(
        kafka.tool(
            "TransactionsCommand",
            *("--bootstrap-server", broker.bootstrap, "describe-producers", "--topic", "orders", "--partition", 1),
            version=version,
        ).replace("ProducerId", "Topic", 1)
    )
    assert row["holdsUp"] == f"orders-1@{described['CurrentTransactionStartOffset']}"
    assert row["partitions"] == "orders-1"
    assert row["abort"].endswith(f"--start-offset {described['CurrentTransactionStartOffset']}")
