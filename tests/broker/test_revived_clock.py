"""Disks that are 30 days old, and a broker whose clock moves on by eight days: no record and no group offset goes.

Only `scripts/prove revive` runs it.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker_clients import create_topic
from group_stores import commit
from real_brokers import releases
from revived_stores import all_records, group_offsets, revived, revived_broker, stored_records
from waiting import until

import kafkafs
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from real_brokers import RealKafka

LIBRARY: Final = Path(__file__).parents[1] / "support" / "moved_clock.c"
DAY_MS: Final = 24 * 3600 * 1000
GROUP: Final = "billing"
ALWAYS_LOOKING: Final = {
    "log.initial.task.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "offsets.retention.check.interval.ms": "300",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "producer.id.expiration.check.interval.ms": "300",
}


def old_disk(path: Path) -> list[Path]:
    """Make a disk whose records and commits are 30 days old, with a topic whose retention was a week."""
    old_ms = int(time.time() * 1000) - 30 * DAY_MS
    with kafkafs.open([path], write=True) as store:
        orders = store.create("orders", settings={"retention.ms": str(7 * DAY_MS)})
        orders[0].append_many({"value": b"%d" % number, "timestamp": old_ms + number} for number in range(200))
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.topics.create(offsets.TOPIC, 1)
        commit(opened, GROUP, "orders", 0, 42, commitTimestamp=old_ms)
    return [path]


def dead_disks(source: Path, target: Path) -> list[Path]:
    """Copy the disks of a real broker, with its groups, less its metadata log."""
    shutil.copytree(source, target)
    shutil.rmtree(target / "d1" / "__cluster_metadata-0", ignore_errors=True)
    return [target / "d1", target / "d2"]


def moved_clock(folder: Path) -> Path:
    """Make a `java` in the folder whose clock is ahead by the seconds in a file, and return the file."""
    folder.mkdir()
    clock, java, library, real = folder / "clock", folder / "java", folder / "moved_clock.so", shutil.which("java")
    assert real is not None
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, LIBRARY], check=True)
    move(clock, 0)
    words = ["exec", "env", f"LD_PRELOAD={library}", f"MOVED_CLOCK={clock}", real]
    java.write_text(f'#!/bin/sh\n{shlex.join(words)} "$@"\n')
    java.chmod(0o755)
    return clock


def move(clock: Path, ahead_ms: int) -> None:
    """Set the clock, which running processes see."""
    with clock.open("r+b" if clock.exists() else "wb") as file:
        file.write((ahead_ms // 1000).to_bytes(8, sys.byteorder))


async def _start_offset(bootstrap: str, topic: str) -> int:
    place = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        return int((await consumer.beginning_offsets([place]))[place])


async def _produce(bootstrap: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"of today")


@pytest.mark.parametrize("name", ["", "kafka-2.2", "kafka-3.9"])
@pytest.mark.parametrize("version", releases("4"))
def test_eight_days_take_nothing(
    name: str,
    version: str,
    real_kafka: RealKafka,
    datasets: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disks = dead_disks(datasets(name) / name, tmp_path / "disks") if name else old_disk(tmp_path / "disk")
    groups = ("g1", "g2") if name else (GROUP,)
    folder = revived(tmp_path / "node", disks)
    clock = moved_clock(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(clock.parent), prepend=os.pathsep)
    with revived_broker(real_kafka, folder, ALWAYS_LOOKING, version=version) as broker:
        before = all_records(broker.bootstrap, Isolation.UNCOMMITTED)
        committed = {group: asyncio.run(group_offsets(broker.bootstrap, group)) for group in groups}
        assert all(committed.values())
        settings = {"retention.ms": str(7 * DAY_MS), "file.delete.delay.ms": "100"}
        asyncio.run(create_topic(broker.bootstrap, "canary", 1, settings))
        asyncio.run(_produce(broker.bootstrap, "canary"))
        move(clock, 8 * DAY_MS)
        until(lambda: asyncio.run(_start_offset(broker.bootstrap, "canary")) == 1, "a record of eight days ago goes")
        served = all_records(broker.bootstrap, Isolation.UNCOMMITTED)
        del served["canary", 0]
        assert served == before
        assert {group: asyncio.run(group_offsets(broker.bootstrap, group)) for group in groups} == committed
        broker.stop()
    stored = stored_records(disks)
    assert before == {place: records for place, records in stored.items() if place in before}
    assert {place for place, records in stored.items() if records} <= before.keys()
