"""The source, streams and jobs on a store in object storage, against a real S3 server.

They give what they give of the directory. KAFKAFS_HYPOTHESIS_PROFILE=prove has a store of a gigabyte, and refuses
every job every kind of request.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from object_stores import BUCKET, Failure
from pyarrow import parquet
from waiting import until

from kafkafs.spark import jobs
from kafkafs.spark.failures import kind_of_ours, ours
from storage.clock import Clock
from storage.files import Files
from storage.record import BatchForm, Codec, batches_of_rows
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import GrowingStore
    from object_stores import S3Server
    from pyspark.sql import DataFrame, SparkSession

PySparkException = pytest.importorskip("pyspark.errors", reason="not run: PySpark is not installed").PySparkException
IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
STORE_BYTES = 1_000_000_000 if IS_PROOF else 2_000_000
TIME_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of two partitions, with segments and values of many sizes, over a few days."""
    path = tmp_path_factory.mktemp("objects") / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        made.topics.create("orders", 2, {"segment.bytes": str(STORE_BYTES // 8)})
        for partition, codec in enumerate((Codec.NONE, Codec.ZSTD)):
            log = made.log("orders", partition)
            values = [os.urandom(100).hex().encode() for _ in range(1000)]
            while sum(segment.size_bytes for segment in log.view.segments) < STORE_BYTES // 2:
                begin = log.view.end_offset
                rows = [
                    (TIME_MS + begin * 4 * DAY_MS // 10_000 + number, value[:8], value, [("n", b"1")])
                    for number, value in enumerate(values)
                ]
                for batch in batches_of_rows(rows, base_offset=None, form=BatchForm(codec=codec)):
                    log.append_as_leader(batch, leader_epoch=0)
    return path


@pytest.fixture(scope="module")
def uri(store: Path, s3: S3Server) -> str:
    return s3.put(store)


def read(spark: SparkSession, store: str | Path, **options: str) -> DataFrame:
    return spark.read.format("kafkafs").options(**options).load(str(store))


def summed(frame: DataFrame) -> dict[str, Any]:
    """Return a row that differs if any record does."""
    found = frame.selectExpr(
        "count(*) as records",
        "bit_xor(xxhash64(topic, partition, offset, timestamp, key, value)) as hash",
        "sum(length(value)) as bytes",
    ).first()
    assert found is not None
    return found.asDict()


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in frame.collect())


def told(requests: list[Any], what: str) -> None:
    """Print what a job costs, for scripts/prove."""
    kinds = Counter(each.kind for each in requests)
    print(f"{what}: {dict(kinds)} requests, {sum(each.size_bytes for each in requests)} bytes")


def test_the_rows_are_those_of_the_directory(spark: SparkSession, store: Path, uri: str, s3: S3Server) -> None:
    with s3.counted() as requests:
        found = summed(read(spark, uri))
    told(requests, "rows")
    assert found == summed(read(spark, store))
    options = {"startingOffsets": '{"orders":{"0":1500,"1":-2}}', "endingOffsets": '{"orders":{"0":1700,"1":9}}'}
    assert rows(read(spark, uri, **options, assign='{"orders":[0,1]}')) == rows(
        read(spark, store, **options, assign='{"orders":[0,1]}')
    )
    begin_ms = TIME_MS + 3 * 4 * DAY_MS // 10  # of the fourth batch of each partition
    timed = {"startingTimestamp": str(begin_ms + 100), "endingTimestamp": str(begin_ms + 900)}
    found = summed(read(spark, uri, **timed))
    assert found == summed(read(spark, store, **timed))
    assert found["records"] == 2 * 800


@pytest.mark.parametrize("job", [jobs.stats, jobs.verify, jobs.gaps, jobs.skew], ids=lambda job: job.__name__)
def test_the_jobs_answers_are_those_of_the_directory(
    job: Callable[[SparkSession, str], DataFrame], spark: SparkSession, store: Path, uri: str, s3: S3Server
) -> None:
    with s3.counted() as requests:
        found = rows(job(spark, uri))
    told(requests, job.__name__)
    assert found == rows(job(spark, str(store)))


def test_the_store_and_its_copy_do_not_differ(spark: SparkSession, store: Path, uri: str) -> None:
    found = jobs.diff(spark, store, uri).collect()
    assert [(row.partition, row.isSame) for row in found] == [(0, True), (1, True)]


def test_an_export_is_that_of_the_directory(
    spark: SparkSession, store: Path, uri: str, tmp_path: Path, s3: S3Server
) -> None:
    with s3.counted() as requests:
        jobs.export(spark, uri, tmp_path / "found").collect()
    told(requests, "export")
    jobs.export(spark, store, tmp_path / "due").collect()
    order = [("partition", "ascending"), ("offset", "ascending")]
    found, due = (parquet.read_table(tmp_path / name).sort_by(order) for name in ("found", "due"))
    assert found.equals(due)
    with pytest.raises(Exception, match=r"object store|s3://"):
        jobs.export(spark, store, f"{uri}/exported")


def test_a_stream_follows_a_growing_backup(
    spark: SparkSession, growing: GrowingStore, s3: S3Server, tmp_path: Path
) -> None:
    growing.create("orders", 2)
    growing.append("orders", 0, 30)
    uri = s3.put(growing.path)
    prefix = s3.key(uri, "").rstrip("/")
    query = (
        spark.readStream.format("kafkafs")
        .option("startingOffsets", "earliest")
        .load(uri)
        .selectExpr("cast(value as string) as value")
        .writeStream.format("memory")
        .queryName("backup")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for _ in range(3):
            growing.append("orders", 0, 40)
            growing.append("orders", 1, 7)
            s3.put(growing.path, prefix)
            due = growing.values()
            until(
                lambda due=due: sorted(row.value for row in spark.table("backup").collect()) == due,
                lambda: str(query.exception() or query.lastProgress),
            )
    finally:
        query.stop()


def raised_by(frame: DataFrame, *rows: int) -> PySparkException:
    """Return what collecting raises in the end.

    The answers of a worker count for a second, and workers differ in theirs: until then so many rows come, all of them.
    """
    raised: list[PySparkException] = []

    def is_raised() -> bool:
        try:
            assert len(frame.collect()) in rows
        except PySparkException as error:
            raised.append(error)
        return bool(raised)

    until(is_raised, "nothing is raised")
    return raised[0]


def test_what_retention_removes_is_told_from_what_is_not_seen(
    spark: SparkSession, growing: GrowingStore, s3: S3Server
) -> None:
    growing.create("orders")
    growing.append("orders", 0, 90)
    uri = s3.put(growing.path)
    logs = sorted(path.name for path in (growing.path / "orders-0").glob("*.log"))
    kept, failing = read(spark, uri, failOnDataLoss="false"), read(spark, uri)
    unseen = read(spark, uri, failOnDataLoss="false")
    for frame in (kept, failing, unseen):  # `collect` keeps to the plan of the first time
        assert len(frame.collect()) == 90

    def remove(name: str) -> None:
        s3.client.delete_object(Bucket=BUCKET, Key=s3.key(uri, f"orders-0/{name}"))

    remove(logs[0])
    base_offset = int(logs[1].removesuffix(".log"))
    until(lambda: len(kept.collect()) == 90 - base_offset, "the first segment is still read")
    assert "failOnDataLoss" in str(raised_by(failing, 90))
    remove(logs[3])
    error = raised_by(unseen, 90 - base_offset, 90)
    assert kind_of_ours(error) == "SeenLessError"
    assert f"orders-0/{logs[3]} is not there" in (ours(error) or "")


READERS = (jobs.stats, jobs.verify, jobs.gaps, read)
KINDS = ("get", "head", "list")


@pytest.mark.parametrize(
    ("job", "kind"),
    list(product(READERS, KINDS)) if IS_PROOF else list(zip(READERS, (*KINDS, "get"), strict=True)),
    ids=lambda each: getattr(each, "__name__", each),
)
def test_no_job_says_anything_of_what_its_tasks_may_not_read(
    job: Callable[[SparkSession, str], DataFrame], kind: str, spark: SparkSession, growing: GrowingStore, s3: S3Server
) -> None:
    growing.create("orders")
    growing.append("orders", 0, 50)
    uri = s3.put(growing.path)
    is_met = {
        "get": lambda request: request.kind != "list" and "orders-0" in request.key,
        "head": lambda request: request.kind == "head" and "orders-0" in request.key,
        "list": lambda request: request.kind == "list",
    }
    # The first HEAD is answered before the GET that it is for is not.
    denied = Failure(is_met[kind], "403 Forbidden", "AccessDenied", spares=0 if kind == "head" else 1)
    with s3.failing(denied), pytest.raises(Exception, match="access is denied; see which credentials pyarrow finds"):
        job(spark, uri).collect()
