"""The check that a segment was finished before the crash: its log and indexes have the form that a roll leaves.

The recovery point may lie exactly at the end of a segment whose roll a crash interrupted: then its batches are on disk,
and its indexes still have their unused slots, which a broker takes for entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, CorruptIndexError
from storage.segment.names import Kind
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from storage.segment.segment import Segment


def is_finished(segment: Segment) -> bool:
    """Return True if the log ends with a whole batch, the indexes have no unused slots, and the last time is a batch's.

    Reads the end of each file.
    """
    try:
        return whole_end(segment) is not None and _are_indexes_trimmed(segment) and _is_last_time_whole(segment)
    except CorruptIndexError:
        return False
    finally:
        segment.unload()


def whole_end(segment: Segment) -> int | None:
    """Return the next offset; None unless the log, read from the last index entry on, ends with a whole batch."""
    next_offset = None
    try:
        start = segment.offset_index.lookup(segment.offset_index.last_offset).position
        with segment.open_log() as file:
            scan = LogScan(file, start=start)
            for batch in scan:
                next_offset = batch.last_offset + 1
            is_whole = start <= scan.end == scan.position
        if is_whole and next_offset is None:
            next_offset = segment.read_next_offset()
    except (CorruptBatchError, CorruptIndexError):
        return None
    finally:
        segment.unload()
    return next_offset if is_whole else None


def _are_indexes_trimmed(segment: Segment) -> bool:
    for kind, index in ((Kind.OFFSET_INDEX, segment.offset_index), (Kind.TIME_INDEX, segment.time_index)):
        status = segment.own_files.status(kind)
        if status is None or status.size_bytes != index.entries_count * index.entry_bytes:
            return False
    return True


def _is_last_time_whole(segment: Segment) -> bool:
    """Return True if the time index's last entry, which a roll writes just before trimming the file, is not torn."""
    if segment.size_bytes == 0 or segment.time_index.entries_count == 0:
        return True
    last = segment.time_index.last_entry
    try:
        near = (batch for batch in segment.batches_near(last.offset, None) if batch.last_offset >= last.offset)
        batch = next(near, None)
    except CorruptBatchError:
        return False
    return batch is not None and batch.max_timestamp == last.timestamp
