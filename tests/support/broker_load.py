"""A load on a running broker, and what was acknowledged of it: rolls, retention, compaction, transactions, commits.

`LoadedBroker` produces in a thread of its own until its block ends. Copies of the broker's logs are then held against
`acknowledged`: what a broker has acknowledged is at its offset in every copy that reaches so far.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from broker_clients import create_topic

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SETTINGS: Final = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""Of a broker whose retention, cleaner and checkpoints have much to do."""

PLAIN: Final = "plain"
RETAINED: Final = "retained"
COMPACTED: Final = "compacted"
TRANSACTIONAL: Final = "transactional"
TOPICS: Final = {
    PLAIN: {"segment.ms": "1000", "retention.ms": "60000"},
    RETAINED: {"segment.ms": "1000", "retention.bytes": "5000"},
    COMPACTED: {"segment.ms": "700", "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    TRANSACTIONAL: {"segment.ms": "1000", "retention.ms": "60000"},
}
GROUP: Final = "readers"
PARTITIONS: Final = 2
_KEYS: Final = 10
_BATCH: Final = 20


@dataclass
class LoadedBroker:
    """What was acknowledged: of each partition the key and the value at each offset, and the offsets of aborts."""

    bootstrap: str
    acknowledged: dict[tuple[str, int], dict[int, tuple[bytes, bytes]]] = field(default_factory=dict)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    error: BaseException | None = None

    def create_topics(self) -> None:
        """Make the topics."""
        for topic, settings in TOPICS.items():
            asyncio.run(create_topic(self.bootstrap, topic, PARTITIONS, settings))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Produce during the block; raises what went wrong with that at its end."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._run, args=(stopping,))
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self, stopping: threading.Event) -> None:
        try:
            asyncio.run(self._produce(stopping))
        except BaseException as error:  # noqa: BLE001 -- `running` raises it
            self.error = error

    async def _produce(self, stopping: threading.Event) -> None:
        plain = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5)
        transactions = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id="load")
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=GROUP, enable_auto_commit=False)
        async with plain, transactions, consumer:
            for number in count():
                if stopping.is_set():
                    return
                for topic in (PLAIN, RETAINED, COMPACTED):
                    await self._send(plain, topic, number)
                await transactions.begin_transaction()
                sent = await self._send(transactions, TRANSACTIONAL, number)
                if number % 4 == 3:
                    await transactions.abort_transaction()
                    self.aborted.update(sent)
                else:
                    await transactions.commit_transaction()
                ends = {TopicPartition(PLAIN, each): self._end(PLAIN, each) for each in range(PARTITIONS)}
                consumer.assign(list(ends))
                await consumer.commit({place: OffsetAndMetadata(end, "") for place, end in ends.items()})

    async def _send(self, producer: AIOKafkaProducer, topic: str, number: int) -> list[tuple[int, int]]:
        records = [(b"%d" % (each % _KEYS), b"%d.%d %s" % (number, each, b"x" * 100)) for each in range(_BATCH)]
        sent = [
            await producer.send(topic, value, key, partition=at % PARTITIONS) for at, (key, value) in enumerate(records)
        ]
        found = []
        for record, future in zip(records, sent, strict=True):
            at = await future
            self.acknowledged.setdefault((topic, at.partition), {})[at.offset] = record
            found.append((at.partition, at.offset))
        return found

    def _end(self, topic: str, partition: int) -> int:
        return max(self.acknowledged.get((topic, partition), {-1: (b"", b"")})) + 1

    def check_prefix(self, store: Path) -> None:
        """Assert that each log of a copy has what was acknowledged up to its end, and shows no aborted record."""
        with kafkafs.open(store, isolation="read_uncommitted") as copy:
            for (topic, number), acknowledged in list(self.acknowledged.items()):
                if topic in copy and number in copy[topic]:
                    _check_partition(copy[topic][number], dict(acknowledged), is_compacted=topic == COMPACTED)
        with kafkafs.open(store, isolation="read_committed") as copy:
            for number in range(PARTITIONS) if TRANSACTIONAL in copy else ():
                shown = {each.offset for each in copy[TRANSACTIONAL][number].records()}
                assert not shown & {offset for partition, offset in self.aborted if partition == number}

    def is_all_in(self, store: Path) -> bool:
        """Return whether each log of a copy reaches up to all that was acknowledged."""
        places = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        with kafkafs.open(store) as copy:
            return all(copy[topic][number].end_offset >= self._end(topic, number) > 0 for topic, number in places)


def _check_partition(
    partition: kafkafs.Partition, acknowledged: Mapping[int, tuple[bytes, bytes]], *, is_compacted: bool
) -> None:
    """Assert that a log has each record up to its end; a compacted one at least the last of each key."""
    start, end = partition.start_offset, partition.end_offset
    records = {each.offset: (each.key, each.value) for each in partition.records()}
    expected = {offset: record for offset, record in acknowledged.items() if start <= offset < end}
    newest = {key: offset for offset, (key, _) in sorted(expected.items())}
    wanted = set(newest.values()) if is_compacted else expected.keys()
    missing = sorted(wanted - records.keys())
    assert not missing, f"from {start} to {end}: {missing[:5]}"
    wrong = [offset for offset in records.keys() & expected.keys() if records[offset] != expected[offset]]
    assert not wrong, f"from {start} to {end}: {wrong[:5]}"
