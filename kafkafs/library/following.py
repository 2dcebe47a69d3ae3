"""Following logs as they grow: every committed record once, in the order of its log.

A follower keeps an offset and no file, so rolls, compactions and moves between log directories do not concern it.
Retention may delete what it has not read yet, a leader may cut a replica's log, and another topic may get the name;
that raises an error, and is never skipped in silence.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kafkafs.library.record import given
from storage.errors import RecordsGoneError, StorageError
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkafs.library.context import Context
    from kafkafs.library.reading import LogReader
    from kafkafs.library.record import Record
    from storage.log import LogView, ReadableLog
    from storage.record import Record as DecodedRecord

logger: Final = logging.getLogger("kafkafs")

_POLL_S: Final = 0.1


class Follower:
    """One log that is followed from an offset on.

    With `fails`, records that are lost are a `RecordsGoneError`, otherwise a warning in the log.
    """

    def __init__(self, reader: LogReader, offset: int, *, fails: bool) -> None:
        self._reader = reader
        self._next_offset = offset
        self._fails = fails
        self._has_begun = False
        # The store forgets the log of a partition that is away, unless somebody has it.
        self._log, self._topic_id = reader.log, reader.topic_id
        self._cuts = len(self._log.view.cuts)
        self._settled: LogView | None = None  # in which there is nothing more to read

    def poll(self) -> Iterator[Sequence[DecodedRecord]]:
        """Yield the new records.

        Raises `UnknownPartitionError` while the partition is away; the next call then goes on once it is back.
        """
        reader = self._reader
        log = reader.log
        view = log.view
        if log is not self._log:
            self._take_other(log, view)
        if view is not self._settled:
            yield from self._new_in(view)
            self._settled = view

    def given(self, records: Sequence[DecodedRecord]) -> Iterator[Record]:
        """Make the library's records of decoded ones."""
        return given(self._reader.topic, self._reader.partition, records)

    def _new_in(self, view: LogView) -> Iterator[Sequence[DecodedRecord]]:
        reader = self._reader
        end = reader.end_offset
        if not self._has_begun and self._next_offset > view.end_offset:
            cut = f"the log ends at offset {view.end_offset}, before {self._next_offset}, where reading was to go on"
            self._lose(RecordsGoneError(self._named(cut)))
            self._next_offset = view.end_offset
        self._has_begun = True
        self._take_cuts(view)
        if self._next_offset < view.start_offset:
            gone = f"records were deleted unread: {offsets_text(self._next_offset, view.start_offset)}"
            self._lose(RecordsGoneError(self._named(gone)))
            self._next_offset = view.start_offset
        if self._next_offset > end:
            return
        for records in reader.records(self._next_offset, end, self._lose):
            self._next_offset = records[-1].offset + 1
            yield records
        self._next_offset = end

    def _take_other(self, log: ReadableLog, view: LogView) -> None:
        """Go on in the log that has come in place of the one before, or from its start if it is another topic's."""
        before, self._topic_id = self._topic_id, self._reader.topic_id
        self._log, self._cuts, self._settled = log, len(view.cuts), None
        is_same = self._topic_id == before and (before is not None or self._next_offset <= view.end_offset)
        if not is_same:
            self._lose(RecordsGoneError(self._named("another topic has this name now")))
            self._next_offset = view.start_offset

    def _take_cuts(self, view: LogView) -> None:
        """Go on where the log was cut, if that is before what was read."""
        cut = min(view.cuts[self._cuts :], default=self._next_offset)
        self._cuts = len(view.cuts)
        if cut < self._next_offset:
            self._lose(RecordsGoneError(self._named(f"the log was cut at offset {cut} after it was read further")))
            self._next_offset = cut

    def _named(self, what: str) -> str:
        return f"{self._reader.topic}-{self._reader.partition}: {what}"

    def _lose(self, loss: RecordsGoneError) -> None:
        if self._fails:
            raise loss
        logger.warning("%s", loss)


def followed(context: Context, followers: Callable[[], Sequence[Follower]], timeout: float | None) -> Iterator[Record]:
    """Yield new records of logs; ends when the store is closed, or when none has come for `timeout` seconds."""
    clock = context.clock
    idle_since_s = clock.elapsed_s()
    while not context.closed.is_set():
        is_idle = True
        try:
            for follower in followers():
                for records in follower.poll():
                    is_idle = False
                    yield from follower.given(records)
        except StorageError:
            if context.closed.is_set():
                return
            raise
        if not is_idle:
            idle_since_s = clock.elapsed_s()
            continue
        left_s = None if timeout is None else idle_since_s + timeout - clock.elapsed_s()
        if left_s is not None and left_s <= 0:
            return
        context.closed.wait(_POLL_S if left_s is None else min(_POLL_S, left_s))
