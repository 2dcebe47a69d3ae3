"""`rewrite` with Spark: the same records in other batches, or in other partitions, after any failure of its tasks."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from aiokafka.partitioner import murmur2
from consuming import consumed

from kafkafs.spark import jobs
from kafkafs.spark.errors import JobError
from storage.clock import Clock
from storage.files import Files
from storage.log.producers.state import AppendOrigin
from storage.log.view import Isolation
from storage.record.compression import Codec
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch
from storage.store.store import Mode, Store
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from consuming import ConsumedRecord
    from pyspark.sql import SparkSession

FILES = Files()
PARTITIONS = 3
TIMES = {"message.timestamp.type": "CreateTime"}


def records(
    paths: Sequence[Path], isolation: Isolation = Isolation.COMMITTED
) -> dict[tuple[str, int], list[ConsumedRecord]]:
    with Store.open(paths, mode=Mode.READ_ONLY, files=FILES, clock=Clock()) as store:
        return {
            each: list(consumed(store.log(*each), isolation)) for each in sorted(store.topics.inventory.partitions())
        }


def check_sound(path: Path) -> None:
    assert list(Verification(FILES, [path]).run(lambda: None)) == []
    assert not list(path.parent.glob("*building*"))
    assert not list(path.rglob("kafkafs-built.json")) + list(path.rglob("kafkafs-report.json"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of keyed and keyless records, in transactions too, some of them aborted and one open."""
    path, rng = tmp_path_factory.mktemp("rewrite") / "source", random.Random(3)
    with Store.create([path], files=FILES, clock=Clock()) as store:
        store.topics.create("t", PARTITIONS, {"segment.bytes": "8000", "message.timestamp.type": "LogAppendTime"})
        for partition in range(PARTITIONS):
            log, sequence = store.log("t", partition), 0
            for number in range(60):
                rows = [
                    (
                        1_700_000_000_000 + number,
                        # Every key is in one partition, as its producer would have it.
                        None if rng.random() < 0.2 else b"key %d" % (rng.randrange(20) * PARTITIONS + partition),
                        b"%d-%d-%d " % (partition, number, at) + rng.randbytes(20),
                        [("h", b"%d" % at), ("none", None)] if at else [],
                    )
                    for at in range(rng.randint(1, 5))
                ]
                form = BatchForm(codec=rng.choice(list(Codec)))
                if number % 3 == 0:
                    form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
                    sequence += len(rows)
                (batch,) = batches_of_rows(rows, base_offset=0, form=form)
                log.append_as_leader(batch, leader_epoch=1)
                if number % 6 == 0:
                    marker = EndTransactionMarker(committed=number % 12 == 0, coordinator_epoch=0)
                    data = marker_batch(marker, offset=0, timestamp_ms=1, producer_id=7, producer_epoch=0)
                    log.append_as_leader(data, leader_epoch=1, origin=AppendOrigin.COORDINATOR)
    return path


def test_recompressed_logs_are_the_same_to_consumers(
    spark: SparkSession, datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    paths = [datasets("kafka-3.9") / "kafka-3.9" / each for each in ("d1", "d2")]
    frame = jobs.rewrite(spark, paths, tmp_path / "target", codec="zstd", level=6, batch_bytes=65536)
    rows = frame.collect()
    check_sound(tmp_path / "target")
    for isolation in Isolation:
        found = records([tmp_path / "target"], isolation)
        assert found == {each: it for each, it in records(paths, isolation).items() if each in found}
    assert len(found) == len(rows) == 45
    assert sum(row.afterBytes for row in rows) < sum(row.beforeBytes for row in rows) / 5
    assert sum(row.batchesAfter for row in rows) < sum(row.batchesBefore for row in rows)
    assert all(row.recordsAfter == row.recordsBefore and not row.redacted and not row.dropped for row in rows)


@pytest.mark.parametrize("partitions", [1, 5])
def test_other_partitions_get_what_a_producer_would_send_them(
    spark: SparkSession, source: Path, tmp_path: Path, partitions: int
) -> None:
    frame = jobs.rewrite(
        spark, source, tmp_path / "target", partitions=partitions, codec="lz4", redact_keys=[b"key 4"], settings=TIMES
    )
    rows = {row.partition: row for row in frame.collect()}
    check_sound(tmp_path / "target")
    before, after = records([source]), records([tmp_path / "target"], Isolation.UNCOMMITTED)

    def bare(record: ConsumedRecord) -> tuple[object, ...]:
        is_redacted = record.key == b"key 4"
        return (
            record.timestamp,
            record.key,
            None if is_redacted else record.value,
            () if is_redacted else record.headers,
        )

    by_key: dict[bytes | None, list[tuple[object, ...]]] = defaultdict(list)
    for found in before.values():
        for record in found:
            by_key[record.key].append(bare(record))
    assert sorted(after) == [("t", number) for number in range(partitions)]
    sent: dict[bytes | None, list[tuple[object, ...]]] = defaultdict(list)
    for (_, partition), found in after.items():
        assert [record.offset for record in found] == list(range(len(found)))
        for record in found:
            if record.key is not None:
                assert partition == (murmur2(record.key) & 0x7FFFFFFF) % partitions
            sent[record.key].append(bare(record))
        assert rows[partition].recordsAfter == len(found)
    assert {key: it for key, it in sent.items() if key} == {key: it for key, it in by_key.items() if key}
    assert sorted(sent[None], key=repr) == sorted(by_key[None], key=repr)
    for partition in range(PARTITIONS):
        assert rows[partition].recordsBefore == len(before["t", partition])
    assert sum(row.redacted or 0 for row in rows.values()) == len(by_key[b"key 4"]) > 0
    assert len(rows) == max(PARTITIONS, partitions)


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_task_that_fails_leaves_nothing_and_is_done_again(
    spark: SparkSession, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    """Also if tasks rewrite pieces of each log, and others put the logs together."""
    from kafkafs.spark.jobs import stores

    mark = tmp_path / "failed"
    real = stores.results_of

    def failing_once(session, pieces, work):
        def run(piece):
            found = work(piece)
            if not mark.exists():
                mark.touch()
                raise OSError("the executor is gone")
            return found

        return real(session, pieces, run)

    monkeypatch.setattr(stores, "results_of", failing_once)
    if is_cut:
        monkeypatch.setattr(stores, "task_bytes", lambda *_: 1000)
    rows = jobs.rewrite(spark, source, tmp_path / "target", codec="gzip").collect()
    assert mark.exists()
    assert not is_cut or all(row.segments > 1 for row in rows)
    check_sound(tmp_path / "target")
    assert records([tmp_path / "target"]) == records([source])
    assert len(rows) == PARTITIONS


def test_what_cannot_be_is_said_before_anything_is_done(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    for wrong, reason in (
        ({"codec": "brotli"}, "a codec is one of none, gzip, snappy, lz4, zstd"),
        ({"codec": "snappy", "level": 3}, "a level is one of gzip, lz4 or zstd"),
        ({"drop_redacted": True}, "nothing to drop"),
        ({"partitions": 2, "batch_bytes": 100}, "leave the size of batches out"),
        ({"batch_bytes": 0}, "from 1 on"),
    ):
        with pytest.raises(JobError, match=reason):
            jobs.rewrite(spark, source, tmp_path / "target", **wrong)
    assert not list(tmp_path.iterdir())
