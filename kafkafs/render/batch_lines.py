"""Renders whole batches as lines, one or many at a time, and counts their bytes without making them.

What a reader sees of a log's batches is said by `Visible`; a batch that it sees is shown with all its records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.locator.formats import Format
from kafkafs.locator.views import View
from kafkafs.render.envelope import Envelope
from storage.budget import MEMORY
from storage.log import AbortedBatches
from storage.record import (
    CODEC_MASK,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    TRIALS,
    UNLEASED_BYTES_MAX,
    Codec,
    LeasedBuffer,
    RecordBatch,
    begin_trial,
    check_share,
    decompressors,
    end_trial,
    envelope_lines,
    envelope_lines_size,
    envelope_run_size,
    run_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from storage.budget import Lease
    from storage.record import Batch, Criteria, Record
    from storage.segment.index import AbortedTransaction

_MAY_BE_HIDDEN: Final = CONTROL_BIT | TRANSACTIONAL_BIT
_DECOMPRESSORS: Final = {bytes_max: decompressors(limit_bytes=bytes_max) for bytes_max in TRIALS}
_ENVELOPE_BYTES: Final = 128
"""The line of an envelope without key and value, about."""
_LINE_COST: Final = 8
"""How many times a key or value is in memory while its line is made, about: one byte may become six."""
_JOINED_COPIES: Final = 2
"""How many times lines are in memory that are joined."""
_STEP_BYTES: Final = 8 * 1024 * 1024
"""How much memory lines lease beside twice what they take, once they take more than they have."""
_PLACE: Final = Struct("=qq")
PLACE_BYTES: Final = _PLACE.size
_LINE_BYTES_MAX: Final = 1024 * 1024
"""With how many bytes of lines a run of batches ends."""


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

    def run(self, first: Batch, end_position: int) -> tuple[int, bool]:
        """Return where a run of batches ends at the latest, and if those of transactions belong to it.

        Where some transactions are aborted, each batch of a transaction is looked up. The reader sees `first`.
        """
        if first.is_transactional and not self.shows_transactions:
            return first.position + first.size_bytes, True
        return end_position, self.shows_transactions


class RenderedBatches(NamedTuple):
    """Rendered consecutive batches: their bytes in the log, and where the last of them begins among these."""

    log_bytes: int
    last_at: int
    size_bytes: int
    lines: Buffer


class BatchLines(ABC):
    """A form of lines. Checksums are looked at; if the first batch is damaged it is a `CorruptBatchError`."""

    @abstractmethod
    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        """Render `first`, and as many of the batches after it, before the position, as cost no more time.

        With `only_size` there are no lines, only their size.
        """

    @abstractmethod
    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the rendered bytes of the batch's records below the offset."""


class ValueLines(BatchLines):
    """Each value followed by a newline; a null is an empty line."""

    _of_keys = False
    _criteria: Criteria | None = None
    _growth = 1  # how many bytes are made of one at the most

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        """Render a run of batches, or one that needs a closer look."""
        is_shown = visible.shows(first)
        if is_shown and isinstance(first, RecordBatch):
            end_of_run, with_transactions = visible.run(first, end_position)
            run = partial(
                run_lines,
                first,
                end_offset=visible.end_offset,
                with_transactions=with_transactions,
                of_keys=self._of_keys,
                criteria=self._criteria,
                line_bytes_max=_LINE_BYTES_MAX,
                only_size=only_size,
            )
            tried_bytes = begin_trial()
            try:
                log_bytes, last_at, lines = run(end_position=end_of_run, decompressors=_DECOMPRESSORS[tried_bytes])
            finally:
                end_trial(tried_bytes)
            if log_bytes:
                return _rendered(log_bytes, last_at, lines)
            first.check_crc()
            if first.attributes & CODEC_MASK:
                records_data = first.records_data()
                lease = MEMORY.lease(0 if only_size else self._growth * memoryview(records_data).nbytes)
                log_bytes, last_at, lines = run(
                    end_position=first.position + first.size_bytes,
                    decompressors=(lambda _stored: records_data,) * len(Codec),
                )
                if log_bytes:
                    return _rendered(log_bytes, last_at, lines, lease)
        first.check_crc()
        if not is_shown:
            return _rendered(first.size_bytes, 0, 0 if only_size else b"")
        if only_size:
            return _rendered(first.size_bytes, 0, sum(map(self._line_size, first.checked_records(), repeat(first))))
        return _rendered(first.size_bytes, 0, *self._of_records(first))

    def _of_records(self, batch: Batch) -> tuple[bytes, Lease | None]:
        """Return the lines of a batch that the kernel does not render, with a lease if they take much memory."""
        lines: list[bytes] = []
        lease = None
        room_bytes = UNLEASED_BYTES_MAX
        lines_bytes = 0
        for record in batch.checked_records():
            lines_bytes += self._line_size(record, batch)
            if _JOINED_COPIES * lines_bytes > room_bytes:
                room_bytes = 2 * _JOINED_COPIES * lines_bytes + _STEP_BYTES
                if lease is None:
                    lease = MEMORY.lease(room_bytes)
                else:
                    lease.grow_to(room_bytes)
            lines += self._line(record, batch)
        return b"".join(lines), lease

    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the bytes of the batch's lines below the offset."""
        return sum(self._line_size(record, batch) for record in batch.checked_records() if record.offset < offset)

    def _line(self, record: Record, _batch: Batch) -> tuple[bytes, ...]:
        """Return what a record's line is joined of."""
        return (record.key if self._of_keys else record.value) or b"", b"\n"

    def _line_size(self, record: Record, _batch: Batch) -> int:
        return max(record.key_size if self._of_keys else record.value_size, 0) + 1


