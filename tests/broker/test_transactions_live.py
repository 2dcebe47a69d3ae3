"""Open transactions of running brokers are what kafka-transactions lists, describes and finds hanging."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from group_stores import write
from real_brokers import releases
from waiting import until

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import Broker, RealKafka

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}
STEPS = 9
HANGING = 4242
AGE_S_MAX = 5
"""How much older a transaction may be when the second of the two is asked."""

Row = dict[str, str]


class Sides:
    """What the two say of a broker's transactions."""

    def __init__(self, kafka: RealKafka, broker: Broker, version: str) -> None:
        self.kafka = kafka
        self.broker = broker
        self.version = version

    def tool(self, *arguments: object, name: str = "TransactionsCommand") -> list[Row]:
        text = self.kafka.tool(name, "--bootstrap-server", self.broker.bootstrap, *arguments, version=self.version)
        lines = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if "\t" in line]
        return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]

    def rows(self) -> list[Row]:
        done = CliRunner().invoke(main, ["cat", str(self.broker.log_dirs[0]), ".kafkafs/transactions"])
        assert done.exit_code == 0, done.output
        names, *lines = (line.split("\t") for line in done.stdout.splitlines())
        return [dict(zip(names, line, strict=True)) for line in lines]

    def listed(self) -> dict[str, tuple[str, ...]]:
        """What is open, by transactional id, as the coordinators describe it."""
        found = {}
        for each in self.tool("list"):
            if each["TransactionState"] in OPEN:
                [told] = self.tool("describe", "--transactional-id", each["TransactionalId"])
                names = ("ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs", "TopicPartitions")
                found[each["TransactionalId"]] = (
                    *(told[name] for name in names),
                    told["CurrentTransactionStartTimeMs"],
                )
        return found

    def agree(self) -> None:
        """Wait until both say the same."""
        said: list[object] = []

        def same() -> bool:
            theirs, ours = self.listed(), {row["transactionalId"]: row for row in self.rows()}
            said[:] = [theirs, ours]
            names = ("producerId", "producerEpoch", "state", "timeoutMs", "partitions")
            return theirs.keys() == ours.keys() and all(
                told[:-1] == tuple(ours[name][column] for column in names)
                and 0 <= time.time() - int(told[-1]) / 1000 - int(ours[name]["ageSeconds"]) <= AGE_S_MAX
                for name, told in theirs.items()
            )

        until(same, lambda: f"theirs and ours: {said}")
        print(self.version, said[0])

    def held(self) -> None:
        """Compare where the transactions that are open in a partition began, and which of them holds it up."""
        producers = self.tool("describe-producers", "--topic", "orders", "--partition", 0)
        open_at = {
            each["ProducerId"]: int(each["CurrentTransactionStartOffset"])
            for each in producers
            if each["CurrentTransactionStartOffset"].isdecimal()
        }
        rows = {row["producerId"]: row for row in self.rows()}
        begun = {producer: f"orders --partition 0 --start-offset {offset}" for producer, offset in open_at.items()}
        assert all(abort in rows[producer]["abort"] for producer, abort in begun.items())
        first = min(open_at, key=lambda producer: open_at[producer])
        assert [row["producerId"] for row in rows.values() if f"orders-0@{open_at[first]}" in row["holdsUp"]] == [first]

    def hanging(self) -> set[tuple[str, ...]]:
        """Those that no coordinator knows of, as the tool finds them."""
        names = ("Topic", "Partition", "ProducerId", "ProducerEpoch", "StartOffset")
        found = self.tool("find-hanging", "--broker-id", 1, "--max-transaction-timeout", 0)
        return {tuple(each[name] for name in names) for each in found}


@pytest.mark.parametrize("version", releases("3.9"))
def test_transactions_as_they_begin_and_end(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with real_kafka.broker(tmp_path / "one", SETTINGS, version=version) as broker:
        sides = Sides(real_kafka, broker, version)
        create = ("--create", "--topic", "orders", "--partitions", 2)
        sides.tool(*create, name="TopicCommand")
        asyncio.run(transact(sides))
        broker.stop()
        with Store.open(broker.log_dirs, mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
            offset = write(store, "orders", b"k", b"v", partition=1, producer_id=HANGING)
    with real_kafka.broker(tmp_path / "one", SETTINGS, version=version) as broker:
        sides = Sides(real_kafka, broker, version)
        found = until(sides.hanging, "the tool finds what hangs")
        assert found == {("orders", "1", str(HANGING), "0", str(offset))}
        [row] = sides.rows()
        names = ("transactionalId", "producerId", "producerEpoch", "state", "partitions", "holdsUp")
        assert [row[name] for name in names] == ["-", str(HANGING), "0", "-", "orders-1", f"orders-1@{offset}"]
        # The line that is shown ends it, once the place of a broker is put in.
        command, *arguments = row["abort"].replace("BROKER:9092", broker.bootstrap).split()
        assert command == "kafka-transactions.sh"
        real_kafka.tool("TransactionsCommand", *arguments, version=version)
        until(lambda: not sides.rows(), lambda: str(sides.rows()))
        assert not sides.hanging()


async def transact(sides: Sides) -> None:
    """Begin, commit and abort transactions of two producers by chance, while they are looked at."""
    chance = random.Random(13)
    producers = [
        AIOKafkaProducer(bootstrap_servers=sides.broker.bootstrap, transactional_id=name)
        for name in ("paid", "other id/ä")
    ]
    for producer in producers:
        await producer.start()
    is_open = [False, False]
    try:
        for _ in range(STEPS):
            at = chance.randrange(2)
            if not is_open[at]:
                await producers[at].begin_transaction()
                for partition in chance.sample([0, 1], chance.randint(1, 2)):
                    await producers[at].send_and_wait("orders", b"v", partition=partition)
            elif chance.random() < 0.5:
                await producers[at].commit_transaction()
            else:
                await producers[at].abort_transaction()
            is_open[at] = not is_open[at]
            await asyncio.to_thread(sides.agree)
        for producer, is_begun in zip(producers, is_open, strict=True):
            if not is_begun:
                await producer.begin_transaction()
            await producer.send_and_wait("orders", b"v", partition=0)
        await asyncio.to_thread(sides.agree)
        await asyncio.to_thread(sides.held)
    finally:
        for producer in producers:
            await producer.abort_transaction()
            await producer.stop()
    await asyncio.to_thread(sides.agree)
