"""Revives stores by the command, starts real brokers on the results, and reads them with a client of another maker.

folder = revived(tmp_path / "one", [source])
with revived_broker(real_kafka, folder, version="4") as broker:
    assert all_records(broker.bootstrap, Isolation.COMMITTED) == ...
"""

from __future__ import annotations

import asyncio
import hashlib
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiokafka.admin import AIOKafkaAdminClient
from click.testing import CliRunner
from waiting import until

import kafkafs
from kafkafs.cli import main
from storage.log.view import Isolation
from storage.properties import parse_properties

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # about how it loads its own files
    from kafka import KafkaConsumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from real_brokers import Broker, RealKafka

Records: TypeAlias = "dict[tuple[str, int], list[tuple[Any, ...]]]"

INTERNAL: Final = "__"
OF_THE_NETWORK: Final = (
    "advertised.listeners",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "listeners",
    "log.dirs",
)
"""The settings for which a test has others: it needs ports of its own."""


def revive(*arguments: object, status: int = 0) -> str:
    """Run the command; return what it printed."""
    result = CliRunner().invoke(main, ["revive", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result.output


def revived(folder: Path, sources: Sequence[Path], *options: object, status: int = 0) -> Path:
    """Revive the sources into `logs` of a new folder, as real brokers have it; return the folder."""
    folder.mkdir(parents=True)
    revive(*sources, "--into", folder / "logs", *options, status=status)
    return folder


@contextmanager
def revived_broker(
    real_kafka: RealKafka, folder: Path, settings: Mapping[str, str] | None = None, *, version: str
) -> Iterator[Broker]:
    """Start a broker as the properties file says, less the ports."""
    text = (folder / "logs" / "revived.properties").read_text()
    said = {key: value for key, value in parse_properties(text).items() if key not in OF_THE_NETWORK}
    with real_kafka.broker(folder, {**said, **(settings or {})}, version=version) as broker:
        yield broker


def all_records(bootstrap: str, isolation: Isolation, topics: Sequence[str] = ()) -> Records:
    """Return all that a consumer is given of every topic but the brokers' own, by partition."""
    places = asyncio.run(_places(bootstrap, topics))
    found: Records = {(place.topic, place.partition): [] for place in places}
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation.value)
    try:
        assigned = [TopicPartition(*place) for place in places]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        ends = until(lambda: _ends(consumer, assigned), "not every partition has a leader") if assigned else {}
        waiting = set(assigned)
        while waiting:
            for place, records in consumer.poll(100).items():
                found[place.topic, place.partition] += [
                    (each.offset, _time_ms(each.timestamp), each.key, each.value, tuple(each.headers))
                    for each in records
                ]
            waiting = {place for place in waiting if consumer.position(place) < ends[place]}
    finally:
        consumer.close()
    return found


def _ends(consumer: KafkaConsumer, assigned: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the partitions' ends; empty while one has no leader: the client leaves it out and fails."""
    try:
        ends: dict[TopicPartition, int] = consumer.end_offsets(assigned)
    except KeyError:
        return {}
    return ends


def _time_ms(timestamp: int | None) -> int:
    """Return a record's time as Kafka has it: that of an old record is -1."""
    return -1 if timestamp is None else timestamp


async def _places(bootstrap: str, topics: Sequence[str]) -> list[TopicPartition]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        return [
            TopicPartition(topic["topic"], each["partition"])
            for topic in await client.describe_topics(list(topics) or None)
            for each in topic["partitions"]
            if not topic["topic"].startswith(INTERNAL)
        ]
    finally:
        await client.close()


def stored_records(paths: Sequence[Path], isolation: Isolation = Isolation.UNCOMMITTED) -> Records:
    """Return the same of a store's files."""
    with kafkafs.open(paths, isolation=isolation.value) as store:
        return {
            (topic, number): [
                (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
                for each in store[topic][number].records()
            ]
            for topic in store
            if not topic.startswith(INTERNAL)
            for number in store[topic]
        }


async def group_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the offsets that a group has committed."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        found = await client.list_consumer_group_offsets(group)
        return {(place.topic, place.partition): each.offset for place, each in found.items()}
    finally:
        await client.close()


def fingerprint(paths: Sequence[Path]) -> dict[str, tuple[int, int, str]]:
    """Return the time, the size and a digest of every file below some directories, and the times of directories."""
    return {
        str(path): (
            path.stat().st_mtime_ns,
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for root in paths
        for path in [root, *sorted(root.rglob("*"))]
    }
