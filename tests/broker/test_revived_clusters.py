"""Three brokers die one after the other; of their disks one is lost and one is damaged, and no replicated record is."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer
from real_brokers import releases
from revived_stores import all_records, fingerprint, revive, revived, revived_broker

from storage.log.view import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import Broker, RealKafka

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 300
SETTINGS = {"log.segment.bytes": "1048576", "replica.lag.time.max.ms": "2000", "unclean.leader.election.enable": "true"}


async def produce(brokers: list[Broker], numbers: range) -> None:
    """Have these numbers acknowledged by all replicas that are in sync."""
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", request_timeout_ms=60_000) as producer:
        sent = [await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS) for number in numbers]
        await asyncio.gather(*sent)


def damaged(log: Path) -> None:
    """Change bytes in the middle of the records that all replicas had."""
    data = bytearray(log.read_bytes())
    data[len(data) // 8] ^= 0xFF
    log.write_bytes(data)


def test_every_replicated_record_is_there(real_kafka: RealKafka, tmp_path: Path) -> None:
    (version,) = releases("4")[-1:]
    with real_kafka.cluster(tmp_path / "cluster", SETTINGS, version=version, brokers=3) as brokers:
        real_kafka.tool(
            *("TopicCommand", "--bootstrap-server", brokers[0].bootstrap, "--create", "--topic", TOPIC),
            *("--partitions", PARTITIONS, "--replication-factor", 3),
            version=version,
        )
        for number, broker in enumerate(brokers[::-1]):
            asyncio.run(produce(brokers[: 3 - number], range(number * RECORDS, (number + 1) * RECORDS)))
            broker.kill()
    first, _, third = [broker.log_dirs[0] for broker in brokers]
    for partition in range(PARTITIONS):
        damaged(next((first / f"{TOPIC}-{partition}").glob("*.log")))
    before = fingerprint([first, third])
    planned = json.loads(revive(first, third, "--into", tmp_path / "none", "--plan", "--json"))
    (topic,) = [each for each in planned["topics"] if each["topic"] == TOPIC]
    folder = revived(tmp_path / "node", [first, third])
    assert fingerprint([first, third]) == before
    for partition in topic["partitions"]:
        assert partition["from"].startswith(str(first)), "it has the newest records"
        assert partition["filled"], "what is damaged there comes from the other"
        assert (partition["damaged"], partition["missing"]) == ([], 0)
    with revived_broker(real_kafka, folder, version=version) as broker:
        served = all_records(broker.bootstrap, Isolation.COMMITTED, [TOPIC])
    values = sorted(int(value) for records in served.values() for *_, value, _ in records)
    assert values == list(range(3 * RECORDS))
