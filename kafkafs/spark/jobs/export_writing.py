"""Writes records as Parquet in Spark's workers: a file for each partition and day of a task's records.

Row groups are large even if record batches are small, and memory is bounded for any number of days. A finished file is
on disk, under a name of its own for each attempt; `export_target` publishes it.
"""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.types import StructType

from kafkafs.spark.errors import DataLossError, JobError
from kafkafs.spark.jobs.export_target import ExportedFile
from kafkafs.spark.schema import source_schema
from kafkafs.spark.sight import explained
from kafkafs.spark.task import SparkRows
from storage.clock import Clock
from storage.files import Files
from storage.split import SplitReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.errors import RecordsGoneError
    from storage.split import PartitionPlace, Split

logger = logging.getLogger(__name__)

Compression: TypeAlias = Literal["snappy", "zstd", "gzip", "lz4", "none"]
COMPRESSIONS: Final[tuple[Compression, ...]] = get_args(Compression)
TEXT: Final = "text"
BINARY: Final = "binary"
_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_BUFFERED_BYTES_MAX: Final = 128 * 1024 * 1024
_OPEN_MAX: Final = 32
_DAY_MS: Final = 86_400_000


class ExportTask(NamedTuple):
    """The splits that a task exports, and how."""

    splits: tuple[Split, ...]
    staging: str
    headers: bool
    values: str
    compression: Compression
    accepts_data_loss: bool


class StagedExport(NamedTuple):
    """A file that is whole and on disk."""

    staged: str
    file: ExportedFile
    records: int
    size_bytes: int


def write_files(task: ExportTask) -> list[StagedExport]:
    """Write the records of the splits."""
    return _Writing(task).run()


def export_schema(*, headers: bool, values: str) -> pa.Schema:
    """Return the columns of the files: the source's, without the topic, which the directory's name says."""
    schema = SparkRows(_columns(headers=headers)).schema
    if values == TEXT:
        for name in ("key", "value"):
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
    return schema


def _columns(*, headers: bool) -> StructType:
    return StructType([field for field in source_schema(has_headers=headers) if field.name != "topic"])


class _Writing:
    """One attempt of a task."""

    def __init__(self, task: ExportTask) -> None:
        self._task = task
        self._schema = export_schema(headers=task.headers, values=task.values)
        self._open: dict[tuple[PartitionPlace, int], _OpenFile] = {}
        self._finished: list[StagedExport] = []

    def run(self) -> list[StagedExport]:
        rows = SparkRows(_columns(headers=self._task.headers))
        reader = SplitReader(Files(), Clock(), columns=rows.columns, on_loss=explained(self._report))
        before: PartitionPlace | None = None
        for split in self._task.splits:
            if split.place != before:
                self._finish(0)
                before = split.place
            for batch in reader.read(split):
                for day, part in _by_day(batch):
                    self._add(split.place, day, rows.of(part, split.place.topic, split.place.partition))
        self._finish(0)
        return self._finished

    def _report(self, loss: RecordsGoneError) -> None:
        if not self._task.accepts_data_loss:
            raise DataLossError(f"{loss}: --accept-data-loss exports what is left")
        logger.warning("%s", loss)

    def _add(self, place: PartitionPlace, day: int, batch: pa.RecordBatch) -> None:
        if self._task.values == TEXT:
            batch = _as_text(batch, place, self._schema)
        key = place, day
        file = self._open.pop(key, None)
        if file is None:
            self._finish(_OPEN_MAX - 1)
            path = Path(self._task.staging) / f"{uuid.uuid4().hex}.parquet"
            file = _OpenFile(path, place, day, self._schema, self._task.compression)
        self._open[key] = file  # the most recently used
        file.add(batch)
        if file.buffered_bytes >= _ROW_GROUP_BYTES:
            file.flush()
        elif sum(each.buffered_bytes for each in self._open.values()) > _BUFFERED_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.buffered_bytes).flush()

    def _finish(self, keep: int) -> None:
        """Finish the least recently used files until this many are left open."""
        while len(self._open) > keep:
            self._finished.append(self._open.pop(next(iter(self._open))).finish())


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self, path: Path, place: PartitionPlace, day: int, schema: pa.Schema, compression: Compression
    ) -> None:
        self.buffered_bytes = 0
        self._path = path
        self._place = place
        self._date = str(np.datetime64(day, "D"))
        self._schema = schema
        self._writer = parquet.ParquetWriter(path, schema, compression=compression)
        self._batches: list[pa.RecordBatch] = []
        self._records = 0
        self._first_offset = self._last_offset = -1

    def add(self, batch: pa.RecordBatch) -> None:
        offsets = batch.column("offset")
        if not self._records:
            self._first_offset = offsets[0].as_py()
        self._last_offset = offsets[-1].as_py()
        self._records += batch.num_rows
        self.buffered_bytes += batch.nbytes
        self._batches.append(batch)

    def flush(self) -> None:
        """Write the buffered records as a row group."""
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._batches, self.buffered_bytes = [], 0

    def finish(self) -> StagedExport:
        self.flush()
        self._writer.close()
        with Files().open_writing(self._path) as written:
            written.sync()
            size_bytes = written.size_bytes()
        place = self._place
        file = ExportedFile(place.topic, place.partition, self._date, self._first_offset, self._last_offset)
        return StagedExport(str(self._path), file, self._records, size_bytes)


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each day in UTC, in their order."""
    if not batch.num_rows:
        return
    times = np.asarray(batch.column("timestamp").cast(pa.int64()))
    days = times // _DAY_MS
    found = np.unique(days)
    if len(found) == 1:
        yield int(found[0]), batch
        return
    for day in found:
        yield int(day), batch.filter(pa.array(days == day))


def _as_text(batch: pa.RecordBatch, place: PartitionPlace, schema: pa.Schema) -> pa.RecordBatch:
    arrays: list[pa.Array[Any]] = list(batch.columns)
    for name in ("key", "value"):
        number = batch.schema.get_field_index(name)
        try:
            arrays[number] = pc.cast(arrays[number], pa.string())
        except pa.ArrowInvalid:
            first, last = batch.column("offset")[0], batch.column("offset")[-1]
            raise JobError(
                f"a {name} in {place} from offset {first} to {last} is not UTF-8: export it with --values binary"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
