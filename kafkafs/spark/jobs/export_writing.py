"""Writes records as Parquet in Spark's workers: a file for each partition and day of a task's records.

Row groups are large even if record batches are small, and memory is bounded for any number of days: records of more
days than files may be open get a second file of a day only if they do not fit into that memory. A finished file is on
disk, under a name of its own for each attempt; `export_target` publishes it.
"""

from __future__ import annotations

import logging
import uuid
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.types import StructType

from kafkafs.spark.errors import DataLossError, JobError
from kafkafs.spark.jobs.export_days import INVALID_TIMESTAMP, by_day, date_text, dated
from kafkafs.spark.jobs.export_target import ExportedFile
from kafkafs.spark.schema import source_schema
from kafkafs.spark.sight import explained
from kafkafs.spark.task import SparkRows
from storage.clock import Clock
from storage.files import Files
from storage.offset_text import offsets_text
from storage.split import SplitReader

if TYPE_CHECKING:
    from kafkafs.spark.jobs.export_days import DatedRows
    from storage.errors import RecordsGoneError
    from storage.split import PartitionPlace, Split

logger = logging.getLogger(__name__)

Compression: TypeAlias = Literal["snappy", "zstd", "gzip", "lz4", "none"]
COMPRESSIONS: Final[tuple[Compression, ...]] = get_args(Compression)
TEXT: Final = "text"
BINARY: Final = "binary"
_HELD_BYTES_MAX: Final = 128 * 1024 * 1024
_ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
_OPEN_MAX: Final = 32


class ExportTask(NamedTuple):
    """The splits that a task exports, and how."""

    splits: tuple[Split, ...]
    staging: str
    headers: bool
    values: str
    compression: Compression
    accepts_data_loss: bool

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes to read."""
        return sum(split.size_bytes for split in self.splits)


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
    """Return the columns of the files: the source's and `invalidTimestamp`; the directory's name says the topic."""
    schema = SparkRows(_columns(headers=headers)).schema.append(INVALID_TIMESTAMP)
    if values == TEXT:
        for name in ("key", "value"):
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
    return schema


def _columns(*, headers: bool) -> StructType:
    return StructType([field for field in source_schema(has_headers=headers) if field.name != "topic"])


class _Writing:
    """One attempt of a task.

    Rows are held back and put in the order of their days before they are written, so that a task with records of many
    days in turn does not write many files for each.
    """

    def __init__(self, task: ExportTask) -> None:
        self._task = task
        self._schema = export_schema(headers=task.headers, values=task.values)
        self._held: list[DatedRows] = []
        self._held_bytes = 0
        self._open: dict[int, _OpenFile] = {}
        self._finished: list[StagedExport] = []

    def run(self) -> list[StagedExport]:
        rows = SparkRows(_columns(headers=self._task.headers))
        reader = SplitReader(Files(), Clock(), columns=rows.columns, on_loss=explained(self._report))
        for place, splits in groupby(self._task.splits, key=attrgetter("place")):
            for batch in (batch for split in splits for batch in reader.read(split)):
                self._hold(dated(batch, rows, place.topic, place.partition), place)
            self._write_held(place)
            self._finish(0)
        return self._finished

    def _report(self, loss: RecordsGoneError) -> None:
        if not self._task.accepts_data_loss:
            raise DataLossError(f"{loss}: --accept-data-loss exports what is left")
        logger.warning("%s", loss)

    def _hold(self, dated_rows: DatedRows, place: PartitionPlace) -> None:
        if self._task.values == TEXT:
            dated_rows = dated_rows._replace(rows=_as_text(dated_rows.rows, place, self._schema))
        self._held.append(dated_rows)
        self._held_bytes += dated_rows.rows.nbytes
        if self._held_bytes >= _HELD_BYTES_MAX:
            self._write_held(place)

    def _write_held(self, place: PartitionPlace) -> None:
        """Write the rows that were held back, each day's into its file."""
        for day, part in by_day(self._held) if self._held else ():
            file = self._open.pop(day, None)
            if file is None:
                self._finish(_OPEN_MAX - 1)
                path = Path(self._task.staging) / f"{uuid.uuid4().hex}.parquet"
                file = _OpenFile(path, place, day, self._schema, self._task.compression)
            self._open[day] = file  # the most recently used
            file.write(part)
        self._held, self._held_bytes = [], 0

    def _finish(self, keep: int) -> None:
        """Finish the least recently used files until this many are left open."""
        while len(self._open) > keep:
            self._finished.append(self._open.pop(next(iter(self._open))).finish())


class _OpenFile:
    """A file that is being written."""

    def __init__(
        self, path: Path, place: PartitionPlace, day: int, schema: pa.Schema, compression: Compression
    ) -> None:
        self._path = path
        self._place = place
        self._day = day
        self._writer = parquet.ParquetWriter(path, schema, compression=compression)
        self._records = 0
        self._first_offset = self._last_offset = -1

    def write(self, rows: pa.Table) -> None:
        """Write rows of the day."""
        offsets = rows.column("offset")
        if not self._records:
            self._first_offset = offsets[0].as_py()
        self._last_offset = offsets[-1].as_py()
        self._records += rows.num_rows
        groups = rows.nbytes // _ROW_GROUP_BYTES + 1
        self._writer.write_table(rows, row_group_size=-(-rows.num_rows // groups))

    def finish(self) -> StagedExport:
        self._writer.close()
        with Files().open_writing(self._path) as written:
            written.sync()
            size_bytes = written.size_bytes()
        place = self._place
        file = ExportedFile.of_day(
            place.topic, place.partition, date_text(self._day), self._first_offset, self._last_offset
        )
        return StagedExport(str(self._path), file, self._records, size_bytes)


def _as_text(batch: pa.RecordBatch, place: PartitionPlace, schema: pa.Schema) -> pa.RecordBatch:
    arrays: list[pa.Array[Any]] = list(batch.columns)
    for name in ("key", "value"):
        number = batch.schema.get_field_index(name)
        try:
            arrays[number] = pc.cast(arrays[number], pa.string())
        except pa.ArrowInvalid:
            first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
            where = f"{place}, {offsets_text(first, last + 1)}"
            raise JobError(f"a {name} in {where}, is not UTF-8: export it with --values binary") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
