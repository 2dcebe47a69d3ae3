"""`ingest` and `ingest_from_kafka`: records of files, or of a live cluster's topics, appended to a store by the sink.

Each record is appended once. A run over files is one transaction, whose name follows from the input unless it is given:
run a killed job again as it was. A run over a cluster keeps its position in a checkpoint directory.
"""

from __future__ import annotations

import hashlib
import json
import logging
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.ingest_source import IngestSource
from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import frame_of
from storage.clock import Clock
from storage.commit import Transaction
from storage.files import Files, NamedFiles
from storage.log_dir import are_vacant
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.log_dir import Partition

logger = logging.getLogger(__name__)

SCHEMA: Final = "topic string, partition int, startOffset long, endOffset long, records long"
CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_VERSION: Final = 0  # an input is ingested once, so its transaction has no second version
_LOCAL: Final = "file:"


def ingest(
    spark: SparkSession,
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    store: StorePath,
    topic: str | None = None,
    *,
    form: str | None = None,
    columns: Mapping[str, str] = _NONE,
    whole_row: bool = False,
    by_key: bool = False,
    codec: str = "none",
    transaction: str | None = None,
) -> DataFrame:
    """Append the records of files to a store, which is made if it is missing, and return where they are now.

    `columns` names the column, or the field, for each of key, value, headers, topic, partition, timestamp and offset
    that has another name. All records go to `topic` if it is given. A record goes to the partition that its row names,
    in the order of offsets if rows have those too; with `by_key`, or if its row names none, to the partition that
    Kafka's producers choose. Missing topics are made with as many partitions as the broker's settings say.

    There is a row for each partition that has grown, also by other writers, and none if the store has the transaction
    already. `transaction` is its name; by default it follows from the files' names, sizes and times and from the other
    arguments.
    """
    paths = [source] if isinstance(source, str | PathLike) else source
    read = IngestSource(tuple(fspath(path) for path in paths), form, columns, whole_row)
    files = read.files(spark)
    if transaction is None:
        transaction = _name_of(files, [topic, form, dict(columns), whole_row, by_key])
    options = {"kafka.compression.type": codec, "txnAppId": transaction, "txnVersion": str(_VERSION)}
    directories = log_dirs(store)
    if _has(directories, Transaction(transaction, _VERSION), topic):
        logger.warning("nothing is appended of the input %r: the store has it already", transaction)
        return _growth(spark, {}, {})
    frame = read.rows(spark, files)
    before = _ends(directories)
    frame = _addressed(frame, topic, by_key=by_key)
    writer = frame.write.format("kafkafs").mode("append").options(**options)
    (writer if topic is None else writer.option("topic", topic)).save(",".join(directories))
    return _growth(spark, before, _ends(directories))


def ingest_from_kafka(
    spark: SparkSession,
    bootstrap: str,
    topics: Collection[str],
    store: StorePath,
    checkpoint: str | PathLike[str],
    *,
    topic: str | None = None,
    by_key: bool = False,
    codec: str = "none",
    options: Mapping[str, str] = _NONE,
) -> DataFrame:
    """Append the new records of a live cluster's topics to a store, read with Spark's own connector.

    The directory `checkpoint` keeps how far the topics were read: each record is appended once, however often this runs
    and wherever it is killed. `options` are those of Spark's Kafka source, such as `kafka.security.protocol`.
    Partitions, topics and the returned rows are as for `ingest`. Raises `JobError` if Spark has no connector.
    """
    directories = log_dirs(store)
    reader = spark.readStream.format("kafka").options(
        **{"startingOffsets": "earliest", **options, "includeHeaders": "true", "kafka.bootstrap.servers": bootstrap}
    )
    try:
        stream = reader.option("subscribe", ",".join(topics)).load()
    except Exception as error:
        if "kafka" in str(error) and "ind data source" in str(error).replace("the ", ""):
            raise JobError(
                "reading Kafka needs Spark's own connector: give --conf "
                f"spark.jars.packages={CONNECTOR}:{spark.version}, or its jars with --conf spark.jars=PATH,…"
            ) from None
        raise
    stream = _addressed(stream, topic, by_key=by_key)
    before = _ends(directories)
    writer = stream.writeStream.format("kafkafs").option("checkpointLocation", str(Path(checkpoint).absolute()))
    writer = writer.option("kafka.compression.type", codec).trigger(availableNow=True)
    query = (writer if topic is None else writer.option("topic", topic)).start(",".join(directories))
    query.awaitTermination()
    return _growth(spark, before, _ends(directories))


def _addressed(frame: DataFrame, topic: str | None, *, by_key: bool) -> DataFrame:
    """Return rows without the columns that `topic` and `by_key` replace."""
    return frame.drop(*(["partition"] if by_key else []), *(["topic"] if topic is not None else []))


def _name_of(files: Sequence[str], purpose: Sequence[object]) -> str:
    """Return a name that only the same run has again."""
    known = [(file, *_status(file)) for file in files]
    return f"ingest-{hashlib.sha256(json.dumps([known, *purpose]).encode()).hexdigest()[:32]}"


def _status(file: str) -> tuple[int, int] | tuple[()]:
    """Return the size and the time of a local file; nothing for any other."""
    found = NamedFiles().status(unquote(file.removeprefix(_LOCAL))) if file.startswith(_LOCAL) else None
    return () if found is None else (found.size_bytes, found.modified_ms)


def _has(directories: Sequence[str], transaction: Transaction, topic: str | None) -> bool:
    """Return True if the topic, or each topic that has ever had it, has the input."""
    files = Files()
    if are_vacant([files.directory(each) for each in directories]):
        return False
    with Store.open(directories, mode=Mode.READ_ONLY, files=files, clock=Clock()) as opened:
        return opened.commits.has(transaction, topic)


def _ends(directories: Sequence[str]) -> dict[Partition, int]:
    """Return the end offsets of a store's partitions."""
    files = Files()
    if are_vacant([files.directory(Path(each)) for each in directories]):
        return {}
    with Store.open(directories, mode=Mode.READ_ONLY, files=files, clock=Clock()) as opened:
        return {each: opened.log(*each).view.end_offset for each in opened.topics.inventory.partitions()}


def _growth(spark: SparkSession, before: Mapping[Partition, int], after: Mapping[Partition, int]) -> DataFrame:
    """Return a row for each partition that has grown."""
    rows = []
    for (topic, partition), end in sorted(after.items()):
        start = before.get((topic, partition), 0)
        if end > start:
            rows.append((topic, partition, start, end, end - start))
    return frame_of(spark, rows, SCHEMA)
