"""`export`: a store, or some of its topics, as Parquet that is partitioned by topic and date.

Workers write the files; when the last one is on disk, the driver publishes all of them at once and notes how far each
partition is exported. A run that is killed at any moment and run again puts each record into the directory once.
"""

from __future__ import annotations

import os
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.spark.bounds import Edge
from kafkafs.spark.errors import JobError, OptionError
from kafkafs.spark.jobs.export_tables import registration
from kafkafs.spark.jobs.export_target import ExportTarget
from kafkafs.spark.jobs.export_watermarks import (
    Exported,
    ExportForm,
    LogNow,
    Watermark,
    check_continues,
    check_keeps,
    check_reaches,
)
from kafkafs.spark.jobs.export_writing import (
    BINARY,
    COMPRESSIONS,
    TEXT,
    ExportTask,
    StagedExport,
    export_schema,
    write_files,
)
from kafkafs.spark.jobs.stores import log_dirs
from kafkafs.spark.jobs.tasks import frame_of, results_of
from kafkafs.spark.opened_store import OpenedStore
from kafkafs.spark.options import StoreOptions
from kafkafs.spark.sight import Sighted
from storage.files import NamedFiles, as_uri, is_in_object_store
from storage.ids import format_id

if TYPE_CHECKING:
    from collections.abc import Collection
    from os import PathLike

    from pyspark.sql import DataFrame, SparkSession

    from kafkafs.spark.jobs.export_writing import Compression
    from kafkafs.spark.jobs.stores import StorePath
    from storage.log_dir import Partition

SCHEMA: Final = (
    "topic string, partition int, date string, startOffset long, endOffset long, records long, bytes long, file string"
)
VALUES: Final = (BINARY, TEXT)
_SPLIT_BYTES: Final = 128 * 1024 * 1024
_UNKNOWN_EPOCH_END: Final = -1


class _Range(NamedTuple):
    """The offsets of a partition to export, and its watermark afterwards."""

    start: int
    end: int
    watermark: Watermark


def export(
    spark: SparkSession,
    store: StorePath,
    target: str | PathLike[str],
    topics: Collection[str] | None = None,
    *,
    incremental: bool = False,
    headers: bool = False,
    values: str = BINARY,
    compression: Compression = "snappy",
    isolation: str = "read_uncommitted",
    accept_data_loss: bool = False,
    table: str | None = None,
    catalog: str = "default",
    namespace: str = "kafka",
) -> DataFrame:
    """Export the present records, and return a row for each file that was written.

    With `incremental` only records that are new since the last export to the same directory are added to it; otherwise
    all records replace its files. With `values="text"` keys and values are strings. `table` may be `delta`, for a table
    in the directory, or `iceberg`, for a table of each topic in a namespace of one of pyiceberg's catalogs; the files
    are registered with it at the end. A record with a timestamp outside of the years 0001 to 9999 has a null `date` and
    `timestamp`, and the number in `invalidTimestamp`. The export is complete when this returns.

    Raises `JobError` if a log is not the one that was exported before, `DataLossError` if it has lost records that were
    never exported, unless that is accepted, and `SeenLessError` if a task does not see what the driver saw.
    """
    form = ExportForm(headers, _one_of("values", values, VALUES), isolation, table)
    _one_of("compression", compression, COMPRESSIONS)
    registering = None if table is None else registration(table, catalog, namespace)
    if table is not None and not incremental:
        raise OptionError("a table's files are never replaced: --table goes with --incremental")
    options = StoreOptions.parse(_source_options(store, topics, isolation, accept_data_loss), Edge.EARLIEST)
    if is_in_object_store(target):
        raise JobError(f"{as_uri(os.fspath(target))} is in an object store, which is only read: export to a directory")
    root = Path(target).absolute()
    for log_dir in options.paths:
        if root == Path(log_dir) or Path(log_dir) in root.parents:
            raise JobError(f"{root} is in the store itself, where no broker bears it: export to another directory")
    with closing(OpenedStore(options)) as opened, ExportTarget(NamedFiles(), root) as directory:
        exported = directory.exported()
        exported.check_form(form)
        ranges = _planned(opened, exported, incremental=incremental, accept_data_loss=accept_data_loss)
        packs = opened.packs({partition: (each.start, each.end) for partition, each in ranges.items()})
        staging = str(directory.make_staging(uuid.uuid4().hex))
        tasks = [
            Sighted(ExportTask(pack.piece, staging, headers, values, compression, accept_data_loss), pack.sight)
            for pack in packs
        ]
        files = sorted(
            (file for found in results_of(spark, tasks, write_files) for file in found), key=lambda each: each.file
        )
        watermarks = {**exported.watermarks, **{partition: each.watermark for partition, each in ranges.items()}}
        directory.publish(
            [(Path(each.staged), each.file) for each in files],
            Exported(form, MappingProxyType(watermarks)),
            replaced=() if incremental else ranges,
        )
        if registering is not None:
            registering.register(directory, export_schema(headers=headers, values=values))
            directory.note_registered()
    return frame_of(spark, [_row(each) for each in files], SCHEMA)


def _one_of(name: str, value: str, known: Collection[str]) -> str:
    if value not in known:
        raise OptionError(f"{name} is one of {', '.join(known)}, not {value!r}")
    return value


def _source_options(
    store: StorePath, topics: Collection[str] | None, isolation: str, accept_data_loss: bool
) -> dict[str, str]:
    options = {
        "path": ",".join(log_dirs(store)),
        "kafka.isolation.level": isolation,
        "failOnDataLoss": str(not accept_data_loss),
        "splitBytes": str(_SPLIT_BYTES),
    }
    return options if topics is None else {**options, "subscribe": ",".join(topics)}


def _planned(
    store: OpenedStore, exported: Exported, *, incremental: bool, accept_data_loss: bool
) -> dict[Partition, _Range]:
    """Plan the export of each partition; raises as `export` does for a log that does not continue the last one."""
    partitions = store.partitions(must_exist=True)
    starts = store.earliest(partitions)
    ends = store.latest(partitions)
    ranges = {}
    for partition in sorted(starts.keys() & ends.keys()):
        start, end = starts[partition], ends[partition]
        topic_id, epochs = store.lineage(partition)
        id_text = None if topic_id is None else format_id(topic_id)
        epoch = next((entry.epoch for entry in reversed(epochs.entries) if entry.offset < end), None)
        watermark = Watermark(start, end, id_text, epoch)
        mark = exported.watermarks.get(partition)
        if mark is not None:
            epoch_end = None
            if mark.leader_epoch is not None and epochs.entries:
                found = epochs.end_of(mark.leader_epoch, end)
                epoch_end = _UNKNOWN_EPOCH_END if found is None else found.offset
            now = LogNow(start, end, id_text, epoch_end)
            check_continues(partition, mark, now)
            if not incremental:
                check_keeps(partition, mark, now)
            else:
                if not accept_data_loss:
                    check_reaches(partition, mark, now)
                watermark = replace(watermark, start_offset=mark.start_offset)
                start = max(start, mark.end_offset)
        ranges[partition] = _Range(start, end, watermark)
    return ranges


def _row(each: StagedExport) -> tuple[str, int, str | None, int, int, int, int, str]:
    file = each.file
    return (
        file.topic,
        file.partition,
        file.day,
        file.first_offset,
        file.last_offset + 1,
        each.records,
        each.size_bytes,
        file.path,
    )
