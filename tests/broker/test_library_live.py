"""The library follows what a real broker appends to, rolls, compacts and deletes by retention meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from broker_clients import create_topic
from real_brokers import releases
from waiting import until

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_brokers import Broker, RealKafka

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "5000",  # the follower has to read each record before a cleaner removes it
}
RETAINED = {"segment.ms": "1000", "retention.bytes": "8000"}  # more than is produced at a time
COUNT = 40


@pytest.fixture(params=releases("4"))
def broker(request: pytest.FixtureRequest, real_kafka: RealKafka, tmp_path: Path) -> Iterator[Broker]:
    with real_kafka.broker(tmp_path / "broker", SETTINGS, version=request.param) as broker:
        asyncio.run(create_topic(broker.bootstrap, "compacted", 1, COMPACTED))
        asyncio.run(create_topic(broker.bootstrap, "retained", 1, RETAINED))
        yield broker


async def produce(bootstrap: str, topic: str, numbers: range) -> None:
    """Produce numbers; by key, a compaction leaves one of ten."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in numbers:
            await producer.send_and_wait(topic, key=b"%d" % (number % 10), value=b"%d" % number, partition=0)


@pytest.mark.parametrize("topic", ["compacted", "retained"])
def test_every_record_comes_once(broker: Broker, topic: str) -> None:
    with kafkafs.open(broker.log_dirs) as store:
        until(lambda: topic in store, "the topic's directory")
        directory = next(each / f"{topic}-0" for each in broker.log_dirs if (each / f"{topic}-0").exists())
        following = store[topic].follow({})
        files = set()
        produced = 0
        while len(files) < 6:  # logs that were rolled, and since then replaced or deleted
            numbers = range(produced, produced + COUNT)
            asyncio.run(produce(broker.bootstrap, topic, numbers))
            produced += COUNT
            found = [next(following) for _ in numbers]
            assert [(each.offset, int(each.value or b"")) for each in found] == [(each, each) for each in numbers]
            files |= {path.stat().st_ino for path in list(directory.glob("*.log"))}
        following.close()
        partition = store[topic][0]
        if topic == "compacted":
            until(lambda: partition.record(0) is None, "the first record to be compacted away")
            numbers_left = [int(each.value or b"") for each in partition.follow(0, timeout=0)]
            assert numbers_left == sorted(set(numbers_left))
            assert set(range(produced - 10, produced)) <= set(numbers_left)
        else:
            until(lambda: partition.start_offset > 0, "the first segment to be deleted")
            with pytest.raises(kafkafs.RecordsGoneError, match="were deleted unread"):
                next(partition.follow(0))
            lenient = [each.offset for each in partition.follow(0, timeout=0, fail_on_data_loss=False)]
            assert lenient == list(range(lenient[0], produced)) or not lenient
