"""A segment that spans more offsets than its indexes can hold, cut into several that do not.

Old brokers and cleaners made such segments. The parts get no indexes: the caller builds them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError, TooManySegmentsError
from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.segment import names
from storage.segment.checked_scan import base_of_part
from storage.segment.names import FileName, FileSuffix, Kind
from storage.segment.replacement import replace_segments
from storage.segment.scan import WINDOW_BYTES, LogScan
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.files import Directory, ReadableFile, WritableFile

_COPY_BYTES: Final = WINDOW_BYTES


def split_segment(
    directory: Directory, base_offset: int, end_offset: int | None = None, *, other_segments: int = 0
) -> list[int]:
    """Replace the segment by parts, each beginning at the first batch that does not fit into the one before.

    Returns their base offsets, of which the segment's own is the first, and all are below `end_offset`, where the next
    segment begins. Bytes that are no batch stay at the end.
    Raises `TooManySegmentsError`, before any change, if the log, which has so many other segments, would have too many.
    """
    with directory.open_reading(str(FileName(base_offset, Kind.LOG))) as log:
        parts = _parts(log, base_offset, end_offset)
        if other_segments + len(parts) > names.SEGMENTS_MAX:
            raise TooManySegmentsError(
                f"the segment at {base_offset} has offsets for {len(parts):,} segments, "
                f"and no more than {names.SEGMENTS_MAX:,} of a partition are taken in",
                path=directory.path,
            )
        directory.note_split(base_offset, end_offset)
        for index, (part_base, start) in enumerate(parts):
            end = parts[index + 1][1] if index + 1 < len(parts) else log.size_bytes()
            part = str(FileName(part_base, Kind.LOG, FileSuffix.CLEANED))
            with directory.open_writing(part, create=True) as copy:
                _copy(log, start, end, copy)
    directory.sync()
    bases = [part_base for part_base, _ in parts]
    for name in replace_segments(directory, bases, [Segment(directory, base_offset)]):
        directory.remove(name)
    return bases


def _parts(log: ReadableFile, base_offset: int, end_offset: int | None) -> list[tuple[int, int]]:
    """Return the base offset and the position of each part."""
    parts = [(base_offset, 0)]
    due_offset = base_offset
    with suppress(CorruptBatchError):  # the damage goes into the last part, and its recovery sees it
        for batch in LogScan(log):
            if batch.last_offset - parts[-1][0] > LARGEST_OFFSET_DELTA:
                parts.append((base_of_part(batch, due_offset, end_offset), batch.position))
            due_offset = batch.last_offset + 1
    return parts


def _copy(log: ReadableFile, start: int, end: int, copy: WritableFile) -> None:
    """Copy a range of the log, of which holes take no space in the copy either."""
    copy.truncate(0)
    copy.truncate(end - start)
    position = log.data_from(start)
    while position < end:
        data = log.read_at(position, min(_COPY_BYTES, log.hole_from(position) - position, end - position))
        if not data:
            break
        copy.write_at(position - start, [data])
        position = log.data_from(position + len(data))
    copy.sync()
