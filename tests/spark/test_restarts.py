"""Streaming queries that are stopped and killed at any point over a store that lives: every record once.

With the profile `test` a few restarts of each kind are tried; KAFKAFS_HYPOTHESIS_PROFILE=prove tries two hundred.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from followed_stores import Following, follow
from held_processes import kill_session
from waiting import until

from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conftest import GrowingStore
    from pyspark.sql import SparkSession

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
RESTARTS = (
    {"record": (95, 5), "append": (95, 5), "sort": (10, 20)}
    if IS_PROOF
    else {"record": (2, 0), "append": (1, 1), "sort": (0, 1)}
)
"""How often each query is stopped, and how often killed."""
ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "support" / "followed_stores.py"
OFFSETS_MAX = 40
TOPICS_MAX, PARTITIONS_MAX = 4, 4
TIME_S_MAX = 300


class Life:
    """What happens to a store meanwhile: it is written, it rolls, and topics, partitions and retention come."""

    def __init__(self, growing: GrowingStore, rng: random.Random) -> None:
        self.values: list[str] = []
        self._growing = growing
        self._rng = rng
        self.retired = 0
        growing.create("orders", 2)

    def go_on(self, read: dict[str, dict[str, int]]) -> None:
        """Have something of each kind happen; what goes is only what has been `read`."""
        topics = self._growing.store.topics
        topic = self._rng.choice(sorted(topics.inventory.topics))
        match self._rng.randrange(4):
            case 0 if len(topics.inventory.topics) < TOPICS_MAX:
                self._growing.create(f"new{len(topics.inventory.topics)}", self._rng.randint(1, 2))
            case 1 if len(topics.partitions(topic)) < PARTITIONS_MAX:
                topics.add_partition(topic)
            case 2:
                self._retire(read)
        partitions = sorted(topics.inventory.partitions())
        for _ in range(4):
            self._append(*self._rng.choice(partitions), self._rng.randint(1, 2 * OFFSETS_MAX))

    def _append(self, topic: str, partition: int, count: int) -> None:
        first = self._growing.store.log(topic, partition).view.end_offset
        self._growing.append(topic, partition, count)
        self.values += [f"{topic}-{partition}-{offset}" for offset in range(first, first + count)]

    def _retire(self, read: dict[str, dict[str, int]]) -> None:
        """Delete the segments that were read completely."""
        for topic, offsets in read.items():
            for partition, offset in offsets.items():
                log = self._growing.store.log(topic, int(partition))
                bases = [segment.base_offset for segment in log.view.segments if segment.base_offset <= offset]
                for name in log.remove_before(bases[-1]):
                    log.directory.remove(name)
                    self.retired += 1


class Progress(NamedTuple):
    """How far a checkpoint says that a query is: how many batches are planned, and done, and where those end."""

    planned: int
    done: int
    read: dict[str, dict[str, int]]

    @classmethod
    def of(cls, checkpoint: Path) -> Progress:
        planned, done = (
            sorted(int(path.name) for path in (checkpoint / kind).glob("[0-9]*")) for kind in ("offsets", "commits")
        )
        read = json.loads((checkpoint / "offsets" / str(done[-1])).read_text().splitlines()[-1]) if done else {}
        return cls(
            planned[-1] + 1 if planned else 0,
            done[-1] + 1 if done else 0,
            {topic: offsets for topic, offsets in read.items() if not topic.startswith("@")},
        )

    def further(self, planned: int, done: int) -> Progress:
        """So many batches later."""
        return self._replace(planned=self.planned + planned, done=self.done + done)

    def wait_for(self, checkpoint: Path) -> None:
        """Return when a query is as far as this."""

        def is_reached() -> bool:
            now = Progress.of(checkpoint)
            return now.planned >= self.planned and now.done >= self.done

        until(is_reached, lambda: f"{self} is wanted, and it is {Progress.of(checkpoint)}")


class Restarts:
    """A query that is started again and again."""

    def __init__(self, spark: SparkSession, settings: dict[str, str], following: Following) -> None:
        self._spark = spark
        self._settings = settings
        self.following = following
        self.checkpoint = Path(following.checkpoint)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Run the query in the session, and stop it in the middle of its work."""
        query = follow(self._spark, self.following)
        yield
        query.stop()
        assert query.exception() is None

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Run the query in a driver of its own, and kill all of that."""
        process = subprocess.Popen(
            [sys.executable, DRIVER, json.dumps(self._settings), json.dumps(self.following)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), "the query does not begin"
            yield
        finally:
            kill_session(process)
            process.stdout.close()

    def finish(self) -> None:
        """Run the query until it has read everything."""
        query = follow(self._spark, self.following._replace(offsets_max=None), ends=True)
        try:
            assert query.awaitTermination(TIME_S_MAX)
        finally:
            query.stop()
        assert query.exception() is None


def recorded(target: Path) -> list[str]:
    return sorted(value for path in target.iterdir() for value in path.read_text().split())


def appended(target: Path) -> list[str]:
    found = []
    with Store.open([target], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        for partition in store.topics.inventory.partitions():
            view = store.log(*partition).view
            found += [record.value.decode() for batch in view.batches(0) for record in batch.records()]
    return sorted(found)


def made_rows(target: Path) -> None:
    target.mkdir()


def made_store(target: Path) -> None:
    with Store.create([target], files=Files(), clock=Clock()) as store:
        store.topics.create("all", 2)


def made_two_topics(target: Path) -> None:
    with Store.create([target], files=Files(), clock=Clock()) as store:
        for topic in ("even", "odd"):
            store.topics.create(topic, 1)


SINKS: dict[str, tuple[Callable[[Path], None], Callable[[Path], list[str]]]] = {
    "record": (made_rows, recorded),
    "append": (made_store, appended),
    "sort": (made_two_topics, appended),
}


@pytest.mark.parametrize("sink", SINKS)
def test_every_record_is_there_once(
    sink: str, spark: SparkSession, spark_settings: dict[str, str], growing: GrowingStore, tmp_path: Path, request
) -> None:
    seed = f"{sink} {request.config.option.hypothesis_seed if IS_PROOF else 0}"
    rng = random.Random(seed)
    make, written = SINKS[sink]
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    make(target)
    following = Following(str(growing.path), str(checkpoint), sink, str(target), OFFSETS_MAX)
    restarts, life = Restarts(spark, spark_settings, following), Life(growing, rng)
    stops, kills = RESTARTS[sink]
    for is_killed in rng.sample([False, True], counts=[stops, kills], k=stops + kills):
        before = Progress.of(checkpoint)
        wanted = before.further(*rng.choice([(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]))
        life.go_on(before.read)
        with restarts.killed() if is_killed else restarts.stopped():
            life.go_on(before.read)
            wanted.wait_for(checkpoint)
            if rng.randrange(2):
                life.go_on(before.read)
    restarts.finish()
    assert written(target) == sorted(life.values), f"seed {seed!r}"
    assert len(life.values) > 4 * OFFSETS_MAX
    if IS_PROOF:
        assert life.retired
        print(f"{sink}: {stops} stops and {kills} kills over {len(life.values)} records, {life.retired} segments gone")
