"""Sessions of Spark in which the source is there, and a short way to read a store."""

from __future__ import annotations

import json
import sys
from os import PathLike, environ, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


def session(settings: Mapping[str, object] = MappingProxyType({})) -> SparkSession:
    """A session with these settings: `session({"spark.master": "local[2]"})`.

    One that is running is used, and settings that can still be made are. Its Python workers run this Python, unless
    PYSPARK_PYTHON says otherwise; it counts time in UTC unless told otherwise.
    """
    from pyspark.sql import SparkSession

    from kafkafs.spark.source import KafkafsSource

    environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in {"spark.sql.session.timeZone": "UTC", **settings}.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    spark.dataSource.register(KafkafsSource)
    return spark


def read(
    spark: SparkSession,
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    topics: str | Iterable[str] | None = None,
    partitions: Mapping[str, Iterable[int]] | None = None,
    start: str | Mapping[str, Mapping[int, int]] | None = None,
    end: str | Mapping[str, Mapping[int, int]] | None = None,
    columns: Sequence[str] | None = None,
    headers: bool = False,
) -> DataFrame:
    """Read a store as it is now. A DataFrame keeps showing the records with which it was planned.

    `start` and `end` are `earliest`, `latest`, a time of the grammar (`2026-11-21T10:15`, `-15m`), or offsets by topic
    and partition. Only `columns` are read.
    """
    from kafkafs.spark.schema import source_schema

    reader = spark.read.format("kafkafs").option("includeHeaders", headers)
    if topics is not None:
        reader = reader.option("subscribe", topics if isinstance(topics, str) else ",".join(topics))
    if partitions is not None:
        reader = reader.option("assign", json.dumps({topic: list(numbers) for topic, numbers in partitions.items()}))
    for which, bound in (("starting", start), ("ending", end)):
        if bound is None:
            continue
        if not isinstance(bound, str):
            reader = reader.option(f"{which}Offsets", json.dumps(bound))
        elif bound in {"earliest", "latest"}:
            reader = reader.option(f"{which}Offsets", bound)
        else:
            reader = reader.option(f"{which}Timestamp", bound)
    if columns is not None:
        known = source_schema(has_headers=True)
        reader = reader.schema(type(known)([known[name] for name in columns]))
    paths = [path] if isinstance(path, str | PathLike) else path
    return reader.load(",".join(fspath(each) for each in paths))