class KeyLines(ValueLines):
    """Each key followed by a newline; a null is an empty line."""

    _of_keys = True


class MatchPlaces(ValueLines):
    """The place of each record that matches: the position of its batch and its offset, `PLACE_BYTES` together.

    `is_match` says the same of one record as the criteria say of all, for batches that need a closer look.
    """

    _growth = 3  # a record takes seven bytes or more

    def __init__(self, criteria: Criteria, is_match: Callable[[Record, Batch], bool]) -> None:
        self._criteria = criteria
        self._is_match = is_match

    def _line(self, record: Record, batch: Batch) -> tuple[bytes, ...]:
        return (_PLACE.pack(batch.position, record.offset),) if self._is_match(record, batch) else ()

    def _line_size(self, record: Record, batch: Batch) -> int:
        return PLACE_BYTES if self._is_match(record, batch) else 0


def places_in(lines: Buffer) -> Iterator[tuple[int, int]]:
    """Yield the position and the offset of each place."""
    return _PLACE.iter_unpack(lines)


class EnvelopeLines(BatchLines):
    """Each record's envelope on a line of its own."""

    def __init__(self, topic: str, partition: int) -> None:
        envelope = Envelope(topic, partition)
        self._line = envelope.line
        self._beginning = envelope.beginning

    def render(self, first: Batch, visible: Visible, end_position: int, *, only_size: bool) -> RenderedBatches:
        """Render one batch, or count those of a run that are not compressed."""
        is_shown = visible.shows(first)
        if only_size and is_shown and isinstance(first, RecordBatch):
            end_of_run, with_transactions = visible.run(first, end_position)
            log_bytes, last_at, size_bytes = envelope_run_size(
                first,
                end_of_run,
                visible.end_offset,
                with_transactions,
                self._beginning,
                line_bytes_max=_LINE_BYTES_MAX,
            )
            if log_bytes:
                return _rendered(log_bytes, last_at, size_bytes)
        first.check_crc()
        if is_shown and isinstance(first, RecordBatch) and first.count:
            records_data = first.records_data()
            if only_size:
                return _rendered(first.size_bytes, 0, envelope_lines_size(first, records_data, self._beginning))
            lease = None
            if memoryview(records_data).nbytes + first.count * _ENVELOPE_BYTES > UNLEASED_BYTES_MAX:
                size_bytes = envelope_lines_size(first, records_data, self._beginning)
                check_share(size_bytes, f"the JSON lines of the batch at offset {first.base_offset}")
                lease = MEMORY.lease(size_bytes)
            return _rendered(first.size_bytes, 0, envelope_lines(first, records_data, self._beginning), lease)
        lines, lease = self._of_entries(first) if is_shown else (b"", None)
        return _rendered(first.size_bytes, 0, len(lines) if only_size else lines, lease)

    def _of_entries(self, batch: Batch) -> tuple[bytes, Lease | None]:
        """Return the lines of a batch that the kernel does not render, with a lease if they take much memory."""
        lines: list[bytes] = []
        lease = None
        lines_bytes = 0
        for record in batch.checked_records():
            size_bytes = 2 * lines_bytes + _LINE_COST * (max(record.key_size, 0) + max(record.value_size, 0))
            if size_bytes > UNLEASED_BYTES_MAX:
                check_share(size_bytes, f"the JSON lines of the batch at offset {batch.base_offset}")
                lease = lease or MEMORY.lease(MEMORY.share_bytes)
            lines.append(self._line(record))
            lines_bytes += len(lines[-1])
        return b"".join(lines), lease

    def size_before(self, batch: Batch, offset: int) -> int:
        """Return the bytes of the envelopes of the batch's records below the offset."""
        return sum(len(self._line(record)) for record in batch.checked_records() if record.offset < offset)


_LINES: Final[Mapping[View, Callable[[str, int], BatchLines]]] = {
    View.VALUES: lambda _topic, _partition: ValueLines(),
    View.KEYS: lambda _topic, _partition: KeyLines(),
    View.RECORDS: EnvelopeLines,
}
_VIEWS: Final = {Format.VALUE: View.VALUES, Format.KEY: View.KEYS, Format.JSONL: View.RECORDS}


def new_lines(view: View, topic: str, partition: int) -> BatchLines:
    """Return the form in which a stream shows the batches of a partition."""
    return _LINES[view](topic, partition)


def lines_of(form: Format, topic: str, partition: int) -> BatchLines | None:
    """Return the form in which a run of records in this format shows the batches of a partition, if it is of lines."""
    view = _VIEWS.get(form)
    return None if view is None else new_lines(view, topic, partition)


def _rendered(log_bytes: int, last_at: int, lines: bytes | int, lease: Lease | None = None) -> RenderedBatches:
    if isinstance(lines, int):
        return RenderedBatches(log_bytes, last_at, lines, b"")
    if lease is None and len(lines) <= UNLEASED_BYTES_MAX:
        return RenderedBatches(log_bytes, last_at, len(lines), lines)
    lease = lease or MEMORY.lease(len(lines))
    lease.reduce_to(len(lines))
    return RenderedBatches(log_bytes, last_at, len(lines), LeasedBuffer(lines, lease))
