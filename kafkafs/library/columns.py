"""Records as Arrow record batches; imported only where they are asked for, since pyarrow is optional."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

try:
    import pyarrow as pa
except ImportError as error:
    message = f"Arrow's columns need pyarrow: run `pip install 'kafkafs[arrow]'` for {sys.executable}"
    raise ImportError(message, name="pyarrow") from error

from storage.record.columns import COLUMN_TYPES, DEFAULT_COLUMNS, schema_of
from storage.split import SplitReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkafs.library.context import Context
    from kafkafs.library.reading import LogReader
    from storage.errors import RecordsGoneError

_OF_PLACE: Final[Mapping[str, pa.DataType]] = {"topic": pa.string(), "partition": pa.int32()}
ALL_COLUMNS: Final = (*_OF_PLACE, *DEFAULT_COLUMNS)
"""The columns that are given where none are chosen."""


def record_batches(
    context: Context, ranges: Sequence[tuple[LogReader, tuple[int, int]]], columns: Sequence[str]
) -> pa.RecordBatchReader:
    """The records of ranges, one range after the other; raises `ValueError` for columns that there are not."""
    if isinstance(columns, str):
        raise TypeError(f"columns are a list of names: [{columns!r}]")
    stored = [name for name in columns if name not in _OF_PLACE]
    unknown = [name for name in stored if name not in COLUMN_TYPES]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}: choose from {', '.join((*_OF_PLACE, *COLUMN_TYPES))}")
    types = schema_of(stored or DEFAULT_COLUMNS)
    if not columns or len(set(columns)) != len(columns):
        raise ValueError("choose at least one column, and each only once")
    schema = pa.schema(
        [pa.field(name, _OF_PLACE[name] if name in _OF_PLACE else types.field(name).type) for name in columns]
    )
    return pa.RecordBatchReader.from_batches(schema, _batches(context, ranges, schema, stored or ["offset"]))


def _batches(
    context: Context, ranges: Sequence[tuple[LogReader, tuple[int, int]]], schema: pa.Schema, stored: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    reader = SplitReader(context.files, context.clock, columns=stored, on_loss=_fail)
    for log, (start, end) in ranges:
        splits, damage = log.splits(start, end), log.damage_after(end)
        for split in splits:
            for batch in reader.read(split):
                if batch.num_rows:
                    arrays = [_array(name, batch, log) for name in schema.names]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        if damage is not None:
            raise damage


def _array(name: str, batch: pa.RecordBatch, log: LogReader) -> pa.Array[Any]:
    match name:
        case "topic":
            return pa.repeat(log.topic, batch.num_rows)
        case "partition":
            return pa.repeat(pa.scalar(log.partition, pa.int32()), batch.num_rows)
        case _:
            return batch.column(name)


def _fail(loss: RecordsGoneError) -> None:
    raise loss
