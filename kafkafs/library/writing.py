"""Appending to one partition: what is written is stamped, compressed and checked as the mount's `append` does it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkafs.library.context import Turn
from kafkafs.library.record import Record, Row
from kafkafs.library.selection import milliseconds
from kafkafs.render.packing import Packing
from storage.errors import InvalidRecordError, InvalidTopicError, ReadOnlyStoreError, UnknownPartitionError
from storage.log import Log
from storage.log_dir import BROKERS_OWN
from storage.offset_text import offsets_text
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkafs.library.context import Context
    from storage.record import Row as EncodedRow

NewRecord: TypeAlias = "bytes | Row | Record | None"
"""An appendable value: bytes, a mapping of `append`'s arguments, or a record of another partition."""

_STORED_ROWS_MAX: Final = 10_000
_STORED_BYTES: Final = 1024 * 1024


class LogWriter:
    """Appends to a partition of an open store; any number of threads may, one at a time."""

    def __init__(self, context: Context, topic: str, partition: int) -> None:
        self._context = context
        self._topic = topic
        self._partition = partition
        self._turn = context.appending.setdefault((topic, partition), Turn())

    def append(self, rows: Iterable[NewRecord]) -> range:
        """Store rows, a megabyte or so together, and give their offsets; none comes in between."""
        log = self.log()
        with self._turn:
            start = end = log.view.end_offset
            now_ms = self._context.clock.now_ms()
            try:
                for some in _portions(_numbered(rows, now_ms)):
                    end = self._store(log, some, end - start)
            except BaseException as error:
                if end > start:
                    were = "record was" if end - start == 1 else "records were"
                    error.add_note(f"{end - start} {were} stored before it ({offsets_text(start, end)})")
                raise
        return range(start, end)

    def log(self) -> Log:
        """The log; raises `ReadOnlyStoreError`, `InvalidTopicError`, and what opening it raises."""
        store = self._context.store
        if store.mode is Mode.READ_ONLY:
            raise ReadOnlyStoreError(
                "the store is open for reading only: open it with write=True", path=store.log_dirs[0].path
            )
        self._context.check_process()
        if self._topic in BROKERS_OWN:
            raise InvalidTopicError(f"only brokers change {self._topic}, which is their own")
        log = store.log(self._topic, self._partition)
        assert isinstance(log, Log)
        return log

    def _store(self, log: Log, rows: list[EncodedRow], number: int) -> int:
        """Store rows, the first of which has this number, and return the offset after them."""
        packing = Packing.of_topic(log.config, self._context.clock.now_ms())
        try:
            batches = packing.rows(rows)
        except InvalidRecordError:
            _refuse(packing, rows, number)
            raise
        if not log.directory.exists():
            raise UnknownPartitionError(
                "the directory of the partition is gone, so nothing can be stored in it", path=log.directory
            )
        return log.append_all_as_leader(batches, leader_epoch=log.epochs.writing_epoch)[-1].last_offset + 1


def _refuse(packing: Packing, rows: list[EncodedRow], number: int) -> None:
    """Raise the error of the first row that cannot be packed, with its number among all rows of the call."""
    for each, row in enumerate(rows, number):
        try:
            packing.rows([row])
        except InvalidRecordError as error:
            raise type(error)(f"row {each}: {error.reason.removeprefix('row 0: ')}") from None


def _numbered(rows: Iterable[NewRecord], now_ms: int) -> Iterator[EncodedRow]:
    for number, row in enumerate(rows):
        try:
            encoded = _encoded(row, now_ms)
        except InvalidRecordError as error:
            error.reason = f"row {number}: {error.reason}"
            raise
        except (TypeError, ValueError) as error:
            error.args = (f"row {number}: {error}",)
            raise
        yield encoded


def _encoded(row: NewRecord, now_ms: int) -> EncodedRow:
    if row is None or isinstance(row, bytes | bytearray | memoryview):
        return now_ms, None, row, ()
    if isinstance(row, Record):
        return (row.timestamp if row.timestamp >= 0 else now_ms), row.key, row.value, row.headers
    if not isinstance(row, Mapping):
        raise InvalidRecordError(f"a row is bytes, None, a mapping or a Record, not {type(row).__name__}")
    unknown = row.keys() - Row.__annotations__.keys()
    if unknown:
        raise ValueError(f"a row has no {min(unknown)!r}: it has {', '.join(Row.__annotations__)}")
    timestamp = row.get("timestamp")
    time_ms = now_ms if timestamp is None else milliseconds(timestamp)
    return time_ms, row.get("key"), row.get("value"), tuple(row.get("headers") or ())


def _portions(rows: Iterator[EncodedRow]) -> Iterator[list[EncodedRow]]:
    """The rows, so many together that little is lost by storing them apart, and memory is bounded."""
    for first in rows:
        some: list[EncodedRow] = []
        size_bytes = 0
        for row in chain((first,), rows):
            some.append(row)
            try:
                size_bytes += len(row[1] or b"") + len(row[2] or b"")  # type: ignore[arg-type]
            except TypeError:
                break  # no bytes: encoding them says so
            if size_bytes >= _STORED_BYTES or len(some) == _STORED_ROWS_MAX:
                break
        yield some
