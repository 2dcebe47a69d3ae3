"""Runs of batches as Arrow record batches, with the same columns for every topic.

`read_columns` promises that every row is one record exactly, that rows come in the order of the log, and that no row
comes of a batch which is damaged: the records before it come first, then the error. Its memory is bounded by the chunk
size and by the largest batch, not by what the bytes claim. Callers interpret keys and values.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from storage.errors import StorageError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES, Codec
from storage.record.kernel.columns import ColumnFiller
from storage.record.kernel.pinned_buffer import PinnedBuffer
from storage.record.layout import CODEC_MASK
from storage.record.legacy import LegacyBatch
from storage.record.reading import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from storage.record.batch import RecordBatch

_CODEC: Final = pa.dictionary(pa.int8(), pa.string())
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])

COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "timestampType": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(_HEADER),
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "codec": _CODEC,
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "leaderEpoch": pa.int32(),
    "position": pa.int64(),
}
"""Every column there is. `timestampType` is 0 for CreateTime, 1 for LogAppendTime, -1 for v0, which has no times;
`position` is that of the record's batch; numbers that a record does not have are -1, as Kafka writes them."""

DEFAULT_COLUMNS: Final = ("offset", "timestamp", "timestampType", "key", "value", "headers")
DEFAULT_CHUNK_BYTES: Final = 2 * 1024 * 1024
LARGEST_CHUNK_BYTES: Final = 1024 * 1024 * 1024

_LARGEST_ROOM: Final = 2**31 - 1  # Arrow counts the bytes of a column of strings in 32 bits
_OFFSET_MIN: Final = -(2**63)
_END_OF_OFFSETS: Final = 2**63
_LABELS: Final = pa.array([codec.label for codec in Codec], pa.string())


def schema_of(columns: Sequence[str] = DEFAULT_COLUMNS) -> pa.Schema:
    """The schema of the record batches that `read_columns` makes of these columns."""
    if not columns or len(set(columns)) != len(columns):
        raise ValueError("choose at least one column, and each only once")
    unknown = [name for name in columns if name not in COLUMN_TYPES]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}: choose from {', '.join(COLUMN_TYPES)}")
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])


