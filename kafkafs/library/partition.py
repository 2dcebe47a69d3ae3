"""One partition of an open store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.library.following import Follower, followed
from kafkafs.library.reading import LogReader
from kafkafs.library.record import Record, Row, given
from kafkafs.library.selection import parse_moment, parse_record
from kafkafs.library.writing import LogWriter
from kafkafs.locator.offsets import AtOffset, Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from kafkafs.library.context import Context
    from kafkafs.library.selection import Moment, Offsets, Times
    from kafkafs.library.writing import NewRecord
    from storage.record import Record as DecodedRecord


class Partition:
    """A partition: `store["orders"][0]`. Any thread may use it, with iterators of its own.

    What is read is checked: damage is a `CorruptBatchError`, after every record before it. What is deleted while it is
    read is a `RecordsGoneError`. At `read_committed` aborted records are left out, and reading ends at the first open
    transaction.
    """

    def __init__(self, context: Context, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.reader = LogReader(context, topic, number)
        self._context = context

    def __repr__(self) -> str:
        return f"<kafkafs.Partition {self.topic}-{self.number}>"

    @property
    def start_offset(self) -> int:
        """The offset that the log begins with now."""
        return self.reader.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last that can be read now; at `read_committed` the last stable offset."""
        return self.reader.end_offset

    # Reading

    def record(self, offset: int | str) -> Record | None:
        """Return the record at an offset, or one that is called `earliest`, `latest` or `last-10`; None without one."""
        return self._one(self.reader.record(parse_record(offset)))

    def at(self, time: Moment) -> Record | None:
        """Return the first record at or after a time, as `by-time` has it; None without one."""
        start = self.reader.at(parse_moment(time).resolve(self._context.clock.now_ms()))
        return None if start is None else self._one(self.reader.first(start))

    def records(self, *, offsets: Offsets | None = None, times: Times | None = None) -> Iterator[Record]:
        """Iterate over the records of a range of offsets or of times, or over all.

        The range is fixed by this call, and cut to what exists. Memory stays within a few batches.
        """
        return self._given(*self.reader.range(offsets, times))

    def to_batches(
        self, *, offsets: Offsets | None = None, times: Times | None = None, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return the same records as Arrow record batches, which are read as they are asked for."""
        from kafkafs.library.columns import ALL_COLUMNS, record_batches

        ranges = [(self.reader, self.reader.range(offsets, times))]
        return record_batches(self._context, ranges, ALL_COLUMNS if columns is None else columns)

    def to_arrow(
        self, *, offsets: Offsets | None = None, times: Times | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the same records as an Arrow table, all in memory."""
        return self.to_batches(offsets=offsets, times=times, columns=columns).read_all()

    def follow(
        self, offset: int | str | None = None, *, timeout: float | None = None, fail_on_data_loss: bool = True
    ) -> Iterator[Record]:
        """Iterate over the records from an offset on, or from the end that the log has now, and over those that come.

        The iterator waits for more; it ends when none has come for `timeout` seconds, or the store is closed. Records
        that are deleted before they are read, or a log that is cut, are a `RecordsGoneError`, or with
        `fail_on_data_loss=False` a warning in the log, and it goes on where the log does.
        """
        name = None if offset is None else parse_record(offset)
        start: int | None
        if name is None:
            start = self.end_offset
        elif isinstance(name, AtOffset):
            start = name.offset
        else:
            start = None if name is Edge.EARLIEST else self.reader.offset(name)
            start = self.start_offset if start is None else start
        follower = Follower(self.reader, start, fails=fail_on_data_loss)
        return followed(self._context, lambda: (follower,), timeout)

    def _one(self, record: DecodedRecord | None) -> Record | None:
        return None if record is None else next(given(self.topic, self.number, (record,)))

    def _given(self, start: int, end: int) -> Iterator[Record]:
        for records in self.reader.records(start, end):
            yield from given(self.topic, self.number, records)

    # Writing

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        timestamp: int | datetime | None = None,
    ) -> int:
        """Append a record, and return its offset once readers see it and it survives the end of this process.

        Raises `ReadOnlyStoreError`, `InvalidRecordError`, `DiskFullError` or `PoisonedLogError`; then it is not stored.
        """
        row = Row(value=value, key=key, headers=headers)
        if timestamp is not None:
            row["timestamp"] = timestamp
        return self.append_many((row,)).start

    def append_many(self, rows: Iterable[NewRecord]) -> range:
        """Append records, and return their offsets, which follow on one another.

        A row is a value, or a mapping of `append`'s arguments, or a `Record`. They are stored about a megabyte at a
        time: of one that is refused the error's notes say how many were stored before.
        """
        return LogWriter(self._context, self.topic, self.number).append(rows)

    def flush(self) -> None:
        """Return once all that was appended is on disk, and survives a loss of power."""
        LogWriter(self._context, self.topic, self.number).log().flush()
