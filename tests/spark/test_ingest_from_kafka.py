"""Topics of a real broker, ingested through Spark's own connector: what a consumer reads there is in the store once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from broker_clients import CODECS, consume, create_topic, grow_topic
from cluster_drivers import Driver, environment
from consuming import consumed
from held_processes import Rules, kill_session

from storage.clock import Clock
from storage.commit.ledger import Ledger
from storage.files import Files
from storage.log.view import Isolation
from storage.record.compression import Codec
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from real_brokers import Broker, RealKafka

TIME_MS = 1_700_000_000_123
CONTENTS: tuple[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]], ...] = (
    (b"key", b"value", []),
    (None, b"without a key" * 50, [("name", b"1"), ("name", b"2"), ("null", None), ("empty", b"")]),
    (b"gone", None, [("why", b"a tombstone")]),
    (b"", b"", [("\u00e4", b"\xff\x00")]),
)
LEDGER = r"os\.rename .*/kafkafs-commits\.json$"
COMMAND_TIME_S_MAX = 300


class Ingesting(NamedTuple):
    """A store that topics of a broker are ingested into, as the command line says it."""

    bootstrap: str
    store: Path
    checkpoint: Path

    def arguments(self, topic: str, *options: str) -> list[str]:
        source = ["--from-kafka", self.bootstrap, "--topic", topic, "--checkpoint", str(self.checkpoint)]
        return ["spark", "ingest", str(self.store), *source, "--jsonl", *options]

    def theirs(self, topic: str, isolation: Isolation = Isolation.UNCOMMITTED) -> dict[int, list[tuple[object, ...]]]:
        """What a consumer reads of the broker, by partition."""
        with self.opened() as store:
            partitions = store.topics.partitions(topic)
        return {each: asyncio.run(consume(self.bootstrap, topic, each, isolation)) for each in partitions}

    def ours(self, topic: str) -> dict[int, list[tuple[object, ...]]]:
        """The same of the store."""
        found = {}
        with self.opened() as store:
            for partition in store.topics.partitions(topic):
                records = list(consumed(store.log(topic, partition), Isolation.UNCOMMITTED))
                assert {record.timestamp_type for record in records} <= {"CreateTime"}
                found[partition] = [(offset, at, *content) for offset, at, _, *content, _ in records]
        return found

    def sizes(self, topic: str) -> list[int]:
        """How many bytes lie in the log of each partition, whether they are to be seen or not."""
        directories = sorted(self.store.glob(f"{topic}-[0-9]"))
        return [sum(path.stat().st_size for path in each.glob("*.log")) for each in directories]

    def opened(self, mode: Mode = Mode.READ_ONLY) -> Store:
        return Store.open([self.store], mode=mode, files=Files(), clock=Clock())


@pytest.fixture(scope="module")
def settings(spark_settings: dict[str, str], real_kafka: RealKafka) -> dict[str, str]:
    """Give the settings of a Spark that can read brokers."""
    return {**spark_settings, "spark.jars": real_kafka.connector(metadata.version("pyspark"))}


@pytest.fixture(scope="module")
def broker(real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run a broker that keeps old records."""
    with real_kafka.broker(tmp_path_factory.mktemp("broker"), {"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Rules:
    return Rules(tmp_path_factory.mktemp("held") / "rules")


@pytest.fixture(scope="module")
def driver(settings: dict[str, str], rules: Rules, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Run a process with one session, which serves several commands."""
    running = Driver(settings, environment(rules), tmp_path_factory.mktemp("driver") / "log")
    yield running
    running.kill()


@pytest.fixture
def ingesting(broker: Broker, tmp_path: Path) -> Ingesting:
    """Make an empty store."""
    Store.create([tmp_path / "store"], files=Files(), clock=Clock()).close()
    return Ingesting(broker.bootstrap, tmp_path / "store", tmp_path / "checkpoint")


async def fill(bootstrap: str, topic: str, partitions: int) -> None:
    """Have producers of every codec send records of every kind, whose times are their own and go back."""
    for number, codec in enumerate(CODECS):
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=20) as producer:
            for partition in range(partitions):
                for place, (key, value, headers) in enumerate(CONTENTS):
                    at = {"partition": partition, "timestamp_ms": TIME_MS + 1000 * number - place}
                    await producer.send(topic, value, key, headers=headers, **at)


async def transact(bootstrap: str, topic: str) -> None:
    """Have transactions be committed and aborted in turn."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="app") as producer:
        for turn in range(4):
            await producer.begin_transaction()
            for number in range(3):
                await producer.send(topic, b"%d-%d" % (turn, number), partition=0)
            await (producer.abort_transaction() if turn % 2 else producer.commit_transaction())


def run(settings: dict[str, str], rules: Rules, arguments: Sequence[str]) -> tuple[str, str]:
    """What a command says that is a process of its own."""
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-P", "-m", "kafkafs", *arguments, *confs]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment(rules)},
    ) as process:
        try:
            return process.communicate(timeout=COMMAND_TIME_S_MAX)
        finally:
            kill_session(process)


def appended(stdout: str) -> dict[int, tuple[int, int]]:
    """What a command says of each partition: where what it has appended begins, and ends."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in stdout.splitlines()]
    assert all(row["records"] == row["endOffset"] - row["startOffset"] for row in rows)
    return {row["partition"]: (row["startOffset"], row["endOffset"]) for row in rows}


def contents(found: dict[int, list[tuple[object, ...]]]) -> Counter[str]:
    """How often each record is there, wherever that is."""
    return Counter(repr(record[1:]) for records in found.values() for record in records)


def codecs(broker: Broker, topic: str) -> set[Codec]:
    """The codecs of a topic's batches as its broker has them."""
    with Store.open(broker.log_dirs, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        logs = [store.log(topic, partition) for partition in store.topics.partitions(topic)]
        return {batch.codec for log in logs for batch in log.view.batches(0)}


@pytest.mark.parametrize("isolation", Isolation)
def test_what_was_aborted_is_there_unless_it_is_declined(
    isolation: Isolation, broker: Broker, ingesting: Ingesting, driver: Driver
) -> None:
    topic = f"transactions-{isolation.value}"
    asyncio.run(create_topic(broker.bootstrap, topic, 1))
    asyncio.run(transact(broker.bootstrap, topic))
    declined = ["--kafka-option", "kafka.isolation.level=read_committed"] if isolation is Isolation.COMMITTED else []
    answer = driver.run("command", arguments=ingesting.arguments(topic, *declined))
    assert answer["status"] == 0, answer
    theirs = ingesting.theirs(topic, isolation)[0]
    assert [record[1:] for record in ingesting.ours(topic)[0]] == [record[1:] for record in theirs]
    assert len(theirs) == (6 if isolation is Isolation.COMMITTED else 12)


def test_a_partition_that_the_store_lacks_is_named(
    broker: Broker, ingesting: Ingesting, driver: Driver, tmp_path: Path
) -> None:
    """It goes on once the partition is made; another checkpoint, by which keys choose, has all of it once more."""
    asyncio.run(create_topic(broker.bootstrap, "wide", 2))
    asyncio.run(fill(broker.bootstrap, "wide", 2))
    answer = driver.run("command", arguments=ingesting.arguments("wide"))
    assert (answer["status"], answer["stdout"]) == (1, "")
    assert "the topic wide has no partition 1" in answer["stderr"]
    with ingesting.opened(Mode.READ_WRITE) as store:
        store.topics.create("wide", 2)
    answer = driver.run("command", arguments=ingesting.arguments("wide"))
    assert answer["status"] == 0, answer
    theirs = ingesting.theirs("wide")
    assert ingesting.ours("wide") == theirs

    anew = ingesting._replace(checkpoint=tmp_path / "anew")
    answer = driver.run("command", arguments=anew.arguments("wide", "--by-key"))
    assert answer["status"] == 0, answer
    assert contents(ingesting.ours("wide")) == contents(theirs) + contents(theirs)


def test_each_record_is_there_once(
    broker: Broker, ingesting: Ingesting, settings: dict[str, str], rules: Rules, driver: Driver
) -> None:
    """The last test here: it kills the driver."""
    count = len(CODECS) * len(CONTENTS)
    arguments = ingesting.arguments("orders")
    asyncio.run(create_topic(broker.bootstrap, "orders", 2))
    asyncio.run(fill(broker.bootstrap, "orders", 2))
    assert codecs(broker, "orders") == set(Codec)
    with ingesting.opened(Mode.READ_WRITE) as store:
        store.topics.create("orders", 2)
    answer = driver.run("command", arguments=arguments)
    assert appended(answer["stdout"]) == {0: (0, count), 1: (0, count)}, answer
    assert answer["stderr"].startswith(f"appended {2 * count} records to 2 partitions in ")
    theirs = ingesting.theirs("orders")
    assert ingesting.ours("orders") == theirs
    assert [offset for offset, *_ in theirs[0]] == list(range(count))

    answer = driver.run("command", arguments=arguments)
    assert (answer["status"], answer["stdout"]) == (0, ""), answer
    assert answer["stderr"].startswith("appended nothing: all of it is in the store already, or there is nothing in ")

    asyncio.run(grow_topic(broker.bootstrap, "orders", 3))
    asyncio.run(fill(broker.bootstrap, "orders", 3))
    with ingesting.opened(Mode.READ_WRITE) as store:
        store.topics.add_partition("orders")
    sizes = ingesting.sizes("orders")
    rules.hold("half", LEDGER, rf"open {ingesting.store}/orders-1/\d+\.log$")
    driver.begin("command", arguments=arguments)
    rules.taken("half")
    driver.kill()
    rules.lift("half")
    assert Ledger([Files().directory(ingesting.store)]).current.pending is not None
    assert [now > before for before, now in zip(sizes, ingesting.sizes("orders"), strict=True)] == [True, False, False]
    assert [len(records) for records in ingesting.ours("orders").values()] == [count, count, 0]

    asyncio.run(fill(broker.bootstrap, "orders", 1))
    stdout, stderr = run(settings, rules, arguments)
    assert appended(stdout) == {0: (count, 3 * count), 1: (count, 2 * count), 2: (0, count)}, stderr
    assert f"appended {4 * count} records to 3 partitions in " in stderr
    assert ingesting.ours("orders") == ingesting.theirs("orders")
