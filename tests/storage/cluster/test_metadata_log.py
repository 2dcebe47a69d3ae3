"""The metadata log is followed from its newest whole snapshot on, and never believed beyond damage."""

from __future__ import annotations

import os
from errno import EACCES
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, StandingClock, sent
from metadata_logs import BrokerDir, topic_record, topic_setting

from storage.cluster.metadata_log import MetadataLog
from storage.config import TopicConfig
from storage.internal import metadata
from storage.log.followed_log import FollowedLog
from storage.record import BatchForm
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.files import ReadableFile
    from storage.internal.cluster_image import ClusterImage

TOPIC_TYPE, TOPIC_VERSION = 2, 0
SNAPSHOT = "00000000000000000298-0000000001.checkpoint"


def topics(image: ClusterImage) -> list[str]:
    return sorted(image.topic_ids)


def add(memory: LogOnMemory, *names: str) -> None:
    for number, name in enumerate(names, memory.log.view.end_offset + 1):
        value = metadata.encode(TOPIC_TYPE, TOPIC_VERSION, {"name": name, "topicId": UUID(int=number << 90)})
        memory.log.append_as_leader(sent(value, key=None), leader_epoch=1)


@pytest.fixture
def memory() -> LogOnMemory:
    return LogOnMemory()


@pytest.fixture
def followed(memory: LogOnMemory) -> MetadataLog:
    """Follow the log in the files of `memory`."""
    log = FollowedLog(
        memory.clock, memory.files.directory(DIRECTORY), memory.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )
    return MetadataLog(memory.files.directory(DIRECTORY), log)


def test_what_is_appended_is_known_at_the_next_question(memory: LogOnMemory, followed: MetadataLog) -> None:
    assert followed.ask(topics) == []
    add(memory, "orders")
    assert followed.ask(topics) == ["orders"]
    add(memory, "clicks", "users")
    assert followed.ask(topics) == ["clicks", "orders", "users"]
    assert followed.ask(lambda image: image.end_offset) == 3


def test_what_is_truncated_is_forgotten(memory: LogOnMemory, followed: MetadataLog) -> None:
    add(memory, "orders", "clicks", "users")
    assert followed.ask(topics) == ["clicks", "orders", "users"]
    memory.log.truncate_to(1)
    add(memory, "others")
    assert followed.ask(topics) == ["orders", "others"]


def test_a_record_that_is_no_message_is_counted(memory: LogOnMemory, followed: MetadataLog) -> None:
    memory.log.append_as_leader(sent(b"\x01\xff\x01\x00", BatchForm(), key=None), leader_epoch=1)
    add(memory, "orders")
    assert followed.ask(topics) == ["orders"]
    assert list(followed.ask(lambda image: image.unknown).values()) == [1]


def test_reading_ends_before_damage(memory: LogOnMemory, followed: MetadataLog) -> None:
    add(memory, "orders", "clicks", "users")
    (name,) = [each for each in memory.files.names(DIRECTORY) if each.endswith(".log")]
    path = f"{DIRECTORY}/{name}"
    with memory.files.open_writing(path) as file:
        file.write_at(memory.files.read(path).index(b"clicks"), [b"x"])
    assert followed.ask(topics) == ["orders"]
    assert followed.damage is not None


def broker_log(broker: BrokerDir) -> MetadataLog:
    directory = f"{broker.path}/__cluster_metadata-0"
    config = TopicConfig.resolve()
    log = FollowedLog(
        StandingClock(), broker.files.directory(directory), config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )
    return MetadataLog(broker.files.directory(directory), log)


def test_a_log_without_its_beginning_is_damaged_until_the_snapshot_is_back() -> None:
    broker = BrokerDir(MemoryFiles(), first_offset=10)
    broker.tell(topic_record("clicks", UUID(int=99)))
    followed = broker_log(broker)
    for _ in range(2):
        assert followed.ask(topics) == ["clicks"]
        assert "begins at offset 10, and no whole snapshot ends there or later" in str(followed.damage)
    broker.add_snapshot(10, topic_record("orders"))
    assert followed.ask(topics) == ["clicks", "orders"]
    assert followed.damage is None


