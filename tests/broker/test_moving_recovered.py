"""A broker that was killed while it moved a partition to another log directory: what it recovers, we recover.

All files of partitions come out equal but for these: a broker expands the indexes of the last segments at once, with
zeros, and goes on with the copy and with its leader epochs while it is looked at.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from waiting import until

from kafkafs.cli import main
from storage.log.epochs import EPOCHS_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import Broker, RealKafka

VERSION = "4"
RECORDS = 3000
VALUE = bytes(range(256)) * 6
THROTTLE = 400_000
ROLL_MS = 300
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.segment.bytes": "1048576",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.retention.ms": "3600000",
}


TOPICS = {
    "moved": [],
    "old": ["retention.ms=1000"],
    "compacted": ["cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01"],
}


def settings(root: Path) -> dict[str, str]:
    return {**SETTINGS, "log.dirs": f"{root / 'd1'},{root / 'd2'}"}


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))


async def abort(bootstrap: str) -> None:
    """Have a transaction aborted in the first segment of the compacted topic."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aborting") as producer:
        await producer.begin_transaction()
        for key in (b"first", b"second"):
            await producer.send_and_wait("compacted", VALUE, key=key, partition=0)
        await producer.abort_transaction()


async def roll(bootstrap: str, directory: Path) -> None:
    """Have that segment rolled, so that compaction removes the batches of the transaction."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aborting") as producer:
        while len(segments(directory)) < 2:
            async with producer.transaction():
                await producer.send_and_wait("compacted", VALUE, key=b"third", partition=0)


async def produce(bootstrap: str, topic: str, count: int, timestamp: int | None = None) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=5)
    await producer.start()
    try:
        for _ in range(count):
            await producer.send(topic, VALUE, partition=0, timestamp_ms=timestamp)
    finally:
        await producer.stop()


def is_compacted(root: Path) -> bool:
    """Whether the cleaner says that it has compacted a segment."""
    cleaned = [path.read_text() for path in root.glob("d?/cleaner-offset-checkpoint")]
    return any(re.search(r"(?m)^compacted 0 [1-9]", text) for text in cleaned)


def copies(root: Path) -> list[Path]:
    return [*root.glob("d?/moved-0.*-future")]


def home(root: Path) -> Path:
    (path,) = root.glob("d?/moved-0")
    return path


def begin_moving(real_kafka: RealKafka, broker: Broker, root: Path) -> None:
    """Have the broker copy the partition into the log directory where it is not, slowly."""
    other = root / ("d2" if home(root).parent.name == "d1" else "d1")
    plan = root / "plan.json"
    replicas = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [str(other)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [replicas]}))
    at = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", plan, "--execute")
    real_kafka.tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *at,
        "--replica-alter-log-dirs-throttle",
        THROTTLE,
        version=VERSION,
    )
    until(lambda: any(len([*path.glob("*.log")]) > 1 for path in copies(root)), "a copy with two segments")


def move_and_kill(real_kafka: RealKafka, root: Path) -> None:
    with real_kafka.broker(root, settings(root), version=VERSION) as broker:
        for topic, config in TOPICS.items():
            at = ("--bootstrap-server", broker.bootstrap, "--create", "--topic", topic, "--partitions", 1)
            given = [part for setting in config for part in ("--config", setting)]
            real_kafka.tool("TopicCommand", *at, *given, version=VERSION)
        (compacted,) = until(lambda: [*root.glob("d?/compacted-0")], "the broker makes the partition's directory")
        asyncio.run(abort(broker.bootstrap))
        # Not before: on a slow machine the segment would be rolled between the transaction's records and its marker.
        at = ("--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", "compacted")
        real_kafka.tool("ConfigCommand", *at, "--alter", "--add-config", f"segment.ms={ROLL_MS}", version=VERSION)
        asyncio.run(roll(broker.bootstrap, compacted))
        asyncio.run(produce(broker.bootstrap, "moved", RECORDS))
        begin_moving(real_kafka, broker, root)
        until(lambda: is_compacted(root), "the cleaner has compacted a segment")
        broker.kill()


def recovered_by_the_broker(real_kafka: RealKafka, root: Path) -> None:
    """Start a broker, and kill it as soon as it has loaded its logs."""
    given = [f"{name}={value}" for name, value in settings(root).items()]
    command = ["scripts/kafka", "start", "--version", VERSION, str(root), *given]
    said = root / "broker.log"
    begin = said.stat().st_size
    starting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: re.search(rb"Loaded \d+ logs in", said.read_bytes()[begin:]), "the broker loads its logs")
        # At once: it would go on copying while a command starts that kills it.
        os.kill(int((root / "broker.pid").read_text()), signal.SIGKILL)
    finally:
        real_kafka.run("kill", root)
        starting.wait()


def partitions(root: Path) -> dict[str, dict[str, bytes]]:
    """The files of each partition, copies included, but for the cluster's own log."""
    found = {}
    for path in root.glob("d?/*-*"):
        if path.is_dir() and not path.name.startswith("__cluster_metadata"):
            found[str(path.relative_to(root))] = {each.name: each.read_bytes() for each in path.iterdir()}
    return found


