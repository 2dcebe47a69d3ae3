"""One session of Spark for all tests, and stores to read with it.

Where Java or PySpark is missing the tests are not run, and say so.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.cli.tree import node_at, opened_tree
from kafkafs.spark import session
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from storage.clock import Clock
from storage.files import Files
from storage.record.encoding import batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from storage.log.view import Isolation

JAVA_VERSION_MIN = 17
ROOT = Path(__file__).parents[2]
LOGGING = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)


def require_spark() -> None:
    """Have the test not run where Spark cannot."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    if java is None:
        pytest.skip("not run: there is no Java, which Spark needs")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', told)
    if match is None or int(match[1]) < JAVA_VERSION_MIN:
        pytest.skip(f"not run: Spark needs Java {JAVA_VERSION_MIN}, and {java} is another")
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("not run: PySpark is not installed")


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give the settings of a small Spark that says little and whose tasks may fail once."""
    require_spark()
    root = tmp_path_factory.mktemp("spark")
    logging = root / "log4j2.properties"
    logging.write_text(LOGGING)
    options = f"-Dlog4j2.configurationFile={logging} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {
        "spark.master": "local[2,2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(root / "local"),
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@pytest.fixture(scope="session")
def spark(spark_settings: dict[str, str]) -> Iterator[SparkSession]:
    """Start Spark once; queries that a test left running end with it."""
    path = os.environ.get("PYTHONPATH")
    if not os.environ.get("KAFKAFS_TEST_INSTALLED"):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([path] if path else [])])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    found = session(spark_settings)
    yield found
    for query in found.streams.active:
        query.stop()
    found.stop()


@pytest.fixture(scope="session")
def mounted_lines() -> Callable[[Sequence[Path], Isolation], bytes]:
    """Return what the tree shows as the `records.jsonl` of all partitions."""

    def lines(paths: Sequence[Path], isolation: Isolation) -> bytes:
        parts = []
        with opened_tree(paths, Mode.READ_ONLY, TreeOptions(isolation=isolation)) as tree:
            for topic, partitions in tree.context.store.topics.inventory.topics.items():
                for partition in partitions:
                    node = node_at(tree, f"{topic}/{partition}/records.jsonl")
                    assert isinstance(node, File)
                    with closing(node.open()) as reading:
                        position = 0
                        while data := bytes(reading.read(position, 1 << 20)):
                            parts.append(data)
                            position += len(data)
        return b"".join(parts)

    return lines


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
