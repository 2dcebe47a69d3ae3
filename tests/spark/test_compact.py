"""`compact` with Spark: what the cleaner on one machine makes of a copy, in a store that appears whole."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from consuming import consumed

from kafkafs.spark import jobs
from kafkafs.spark.errors import JobError
from storage.clock import Clock
from storage.errors import NotAStoreError
from storage.files import Files
from storage.log.view import Isolation
from storage.log_dir.checkpoints import OffsetCheckpoint, write_offsets
from storage.store.cleaning import StoreCompaction
from storage.store.store import Mode, Store
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = Files()
TOPICS = ("t-txn-compact", "t-compactdelete", "t-v1-compact")
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0"}


@pytest.fixture
def source(datasets: Callable[[str], Path], tmp_path: Path) -> Path:
    """Copy a log directory of a broker whose cleaner is taken never to have run."""
    path = tmp_path / "source"
    shutil.copytree(datasets("kafka-2.2") / "kafka-2.2" / "d2", path)
    (path / OffsetCheckpoint.FIRST_DIRTY).unlink()
    return path


def content(path: Path, topic: str) -> tuple[object, ...]:
    with Store.open([path], mode=Mode.READ_ONLY, files=FILES, clock=Clock()) as store:
        log = store.log(topic, 0)
        view = log.view
        return view.start_offset, view.end_offset, [list(consumed(log, isolation)) for isolation in Isolation]


def test_the_new_store_has_what_the_cleaner_leaves_of_a_copy(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    copy, target = tmp_path / "copy", tmp_path / "target"
    write_offsets(FILES.directory(source), OffsetCheckpoint.HIGH_WATERMARK, {(topic, 0): 10**6 for topic in TOPICS})
    shutil.copytree(source, copy)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    rows = {
        row.topic: row for row in jobs.compact(spark, source, target, TOPICS, settings=SETTINGS, roll=True).collect()
    }
    with Store.open([copy], mode=Mode.READ_WRITE, files=FILES, clock=Clock()) as store:
        for topic in TOPICS:
            store.topics.change_config(topic, SETTINGS)
            log = store.log(topic, 0)
            log.roll()
            compactions = StoreCompaction(store, Clock(), wait=lambda _: None)
            report = compactions.apply(topic, 0, compactions.plan(topic, 0))
            row = rows[topic]
            assert (row.recordsRead, row.recordsKept) == (report.records.read, report.records.kept)
            assert row.beforeBytes == report.before_bytes
            assert row.afterBytes == sum(path.stat().st_size for path in (target / f"{topic}-0").glob("*.log"))
            assert (row.superseded, row.keyless) == (report.records.superseded, report.records.keyless)
            assert row.isApplied
    assert rows.keys() == set(TOPICS)
    assert sum(row.superseded for row in rows.values()) > 100
    for topic in TOPICS:
        assert content(target, topic) == content(copy, topic)
    assert list(Verification(FILES, [target]).run(lambda: None)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source", "target"]
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_what_is_not_compacted_is_copied(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    rows = jobs.compact(spark, source, tmp_path / "target").collect()
    with Store.open([source], mode=Mode.READ_ONLY, files=FILES, clock=Clock()) as store:
        assert [(row.topic, row.partition) for row in rows] == sorted(store.topics.inventory.partitions())
    assert {row.verdict for row in rows} == {"settings_unknown"}
    assert not any(row.isApplied for row in rows)
    assert content(tmp_path / "target", TOPICS[0]) == content(source, TOPICS[0])


def test_it_goes_nowhere_where_something_is(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(NotAStoreError, match="empty directory only"):
        jobs.compact(spark, source, tmp_path / "taken")
    with pytest.raises(JobError, match="cannot be in"):
        jobs.compact(spark, source, source / "new")
    assert not list(tmp_path.glob("*building*"))
