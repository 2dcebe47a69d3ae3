"""What kafkafs says of a running broker's settings and of its cleaning is what the broker says and does."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from real_brokers import releases
from waiting import until

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_brokers import Broker, RealKafka

HOUR_MS = 3_600_000
SETTINGS = {
    "log.roll.ms": 100 * HOUR_MS,
    "log.index.interval.bytes": 2048,
    "replica.high.watermark.checkpoint.interval.ms": 100,
    "log.segment.delete.delay.ms": 100,
}
RESTING = {"log.initial.task.delay.ms": HOUR_MS, "log.cleaner.backoff.ms": HOUR_MS}
CLEANING = {
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
}
SETTING = re.compile(r"^  (\S+)=(.*) sensitive=\w+ synonyms=\{(\w*)", re.MULTILINE)
ORIGINS = {
    "DYNAMIC_TOPIC_CONFIG": r"metadata log, (offset|snapshot) \S+",
    "DYNAMIC_BROKER_CONFIG": r"broker, metadata log, (offset|snapshot) \S+",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": r"broker, metadata log, (offset|snapshot) \S+",
    "STATIC_BROKER_CONFIG": "broker",
    "DEFAULT_CONFIG": "default",
}
LATE_MS = 1_500_000_000_000
"""The time of records that have been expired for years."""


class Living:
    """A broker with its tools, and kafkafs on its log directory."""

    def __init__(self, kafka: RealKafka, broker: Broker, version: str) -> None:
        self._kafka = kafka
        self._version = version
        self._broker = broker
        self._properties = broker.directory / "broker.properties"

    def tool(self, name: str, *arguments: object) -> str:
        to = ("--bootstrap-server", self._broker.bootstrap)
        return self._kafka.tool(name, *to, *arguments, version=self._version)

    def create(self, topic: str, **settings: object) -> None:
        given = (f"{key.replace('_', '.')}={value}" for key, value in settings.items())
        self.tool(
            "TopicCommand", "--create", "--topic", topic, *(part for each in given for part in ("--config", each))
        )

    def alter(self, *entity: object, **settings: object) -> None:
        given = ",".join(f"{key.replace('_', '.')}={value}" for key, value in settings.items())
        self.tool("ConfigCommand", "--alter", *entity, "--add-config", given)

    def ours(self, command: str, *arguments: str) -> list[dict[str, Any]]:
        paths = ",".join(map(str, self._broker.log_dirs))
        options = ("--server-properties", str(self._properties), "--jsonl")
        done = CliRunner().invoke(main, [*command.split(), paths, *arguments, *options])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    def counted(self, topic: str) -> list[dict[str, Any]]:
        """What is in the topic's log, by kafkafs."""
        done = CliRunner().invoke(main, ["stats", ",".join(map(str, self._broker.log_dirs)), topic, "--jsonl"])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    def settings_are_told(self, topic: str) -> bool:
        """Whether each setting has the value that the broker goes by, from where the broker has it."""
        said = self.tool("ConfigCommand", "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
        theirs = {key: (value, ORIGINS[source or "DEFAULT_CONFIG"]) for key, value, source in SETTING.findall(said)}
        assert len(theirs) > 30
        ours = {row["key"]: (row["value"], row["origin"]) for row in self.ours("topics config", topic)}
        assert set(theirs) == set(ours)
        odd = {
            key: (found, theirs[key])
            for key, found in ours.items()
            if found[0] != theirs[key][0] or not re.fullmatch(theirs[key][1], found[1])
        }
        print(topic, odd)  # what a failure shows
        return not odd

    def segments(self, topic: str) -> dict[int, int]:
        """The size of each segment of the topic's partition, by its base offset, as the broker's directory has it."""
        [directory] = [each / f"{topic}-0" for each in self._broker.log_dirs if (each / f"{topic}-0").is_dir()]
        sizes = {}
        for path in directory.glob("*.log"):
            with suppress(FileNotFoundError):  # the broker has just deleted it
                sizes[int(path.stem)] = path.stat().st_size
        return sizes

    def is_replicated(self, command: str) -> bool:
        """Whether the high watermark that the broker has noted is the log's end."""
        [plan] = self.ours(command, "orders")
        return bool(plan["highWatermark"] == plan["endOffset"] == 24)

    def start_offset(self, topic: str) -> int:
        said = self.tool("GetOffsetShell", "--topic", topic, "--time", "earliest")
        return int(said.strip().rpartition(":")[2])

    def cleaned_to(self, topic: str) -> int | None:
        for directory in self._broker.log_dirs:
            found = re.search(
                rf"^{topic} 0 (\d+)$", (directory / "cleaner-offset-checkpoint").read_text(), re.MULTILINE
            )
            if found:
                return int(found[1])
        return None

    async def fill(self, topic: str, *, time_ms: int | None = None, keys: int | None = None) -> None:
        """Send batches of one large record each, twice over the keys, so that there are several segments."""
        async with AIOKafkaProducer(bootstrap_servers=self._broker.bootstrap) as producer:
            for number in range(24):
                key = None if keys is None else b"%d" % (number % keys)
                value = b"%03d" % number + bytes(250_000)
                await producer.send_and_wait(topic, value, key=key, timestamp_ms=time_ms)


@contextmanager
def running(kafka: RealKafka, directory: Path, version: str, more: dict[str, int] = RESTING) -> Iterator[Living]:
    settings = {key: str(value) for key, value in {**SETTINGS, **more}.items()}
    with kafka.broker(directory, settings, version=version) as broker:
        yield Living(kafka, broker, version)


@pytest.mark.parametrize("version", releases("4"))
def test_settings_are_those_of_the_broker(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with running(real_kafka, tmp_path / "one", version) as living:
        living.create("orders", retention_ms=86_400_000, cleanup_policy="compact,delete")
        living.create("clicks", message_timestamp_type="LogAppendTime", max_message_bytes=2_000_000)
        until(lambda: living.settings_are_told("orders"), "the settings of orders")
        until(lambda: living.settings_are_told("clicks"), "the settings of clicks")
        living.alter("--entity-type", "brokers", "--entity-default", log_retention_ms=5_000_000, log_cleaner_threads=2)
        living.alter("--entity-type", "brokers", "--entity-name", 1, log_segment_bytes=7_000_000)
        living.alter("--entity-type", "topics", "--entity-name", "clicks", segment_ms=9_000_000)
        until(lambda: living.settings_are_told("clicks"), "the changed settings of clicks")
        orders = ("--entity-type", "topics", "--entity-name", "orders")
        living.tool("ConfigCommand", "--alter", *orders, "--delete-config", "retention.ms")
        until(lambda: living.settings_are_told("orders"), "the changed settings of orders")


@pytest.mark.parametrize("version", releases("3.9"))
def test_settings_that_contradict_each_other_hold_as_in_the_broker(
    real_kafka: RealKafka, tmp_path: Path, version: str
) -> None:
    with running(real_kafka, tmp_path / "one", version) as living:
        living.create("orders", max_compaction_lag_ms=1000)
        brokers = ("--entity-type", "brokers", "--entity-default")
        living.alter(*brokers, log_cleaner_max_compaction_lag_ms=5000)
        living.alter(*brokers, log_cleaner_min_compaction_lag_ms=9000)
        living.create("clicks")
        for topic in ("orders", "clicks"):
            until(lambda topic=topic: living.settings_are_told(topic), f"the settings of {topic}")
        with pytest.raises(real_kafka.Error, match="conflict topic config setting"):
            living.alter("--entity-type", "topics", "--entity-name", "orders", flush_ms=5)
        asyncio.run(living.fill("orders", keys=5))
        assert [row["partition"] for row in living.ours("compact", "orders", "--dry-run")] == [0]
        assert {row["records"] for row in living.counted("orders")} == {24}


@pytest.mark.parametrize("version", releases("4"))
@pytest.mark.parametrize("limit", [{"retention_bytes": 3_000_000}, {"retention_ms": HOUR_MS}], ids=["size", "time"])
def test_retention_does_what_its_plan_says(
    real_kafka: RealKafka, tmp_path: Path, version: str, limit: dict[str, int]
) -> None:
    with running(real_kafka, tmp_path / "one", version) as living:
        living.create("orders", **{"retention_ms": -1, "segment_bytes": 1_048_576, **limit})
        asyncio.run(living.fill("orders", time_ms=LATE_MS))
        until(lambda: living.is_replicated("retention"), "the broker noted the high watermark")
        before = set(living.segments("orders"))
        [plan] = living.ours("retention", "orders")
    gone = {each["baseOffset"] for each in plan["plan"] if each["fate"] != "keep"}
    assert len(before) >= 5
    assert gone
    with running(real_kafka, tmp_path / "one", version, CLEANING) as living:
        until(lambda: not before & gone & set(living.segments("orders")), "the broker's retention deleted segments")
        until(lambda: living.start_offset("orders") == plan["newStartOffset"], "the log's start moved")
        assert before - set(living.segments("orders")) == gone


@pytest.mark.parametrize("version", releases("3.9"))
def test_compaction_does_what_its_plan_says(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with running(real_kafka, tmp_path / "one", version) as living:
        living.create("orders", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_bytes=1_048_576)
        asyncio.run(living.fill("orders", keys=5))
        until(lambda: living.is_replicated("retention"), "the broker noted the high watermark")
        before = living.segments("orders")
        [plan] = living.ours("compact", "orders", "--dry-run")
    assert len(before) >= 5
    assert plan["verdict"] == "dirty"
    active = max(before)
    cleaned = {each["baseOffset"] for each in plan["plan"]}
    assert cleaned == set(before) - {active}
    with running(real_kafka, tmp_path / "one", version, CLEANING) as living:
        until(lambda: living.cleaned_to("orders") == plan["uncleanableOffset"], "the broker noted how far it came")
        left = sum(size for base, size in living.segments("orders").items() if base < active)
        assert left == plan["afterBytes"] + plan["beforeBytes"] - sum(before[base] for base in cleaned)
