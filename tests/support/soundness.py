"""Checks that a log in memory is consistent: all its state follows from its batches.

What is asked of the log is compared with a look at every batch, and what it remembers with a new log made of the same
batches. Whether they are the right ones is for `promises` to say.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from memory_logs import DIRECTORY, LogOnMemory

from storage.record.batch import RecordBatch
from storage.verify.context import PartitionExpectation
from storage.verify.finding import Severity
from storage.verify.partition import verify_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.log.log import Log
    from storage.log.producers.state import ProducerState
    from storage.log.view import LogView
    from storage.verify.finding import Finding

_ONE_SEGMENT = {"segment.bytes": "1000000", "segment.index.bytes": "12000"}


def damages(log: LogOnMemory, start_offset: int) -> list[Finding]:
    """Return the findings of a check of every byte in the directory, for a log that begins at the offset."""
    expected = PartitionExpectation(
        directory=log.files.directory(DIRECTORY), is_compacted=log.config.compact, start_offset=start_offset
    )
    found = verify_partition(expected, advance=lambda _: None).findings
    return [finding for finding in found if finding.severity is not Severity.NOTICE]


def check_sound(log: Log) -> None:
    """Raise `AssertionError` unless look-ups, producers, transactions and epochs are those of the batches."""
    batches = [batch for segment in log.view.segments for batch in _record_batches(segment.batches())]
    _check_offsets(log.view, batches)
    _check_times(log.view)
    anew = LogOnMemory(_ONE_SEGMENT)
    if batches:
        anew.log.append_as_follower([b"".join(bytes(batch.view(0, batch.size_bytes)) for batch in batches)])
    _check_producers(log, anew.log)
    _check_epochs(log, batches)


def _record_batches(batches: Iterable[object]) -> list[RecordBatch]:
    found = []
    for batch in batches:
        assert isinstance(batch, RecordBatch)
        batch.check_crc()
        found.append(batch)
    return found


def _check_offsets(view: LogView, batches: list[RecordBatch]) -> None:
    """Every offset leads to its batch, and none is missing between batches."""
    for batch, following in pairwise(batches):
        assert following.base_offset == batch.last_offset + 1, "offsets are missing"
    for batch in batches:
        for offset in range(max(batch.base_offset, view.start_offset), batch.last_offset + 1):
            found = view.find(offset)
            assert found is not None, offset
            assert (found.position, found.last_offset) == (batch.position, batch.last_offset)


def _check_times(view: LogView) -> None:
    """Every timestamp leads where looking at everything leads."""
    segments = [
        [(record.timestamp, record.offset) for batch in segment.batches() for record in batch.records()]
        for segment in view.segments
    ]
    known = {timestamp for records in segments for timestamp, _ in records}
    for asked in sorted({timestamp + shift for timestamp in known for shift in (-1, 0, 1)}):
        later = (each for records in segments for each in records if each[0] >= asked)
        expected = next((each for each in later if each[1] >= view.start_offset), None)
        found = view.find_timestamp(asked)
        assert (None if found is None else (found.timestamp, found.offset)) == expected, asked


def _check_producers(log: Log, anew: Log) -> None:
    """A producer is known as by reading all; only of its batches before the last some may be forgotten.

    What it did in segments that are gone may still be known, and what it did before the log's start may not.
    """
    remembered = {state.producer_id: state for state in log.producers.states()}
    expected = {
        state.producer_id: state
        for state in anew.producers.states()
        if state.producer_id in remembered or _reach(state) >= log.view.start_offset
    }
    first_offset = log.view.segments[0].base_offset
    found = {
        number: state for number, state in remembered.items() if number in expected or _reach(state) >= first_offset
    }
    assert found.keys() == expected.keys()
    for producer_id, state in expected.items():
        batches = tuple(batch for batch in found[producer_id].batches if batch.last_offset >= first_offset)
        assert batches == state.batches[len(state.batches) - len(batches) :]
        assert batches or not state.batches
        assert found[producer_id]._replace(batches=()) == state._replace(batches=())
    view, known = log.view, anew.view
    assert view.last_stable_offset == max(known.last_stable_offset, view.start_offset)
    assert view.aborted(view.start_offset, view.end_offset) == [
        transaction for transaction in known.aborted(0, view.end_offset) if transaction.last_offset >= view.start_offset
    ]


def _reach(state: ProducerState) -> int:
    """The offset of the last record that is known of a producer."""
    return state.batches[-1].last_offset if state.batches else -1


def _check_epochs(log: Log, batches: list[RecordBatch]) -> None:
    """From the log's start on the epochs are those of the batches; what was forgotten lies before the first of them."""
    expected: dict[int, int] = {}
    for batch in batches:
        expected.setdefault(batch.leader_epoch, batch.base_offset)
    entries = [tuple(entry) for entry in log.epochs.entries]
    if any(batch.last_offset >= log.view.start_offset for batch in batches):
        assert entries, "no epoch is known"
    last = list(expected.items())[len(expected) - len(entries) :]
    assert [epoch for epoch, _ in entries] == [epoch for epoch, _ in last]
    assert entries[1:] == last[1:]
    assert not entries or entries[0][1] >= last[0][1]