def read_columns(
    source: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    origin: int = 0,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    check_crc: bool = True,
    include_control: bool = False,
    first_offset: int | None = None,
    end_offset: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of the whole batches between start and end, as Arrow record batches of about `chunk_bytes`.

    `origin` is the position in the file of the buffer's first byte. Records below `first_offset` are left out, and
    reading ends at `end_offset`. A record larger than a chunk gets a chunk of its own. Names of headers that are
    not UTF-8 have U+FFFD in place of what is not. What is given out does not depend on the buffer any more.

    Raises `CorruptBatchError` at the first batch that is damaged, when everything before it has been given out.
    Without `check_crc`, damage shows only where lengths or a compressed stream disagree. The buffer must not change
    while it is read; if it is a map of a file that is cut short meanwhile, the process dies of SIGBUS.
    """
    schema = schema_of(columns)
    size_bytes = len(PinnedBuffer(source))
    end = size_bytes if end is None else end
    if not 0 <= start <= end <= size_bytes:
        raise IndexError(f"{start}..{end} is not within a buffer of {size_bytes} bytes")
    if not 1 <= chunk_bytes <= LARGEST_CHUNK_BYTES:
        raise ValueError(f"a chunk of {chunk_bytes} bytes cannot be: choose 1 to {LARGEST_CHUNK_BYTES}")
    reader = _ColumnReader(
        schema,
        chunk_bytes=chunk_bytes,
        limit_bytes=limit_bytes,
        check_crc=check_crc,
        include_control=include_control,
        first_offset=_OFFSET_MIN if first_offset is None else first_offset,
        end_offset=_END_OF_OFFSETS if end_offset is None else max(end_offset, _OFFSET_MIN + 1),
    )
    return reader.chunks(source, start, end, origin)


class _Room(NamedTuple):
    """The amounts that a chunk holds or has room for, in the order in which the filler counts them."""

    rows: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_key_bytes: int
    header_value_bytes: int


def _first_room(chunk_bytes: int) -> _Room:
    """Room for short records of any make-up, for when nothing is known of them."""
    return _Room(
        rows=chunk_bytes // 64,
        key_bytes=chunk_bytes // 2,
        value_bytes=chunk_bytes * 3 // 4,
        headers=chunk_bytes // 64,
        header_key_bytes=chunk_bytes // 4,
        header_value_bytes=chunk_bytes // 4,
    )


class _ColumnReader:
    """One reading: what is wanted, the chunk that is being filled, and how large the next should be."""

    def __init__(
        self,
        schema: pa.Schema,
        *,
        chunk_bytes: int,
        limit_bytes: int,
        check_crc: bool,
        include_control: bool,
        first_offset: int,
        end_offset: int,
    ) -> None:
        self._schema = schema
        self._chunk_bytes = chunk_bytes
        self._limit_bytes = limit_bytes
        self._check_crc = check_crc
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._room = self._least_room = _first_room(chunk_bytes)
        self._filler = ColumnFiller(
            schema.names,
            lambda size_bytes: pa.allocate_buffer(size_bytes, None, resizable=True),
            first_offset=first_offset,
            last_offset=end_offset - 1,
            include_control=include_control,
            check_crc=check_crc,
        )

    def chunks(self, source: Buffer, start: int, end: int, origin: int) -> Iterator[pa.RecordBatch]:
        """Every chunk; the memory of one is allocated only when the consumer asks for it."""
        try:
            yield from self._full_chunks(source, start, end, origin)
        except StorageError:
            if self._filler.rows:
                yield self._finish_chunk()
            raise
        if self._filler.rows:
            yield self._finish_chunk()

    def _full_chunks(self, source: Buffer, start: int, end: int, origin: int) -> Iterator[pa.RecordBatch]:
        filler = self._filler
        buffer = PinnedBuffer(source)
        while True:
            # What the filler can run through costs nothing per batch; where it stops, one batch is looked at closely.
            start = filler.run(buffer, start, end, origin)
            while not filler.fill():
                yield from self._next_chunk()
            batches = read_batches(source, start=start, end=end, origin=origin)
            for batch in batches:
                if isinstance(batch, LegacyBatch):
                    yield from self._read_legacy(batch)
                elif batch.base_offset < self._end_offset:
                    self._open(batch)
                    while not filler.fill():
                        yield from self._next_chunk()
                if batch.last_offset >= self._end_offset:
                    return
                if not (isinstance(batch, LegacyBatch) or batch.attributes & CODEC_MASK):
                    break
            else:
                return
            start = batches.position - origin

    def _open(self, batch: RecordBatch) -> None:
        """Give this batch to the filler, if it is sound and wanted."""
        # The header says whether it is wanted, so it must be right first.
        if self._check_crc:
            batch.check_crc()
        if not self._filler.wants(batch):
            return
        if batch.attributes & CODEC_MASK:
            self._filler.open(batch, batch.records_data(limit_bytes=self._limit_bytes))
        else:
            self._filler.open(batch)

    def _read_legacy(self, batch: LegacyBatch) -> Iterator[pa.RecordBatch]:
        if self._check_crc:
            batch.check_crc()
        is_wrapper = batch.codec is not Codec.NONE
        # The wrappers of an old client always say 0.
        if batch.last_offset < self._first_offset and not (is_wrapper and batch.last_offset == 0):
            return
        if is_wrapper:
            # A wrapper is checked to its last entry before its first record is given.
            checked = batch.checked_records if self._check_crc else batch.records
            deque(checked(limit_bytes=self._limit_bytes), maxlen=0)
        for record in batch.records(limit_bytes=self._limit_bytes):
            while not self._filler.append(record, batch):
                yield from self._next_chunk()

    def _next_chunk(self) -> Iterator[pa.RecordBatch]:
        """Give out the chunk, unless it is empty, and begin one that the record still waiting fits into."""
        if self._filler.rows:
            yield self._finish_chunk()
        self._filler.begin(*map(max, self._room, self._filler.needed))

    def _finish_chunk(self) -> pa.RecordBatch:
        """Make a record batch of the filled buffers, and learn from it what the next ones need."""
        used = self._filler.used
        parts: dict[str, pa.Buffer] = {}
        used_bytes = 0
        for name, (buffer, part_bytes) in self._filler.finish().items():
            buffer.resize(part_bytes, shrink_to_fit=True)
            parts[name] = buffer
            used_bytes += part_bytes
        # Room for the like of this chunk, and for what records of another make-up need to get going.
        self._room = _Room(
            *(
                min(count * self._chunk_bytes // used_bytes + least // 8, _LARGEST_ROOM)
                for count, least in zip(used, self._least_room, strict=True)
            )
        )
        arrays = [_array(name, used[0], used[3], parts) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(name: str, rows: int, headers: int, parts: Mapping[str, pa.Buffer]) -> pa.Array[Any]:
    match name:
        case "key" | "value":
            return _strings(pa.binary(), name, rows, parts)
        case "headers":
            key = _strings(pa.string(), "headers.key", headers, parts)
            value = _strings(pa.binary(), "headers.value", headers, parts)
            header = pa.Array.from_buffers(_HEADER, headers, [None], children=[key, value])
            return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, parts["headers.ends"]], children=[header])
        case "codec":
            return pa.DictionaryArray.from_arrays(pa.Array.from_buffers(pa.int8(), rows, [None, parts[name]]), _LABELS)
        case _:
            return pa.Array.from_buffers(COLUMN_TYPES[name], rows, [None, parts[name]])


def _strings(kind: pa.DataType, name: str, rows: int, parts: Mapping[str, pa.Buffer]) -> pa.Array[Any]:
    validity = parts.get(f"{name}.validity")
    return pa.Array.from_buffers(kind, rows, [validity, parts[f"{name}.ends"], parts[f"{name}.data"]])
