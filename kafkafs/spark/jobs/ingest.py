"""`ingest`: the records of files appended to a store by way of the sink, each once.

A run is one transaction, whose name follows from the input unless it is given: what was killed is run again as it was,
and what was done is not done again.
"""

from __future__ import annotations

import hashlib
import json
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from kafkafs.spark.jobs.growth import ends_of, growth
from kafkafs.spark.jobs.ingest_source import IngestSource
from kafkafs.spark.jobs.log_dirs import log_dirs
from storage.commit import Ledger, Transaction
from storage.files import Files, NamedFiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.log_dirs import StorePath

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_VERSION: Final = 0  # an input is ingested once, so that its transaction has no second one
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
    """Append the records of files to a store, which is made where there is none, and say where they are now.

    `columns` gives the column, or the field, for each of key, value, headers, topic, partition, timestamp and offset
    that has another name. All records go to `topic` if it is given. They go to the partition that their row says,
    in the order of their offsets if it has those too; with `by_key`, or where it says none, to that which Kafka's
    producers choose. Missing topics are made with as many partitions as the broker's settings say.

    There is a row for each partition that has grown, by other writers too, and none if the transaction is in the store
    already. `transaction` is its name; by default it follows from the files' names, sizes and times and from what is to
    be made of them.
    """
    paths = [source] if isinstance(source, str | PathLike) else source
    read = IngestSource(tuple(fspath(path) for path in paths), form, columns, whole_row)
    files = read.files(spark)
    if transaction is None:
        transaction = _name_of(files, [topic, form, dict(columns), whole_row, by_key])
    options = {"kafka.compression.type": codec, "txnAppId": transaction, "txnVersion": str(_VERSION)}
    directories = log_dirs(store)
    known = Ledger([Files().directory(Path(each)) for each in directories]).current
    if known.has(Transaction(transaction, _VERSION)):
        return growth(spark, {}, {})
    frame = read.rows(spark, files)
    before = ends_of(directories)
    frame = frame.drop(*(["partition"] if by_key else []), *(["topic"] if topic is not None else []))
    writer = frame.write.format("kafkafs").mode("append").options(**options)
    (writer if topic is None else writer.option("topic", topic)).save(",".join(directories))
    return growth(spark, before, ends_of(directories))


def _name_of(files: Sequence[str], purpose: Sequence[object]) -> str:
    """A name that the same run has again, and no other."""
    known = [(file, *_status(file)) for file in files]
    return f"ingest-{hashlib.sha256(json.dumps([known, *purpose]).encode()).hexdigest()[:32]}"


def _status(file: str) -> tuple[int, int] | tuple[()]:
    """The size and the time of a file, as far as it can be seen from here."""
    found = NamedFiles().status(unquote(file.removeprefix(_LOCAL))) if file.startswith(_LOCAL) else None
    return () if found is None else (found.size_bytes, found.modified_ms)
