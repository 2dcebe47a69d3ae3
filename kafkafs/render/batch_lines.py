"""Renders whole batches as lines, one or many at a time, and counts their bytes without making them.

What a reader sees of a log's batches is said by `Visible`; a batch that it sees is shown with all its records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.render.envelope import Envelope
from storage.log import AbortedBatches
from storage.record import (
    CODEC_MASK,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    batch_lines,
    batch_lines_size,
    run_lines,
    run_size,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.record import Batch, Record
    from storage.segment.index import AbortedTransaction

_MAY_BE_HIDDEN: Final = CONTROL_BIT | TRANSACTIONAL_BIT


class Visible:
    """The visible batches of a reader: those that begin below the end offset, without aborted transactions."""

    def __init__(self, end_offset: int, aborted: Sequence[AbortedTransaction] = ()) -> None:
        self.end_offset = end_offset
        self.shows_transactions = not aborted
        self._aborted = AbortedBatches(aborted)

    def shows(self, batch: Batch) -> bool:
        """True if the reader sees records of the batch, which begins below the end; never for control batches."""
        if not batch.attributes & _MAY_BE_HIDDEN:
            return True
        return not (batch.is_control or self._aborted.has(batch))


class Passed(NamedTuple):
    """Rendered consecutive batches: their bytes in the log, and where the last of them begins there."""

    log_bytes: int
    last_at: int
    size_bytes: int
    lines: Buffer


class BatchLines(ABC):
    """A form of lines. Checksums are looked at; if the first batch is damaged it is a `CorruptBatchError`."""

    @abstractmethod
    def passing(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> Passed:
        """Render `first`, and as many of the batches after it, before the position, as cost no more time.

        With `only_size` there are no lines, only their size.
        """

    @abstractmethod
    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the rendered bytes of the batch's records below the offset."""


class ValueLines(BatchLines):
    """Each value followed by a newline; a null is an empty line."""

    def passing(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> Passed:
        """Pass a run of uncompressed batches, or one batch."""
        if isinstance(first, RecordBatch) and not first.attributes & CODEC_MASK:
            bounds = (first, end_position, visible.end_offset, visible.shows_transactions)
            if only_size:
                log_bytes, last_at, size_bytes = run_size(*bounds)
                passed = Passed(log_bytes, last_at, size_bytes, b"")
            else:
                log_bytes, last_at, lines = run_lines(*bounds)
                passed = Passed(log_bytes, last_at, len(lines), lines)
            if log_bytes:
                return passed
        first.check_crc()
        if not visible.shows(first):
            return Passed(first.size_bytes, 0, 0, b"")
        if isinstance(first, RecordBatch) and first.count:
            records_data = first.records_data()
            if only_size:
                return Passed(first.size_bytes, 0, batch_lines_size(first, records_data), b"")
            lines = batch_lines(first, records_data)
        else:
            lines = b"".join([_value_line(record) for record in first.checked_records()])
        return Passed(first.size_bytes, 0, len(lines), lines)

    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the bytes of the batch's values below the offset, with their newlines."""
        return sum(len(_value_line(record)) for record in batch.checked_records() if record.offset < offset)


class EnvelopeLines(BatchLines):
    """Each record's envelope on a line of its own."""

    def __init__(self, topic: str, partition: int) -> None:
        self._line = Envelope(topic, partition).line

    def passing(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> Passed:  # noqa: ARG002 -- what takes so long is done batch by batch
        """Pass one batch."""
        first.check_crc()
        lines = b"".join(map(self._line, first.checked_records())) if visible.shows(first) else b""
        return Passed(first.size_bytes, 0, len(lines), b"" if only_size else lines)

    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the bytes of the envelopes of the batch's records below the offset."""
        return sum(len(self._line(record)) for record in batch.checked_records() if record.offset < offset)


def _value_line(record: Record) -> bytes:
    return (record.value or b"") + b"\n"