def recover(root: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["recover", f"{root / 'd1'},{root / 'd2'}", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def check_equal(name: str, ours: dict[str, bytes], theirs: dict[str, bytes]) -> None:
    theirs.pop(f"{EPOCHS_NAME}.tmp", None)  # the broker was killed while it wrote the epoch of what it copied
    ours_epochs, their_epochs = (each.pop(EPOCHS_NAME).splitlines()[2:] for each in (ours, theirs))
    assert their_epochs[: len(ours_epochs)] == ours_epochs, name
    assert ours.keys() == theirs.keys(), name
    last = max(each for each in ours if each.endswith(".log"))[:20]
    for file, data in ours.items():
        if data != theirs[file]:
            assert file[:20] == last, (name, file)
            if file.endswith("index"):
                assert theirs[file].rstrip(b"\0") == data.rstrip(b"\0"), (name, file)
            else:
                assert file.endswith(".log"), (name, file)
                assert "-future" in name, (name, file)
                assert theirs[file].startswith(data), (name, file)


def test_a_move_that_was_interrupted_is_recovered_as_the_broker_recovers_it(
    real_kafka: RealKafka, tmp_path: Path
) -> None:
    killed, theirs, ours = (tmp_path / name for name in ("killed", "theirs", "ours"))
    move_and_kill(real_kafka, killed)
    (copy,) = copies(killed)
    (aborted,) = killed.glob(f"d?/compacted-0/{0:020d}.txnindex")
    assert f"compacted 0 {int(segments(aborted.parent)[-1][:20])}" in points_of(aborted.parent.parent)
    for root in (theirs, ours):
        shutil.copytree(killed, root)
    recovered_by_the_broker(real_kafka, theirs)

    before = partitions(ours)
    plan = recover(ours).splitlines()
    assert partitions(ours) == before
    done = recover(ours, "--apply").splitlines()
    assert plan[:-2] == done[:-1]
    assert str(ours / copy.relative_to(killed)) in "\n".join(done)
    after = partitions(ours)
    assert after.keys() == partitions(theirs).keys()
    for name, files in partitions(theirs).items():
        check_equal(name, dict(after[name]), dict(files))
    for directory in ("d1", "d2"):
        assert (ours / directory / ".kafka_cleanshutdown").exists()
    # Recovering the compacted segment, which ends at the recovery point, would lose the entry of the transaction.
    assert (ours / aborted.relative_to(killed)).read_bytes() == aborted.read_bytes() != b""
    check_nothing_young_is_deleted(real_kafka, ours)


def points_of(log_dir: Path) -> list[str]:
    return (log_dir / "recovery-point-offset-checkpoint").read_text().splitlines()


def check_nothing_young_is_deleted(real_kafka: RealKafka, root: Path) -> None:
    """Have a broker go on with the recovered store: it finishes the move, and retention leaves what is young."""
    begin = (root / "broker.log").stat().st_size
    (copy,) = copies(root)
    target = copy.with_name("moved-0")
    with real_kafka.broker(root, settings(root), version=VERSION) as broker:
        until(target.exists, "the move ends")
        asyncio.run(produce(broker.bootstrap, "old", 2000, timestamp=1))
        until(lambda: [*root.glob("d?/old-0/*.deleted")], "retention deletes what is old")
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "moved", "--time")
        bounds = [real_kafka.tool("GetOffsetShell", *at, end, version=VERSION).split(":")[-1] for end in (-2, -1)]
        assert [int(bound) for bound in bounds] == [0, RECORDS]
        broker.stop()
    said = (root / "broker.log").read_text()[begin:]
    assert "Recovering unflushed segment" not in "".join(
        line for line in said.splitlines(keepends=True) if "__cluster_metadata" not in line
    )