def test_a_snapshot_that_ends_after_the_log_takes_its_place() -> None:
    broker = BrokerDir(MemoryFiles())
    broker.tell(topic_record("old", UUID(int=99)), topic_setting("old", "retention.ms", "1"))
    broker.add_snapshot(10, topic_record("orders"))
    followed = broker_log(broker)
    assert followed.ask(lambda image: (topics(image), image.end_offset)) == (["orders"], 10)
    broker.tell(topic_setting("old", "retention.ms", "2"))
    assert followed.ask(lambda image: (topics(image), image.end_offset)) == (["orders"], 10)
    assert followed.damage is None


def test_a_snapshot_without_a_log_is_all_that_there_is() -> None:
    broker = BrokerDir(MemoryFiles())
    broker.add_snapshot(10, topic_record("orders"))
    assert broker_log(broker).ask(topics) == ["orders"]


class Denying(MemoryFiles):
    """Files of which some cannot be read."""

    denied = ""

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        if self.denied and self.denied in os.fspath(path):
            raise PermissionError(EACCES, os.strerror(EACCES), os.fspath(path))
        return super().open_reading(path)


def test_a_snapshot_that_may_not_be_read_is_needed_only_where_the_log_begins_later() -> None:
    files = Denying()
    whole, rest = BrokerDir(files), BrokerDir(files, "/rest", first_offset=10)
    files.denied = ".checkpoint"
    for broker in (whole, rest):
        broker.add_snapshot(10, topic_record("orders"))
        broker.tell(topic_record("clicks", UUID(int=99)))
    assert broker_log(whole).ask(topics) == ["clicks"]
    followed = broker_log(rest)
    for _ in range(2):
        with pytest.raises(PermissionError):
            followed.ask(topics)
    files.denied = ""
    assert followed.ask(topics) == ["clicks", "orders"]


def test_records_of_a_newer_version_are_told_apart_from_unknown_ones() -> None:
    broker = BrokerDir(MemoryFiles())
    newer = topic_record("orders")
    broker.tell(newer[:2] + b"\x1f" + newer[3:], b"\x01\x7f\x00")
    unread = broker_log(broker).ask(lambda image: dict(image.unread))
    assert unread == {"TopicRecord": "TopicRecord has no version 31 here; the newest is 0"}


class RealLog:
    """The metadata log of a real broker in a directory where it may be changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def ask(self, question: Callable[[ClusterImage], Any]) -> Any:
        from storage.clock import Clock
        from storage.config import StoreConfig
        from storage.files import Files

        files, config = Files(), StoreConfig.resolve({}).topic()
        log = FollowedLog(
            Clock(), files.directory(self.directory), config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
        )
        return MetadataLog(files.directory(self.directory), log).ask(question)


@pytest.fixture
def real(datasets: Callable[[str], Path], tmp_path: Path) -> RealLog:
    """Copy the metadata log of a broker."""
    source = datasets("kafka-3.9") / "kafka-3.9" / "d1" / "__cluster_metadata-0"
    for path in source.iterdir():
        if path.suffix in {".log", ".checkpoint"}:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return RealLog(tmp_path)


def everything(image: ClusterImage) -> tuple[Any, ...]:
    settings = {each: {key: found.value for key, found in of.items()} for each, of in image.settings.items()}
    topics = {each.name: (each.topic_id, each.partitions) for each in image.topics.values()}
    tables = (image.brokers, image.controllers, image.features, image.quotas, image.acls, image.users)
    return (settings, topics, *tables, image.next_producer_id, image.end_offset)


def test_a_snapshot_says_what_the_log_before_it_said(real: RealLog) -> None:
    from_snapshot = real.ask(everything)
    assert real.ask(lambda image: image.snapshot) == SNAPSHOT.removesuffix(".checkpoint")
    (real.directory / SNAPSHOT).unlink()
    assert real.ask(lambda image: image.snapshot) == ""
    assert real.ask(everything) == from_snapshot
    assert len(from_snapshot[1]) > 30


def test_a_snapshot_that_is_not_whole_does_not_count(real: RealLog) -> None:
    from_snapshot = real.ask(everything)
    path = real.directory / SNAPSHOT
    whole = path.read_bytes()
    for torn in (whole[:-1], whole[:-80], whole[:200] + b"\xff" + whole[201:], b""):
        path.write_bytes(torn)
        assert real.ask(lambda image: image.snapshot) == ""
        assert real.ask(everything) == from_snapshot
