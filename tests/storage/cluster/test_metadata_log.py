"""The metadata log is followed from its newest whole snapshot on, and never believed beyond damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from storage.cluster.metadata_log import MetadataLog
from storage.internal import metadata
from storage.partition.followed_log import FollowedLog
from storage.record import BatchForm
from storage.testing.logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, sent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
        memory.files, memory.clock, DIRECTORY, memory.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )
    return MetadataLog(memory.files, DIRECTORY, log)


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


def test_a_log_whose_beginning_is_gone_is_not_taken_for_all(memory: LogOnMemory, followed: MetadataLog) -> None:
    add(memory, "orders", "clicks")
    memory.log.roll()
    add(memory, "users")
    for name in memory.files.names(DIRECTORY):
        if name.startswith("0" * 20):
            memory.files.remove(f"{DIRECTORY}/{name}")
    assert followed.ask(topics) == ["users"]
    assert "begins at offset 2" in str(followed.damage)


class RealLog:
    """The metadata log of a real broker in a directory where it may be changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def ask(self, question: Callable[[ClusterImage], Any]) -> Any:
        from storage.clock import Clock
        from storage.config import StoreConfig
        from storage.files import Files

        files, config = Files(), StoreConfig.resolve({}).topic()
        log = FollowedLog(files, Clock(), self.directory, config, producer_expiration_ms=PRODUCER_EXPIRATION_MS)
        return MetadataLog(files, self.directory, log).ask(question)


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
