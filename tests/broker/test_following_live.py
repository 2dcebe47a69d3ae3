"""GNU tail follows what a real broker compacts, moves between its log directories and removes by retention."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from broker_clients import create_topic
from real_brokers import releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mounts import Mounted
    from real_brokers import Broker, RealKafka

pytestmark = pytest.mark.e2e

TAIL = "tail -n +1 -s 0.1 --max-unchanged-stats=1 -f"
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    # No follower has a record that is compacted before the mount has looked once at its segment. Beside other tests two
    # looks may be seconds apart.
    "min.compaction.lag.ms": "4000",
}
RETAINED = {"segment.ms": "1500", "retention.bytes": "100"}
WAIT_S = 90


class Live:
    """A broker with two log directories, a mount of them, and numbers that are produced one after another."""

    def __init__(self, kafka: RealKafka, version: str, broker: Broker, mounted: Mounted) -> None:
        self.kafka = kafka
        self.version = version
        self.broker = broker
        self.mounted = mounted
        self.produced = 0

    def produce(self, topic: str, count: int = 40) -> None:
        """Produce numbers; by key, a compaction leaves one of ten."""
        asyncio.run(produce(self.broker.bootstrap, topic, range(self.produced, self.produced + count)))
        self.produced += count

    def until(self, condition: Callable[[], bool]) -> None:
        self.mounted.until(condition, seconds=WAIT_S)

    def follow(self, topic: str, output: Path) -> str:
        """The command that follows a topic, once all that was produced is there."""
        output.touch()
        last = self.produced - 1
        self.until(lambda: f'"value":"{last}"' in self.mounted.run(f"cat {topic}/0/records.jsonl").stdout)
        return f"exec {TAIL} {topic}/0/records.jsonl >{output} 2>{output}.errors"

    def move(self, topic: str) -> None:
        """Have the broker move the partition to the other log directory."""
        (here,) = [path for path in self.broker.log_dirs if (path / f"{topic}-0").exists()]
        (there,) = set(self.broker.log_dirs) - {here}
        replica = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(there)]}
        plan = self.broker.directory / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [replica]}))
        command = ("--bootstrap-server", self.broker.bootstrap, "--reassignment-json-file", plan, "--execute")
        self.kafka.tool("ReassignPartitionsCommand", *command, version=self.version)
        self.until(lambda: (there / f"{topic}-0").exists() and not (here / f"{topic}-0").exists())


async def produce(bootstrap: str, topic: str, numbers: range) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in numbers:
            await producer.send_and_wait(topic, key=b"%d" % (number % 10), value=b"%d" % number, partition=0)


def numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r'"value":"(\d+)"', path.read_text())]


@pytest.fixture(params=releases("3.9"))
def live(
    request: pytest.FixtureRequest, real_kafka: RealKafka, store_mounts: Callable[..., Mounted], tmp_path: Path
) -> Iterator[Live]:
    log_dirs = f"{tmp_path}/d1,{tmp_path}/d2"
    with real_kafka.broker(tmp_path / "broker", {**SETTINGS, "log.dirs": log_dirs}, version=request.param) as broker:
        asyncio.run(create_topic(broker.bootstrap, "compacted", 1, COMPACTED))
        asyncio.run(create_topic(broker.bootstrap, "retained", 1, RETAINED))
        yield Live(real_kafka, request.param, broker, store_mounts(log_dirs))


def test_every_record_is_followed_once_through_compactions_and_a_move(live: Live, tmp_path: Path) -> None:
    live.produce("compacted")
    output = tmp_path / "output"
    with live.mounted.started(live.follow("compacted", output)):
        begun = len(numbers(output))
        identities = set()
        while len(identities) < 4:
            live.produce("compacted")
            live.until(lambda: numbers(output)[-1:] == [live.produced - 1])
            identities.add(live.mounted.run("stat -c %i compacted/0/records.jsonl").stdout)
        live.move("compacted")
        for _ in range(2):
            live.produce("compacted")
            live.until(lambda: numbers(output)[-1:] == [live.produced - 1])
        assert numbers(output)[begun:] == list(range(live.produced))[begun:]
    assert (tmp_path / "output.errors").read_text() == ""
    assert "Traceback" not in live.mounted.said()


def test_a_reader_that_lags_has_what_is_held_and_hears_of_what_is_not(live: Live, tmp_path: Path) -> None:
    live.produce("retained")
    (directory,) = tmp_path.glob("d?/retained-0")
    output = tmp_path / "output"

    def removed() -> None:
        """Produce, and wait until all but the last of that is gone."""
        for _ in range(2):
            live.produce("retained")
            first = min(directory.glob("*.log"))
            while first.exists():
                live.produce("retained", 1)

    with live.mounted.started(live.follow("retained", output)) as tail:
        live.until(lambda: len(numbers(output)) > 0)
        begun = numbers(output)[0]
        tail.send_signal(signal.SIGSTOP)
        removed()
        tail.send_signal(signal.SIGCONT)
        live.until(lambda: numbers(output)[-1:] == [live.produced - 1])
        assert numbers(output) == list(range(begun, live.produced)), "what was removed while it stood still was held"
        live.mounted.process.send_signal(signal.SIGSTOP)
        removed()
        removed()
        live.mounted.process.send_signal(signal.SIGCONT)
        assert tail.wait(WAIT_S) == 1
    assert "Input/output error" in (tmp_path / "output.errors").read_text()
    assert live.mounted.said().count("were removed unread") == 1
    assert numbers(output) == list(range(begun, begun + len(numbers(output))))
