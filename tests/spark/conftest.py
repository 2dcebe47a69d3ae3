"""One session of Spark for all tests, and stores to read with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from object_stores import CREDENTIALS
from shared_fixtures import group_by_shared_fixtures

from kafkafs.spark import session
from storage.clock import Clock
from storage.files import Files
from storage.record.encoding import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


ROOT = Path(__file__).parents[2]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
    group_by_shared_fixtures(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def spark(spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    """Start Spark once; queries that a test left running end with it."""
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([path] if path else [])])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.update(CREDENTIALS)  # workers inherit it from Java
    found = session(spark_settings)
    yield found
    for query in found.streams.active:
        query.stop()
    found.stop()


class GrowingStore:
    """A store of ours that a test writes while Spark reads it. Each record's value says where it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store.create([path], files=Files(), clock=Clock())

    def create(self, topic: str, partitions: int = 1) -> None:
        self.store.topics.create(topic, partitions, {"segment.bytes": "2048", "index.interval.bytes": "256"})

    def append(self, topic: str, partition: int, count: int, *, first_timestamp_ms: int = 1_700_000_000_000) -> None:
        log = self.store.log(topic, partition)
        for _ in range(count):
            offset = log.view.end_offset
            value = f"{topic}-{partition}-{offset}".encode()
            (batch,) = batches_of_rows([(first_timestamp_ms + offset, b"key", value, ())])
            log.append_as_leader(batch, leader_epoch=0)

    def retire(self, topic: str, partition: int, *, keep: int) -> int:
        """Delete all segments but the last ones, and return where the log begins then."""
        log = self.store.log(topic, partition)
        base_offset = log.view.segments[-keep].base_offset
        for name in log.remove_before(base_offset):
            log.directory.remove(name)
        return base_offset

    def values(self) -> list[str]:
        return sorted(
            f"{topic}-{partition}-{offset}"
            for topic, partitions in self.store.topics.inventory.topics.items()
            for partition in partitions
            for view in [self.store.log(topic, partition).view]
            for offset in range(view.start_offset, view.end_offset)
        )


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[GrowingStore]:
    """Make an empty store."""
    found = GrowingStore(tmp_path / "store")
    yield found
    found.store.close()
