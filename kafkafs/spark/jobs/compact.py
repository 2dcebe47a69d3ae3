"""`compact`: writes the latest record of each key into a new store; workers build its partitions."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkafs.spark.jobs.stores import BuiltPlace, build_in_tasks, frame_of_reports
from storage.clock import Clock
from storage.rewrite import copy_compacted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.stores import StorePath
    from storage.log_dir import Partition
    from storage.rewrite import StoreBuilder
    from storage.store import Store

SCHEMA: Final = (
    "topic string, partition int, verdict string, beforeBytes long, afterBytes long, recordsRead long, "
    "recordsKept long, superseded long, keyless long, expired long, aborted long, markers long, "
    "firstDirtyOffset long, runs int, isApplied boolean, reason string"
)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def compact(
    spark: SparkSession,
    store: StorePath,
    target: str | PathLike[str],
    topics: Collection[str] | None = None,
    *,
    settings: Mapping[str, str] = _NONE,
    roll: bool = False,
) -> DataFrame:
    """Make a store at `target` with the partitions of another one, or of some of its topics, compacted.

    The result is that of `kafkafs compact --apply --force` until nothing is dirty. Logs that it would not compact are
    copied: those of topics without cleanup.policy=compact or with unknown settings, and active segments, unless `roll`
    is given. The `settings` apply to each topic in addition to its own. The store that is read does not change, and the
    new one is complete when this returns: a row for each partition, with the bytes of its log and the records of its
    compacted part.

    Raises `NotAStoreError` unless `target` does not exist or is an empty directory. The same call continues an
    interrupted job.
    """
    place = BuiltPlace.of(store, target)

    def work(opened: Store, build: StoreBuilder, partition: Partition) -> None:
        copy_compacted(opened, build, partition, Clock(), rolls=roll, wait=time.sleep)

    with place.begun({"job": "compact", "roll": roll}, topics, settings) as build:
        build_in_tasks(spark, place, build, work)
        reports = place.publish(build)
    return frame_of_reports(spark, reports, SCHEMA)
