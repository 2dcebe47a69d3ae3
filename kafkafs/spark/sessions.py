"""Sessions of Spark that know the source, a short way to read a store, and the Java that Spark needs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from os import PathLike, environ, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.spark.errors import JobError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

JAVA_VERSION_MIN: Final = 17
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE_S: Final = 30


def session(settings: Mapping[str, object] = MappingProxyType({})) -> SparkSession:
    """Return a session with these settings: `session({"spark.master": "local[2]"})`.

    A running session is used, with those settings that can still be made. Its workers run this Python unless
    PYSPARK_PYTHON names another; its time zone is UTC unless the settings name another.
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
    """Read a store as it is now; the DataFrame returns the same records whenever it is read.

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


def check_java(environment: Mapping[str, str]) -> None:
    """Raise `JobError` if there is no Java that Spark runs on; Spark itself says less clearly what is wrong."""
    home = environment.get("JAVA_HOME")
    program = shutil.which(str(Path(home, "bin", "java")) if home else "java", path=environment.get("PATH"))
    if program is None:
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise JobError(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is none {where}")
    try:
        said = subprocess.run(  # noqa: S603 -- it is what Spark is about to run
            [program, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobError(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {program} does not run: {error}") from None
    match = _JAVA_VERSION.search(said.stderr)
    if match is None or int(match[1]) < JAVA_VERSION_MIN:
        version = "another program" if match is None else f"version {match[1]}"
        raise JobError(f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {program} is {version}: set JAVA_HOME to it")
