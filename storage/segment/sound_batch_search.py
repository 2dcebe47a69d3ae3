"""The search for the next sound batch of a log after damage.

A place counts only if a whole batch with the right checksum and offsets within the segment begins there, so the result
is no guess. Records that look like batches inside of records would pass too; the offsets of such a batch contradict
those after it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from storage.errors import StorageError
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES
from storage.record.kernel.walk import next_header
from storage.record.layout import LARGEST_OFFSET_DELTA, LOG_OVERHEAD_BYTES
from storage.record.reading import read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import ReadableFile

_FRAME: Final = Struct(">qiib")  # offset, length, leader epoch or CRC, magic
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_HEADER_BYTES: Final = 18  # the bytes from which a reader recognises a batch
_OFFSET_MAX: Final = 2**63 - 1
_BATCH_BYTES_MIN: Final = LOG_OVERHEAD_BYTES + 14
_MAGIC_MAX: Final = 2
_WINDOW_BYTES: Final = 64 * 1024
# Limits of reading for places that turn out to be no batch: this, and so many times the range.
_TRIED_BYTES_MIN: Final = 64 * 1024 * 1024
_TRIES: Final = 8
_RUNS_MAX: Final = 8
"""How many runs of sound batches are followed within a damaged one: records may hold batches, and not as a rule."""


def position_after(
    file: ReadableFile, start: int, own_end: int | None, end: int, *, base_offset: int, next_offset: int
) -> int | None:
    """Return the position after a damaged batch at `start`, of a batch whose offset is not below `next_offset`.

    It is the end of the damaged batch, if that is framed, and a batch seems to begin there or the file ends; but if
    sound batches within lead up to that end or across it, the length is what is damaged, and the first of them comes
    next. Otherwise it is the beginning of the next sound batch. None if nothing follows up to `end`.
    """
    if own_end is not None and _may_go_on_at(file, own_end, base_offset, next_offset):
        within = _batches_up_to(file, start + 1, own_end, end, base_offset=base_offset, next_offset=next_offset)
        return own_end if within is None else within
    found = find_sound_batch(file, start + 1, end, base_offset=base_offset, next_offset=next_offset)
    return own_end if found is None else found


def _batches_up_to(
    file: ReadableFile, start: int, bound: int, end: int, *, base_offset: int, next_offset: int
) -> int | None:
    """Return where the first of the sound batches begins of which one ends at the bound or after it.

    Records that hold batches have at least a byte after them within their own batch.
    """
    for _ in range(_RUNS_MAX):
        found = find_sound_batch(file, start, end, base_offset=base_offset, next_offset=next_offset, before=bound)
        if found is None:
            return None
        start = found
        while start < bound and (size_bytes := _sound_bytes(file, start, end, base_offset + LARGEST_OFFSET_DELTA)):
            start += size_bytes
        if start >= bound:
            return found
    return None


def _sound_bytes(file: ReadableFile, position: int, end: int, offset_max: int) -> int:
    """Return the size of the sound batch that begins at the position, 0 if none does."""
    header = file.read_at(position, _OFFSET_AND_LENGTH.size)
    if len(header) < _OFFSET_AND_LENGTH.size:
        return 0
    size_bytes = LOG_OVERHEAD_BYTES + int(_OFFSET_AND_LENGTH.unpack(header)[1])
    if not _BATCH_BYTES_MIN <= size_bytes <= min(end - position, DEFAULT_OUTPUT_LIMIT_BYTES):
        return 0
    return size_bytes if _is_sound(file.read_at(position, size_bytes), offset_max) else 0


def _may_go_on_at(file: ReadableFile, position: int, base_offset: int, next_offset: int) -> bool:
    """Return True if the file ends there, or a batch seems to begin."""
    header = file.read_at(position, _FRAME.size)
    if len(header) < _FRAME.size:
        return True  # the end, or a tail that is too short for a batch
    offset, length, _, magic = map(int, _FRAME.unpack(header))
    is_placed = next_offset <= offset <= base_offset + LARGEST_OFFSET_DELTA
    is_framed = _BATCH_BYTES_MIN <= LOG_OVERHEAD_BYTES + length <= file.size_bytes() - position
    return is_placed and is_framed and 0 <= magic <= _MAGIC_MAX


def find_sound_batch(
    file: ReadableFile, start: int, end: int, *, base_offset: int, next_offset: int, before: int | None = None
) -> int | None:
    """Return where the first sound batch between `start` and `end` begins whose offset is not below `next_offset`.

    None if there is none, or none that begins `before` a position. The range is read once, except for its holes, and a
    batch at each place where the bytes look like a header, unless it is larger than a reader takes. Where that comes to
    many times the bytes read so far, as an attacker may have contrived, large ones are passed over.
    """
    offset_max = min(base_offset + LARGEST_OFFSET_DELTA, _OFFSET_MAX)
    if next_offset > offset_max:
        return None
    tried_bytes = read_bytes = 0
    looked_end = end if before is None else min(end, before + _HEADER_BYTES - 1)
    for position, window in _windows(file, start, looked_end):
        at = 0
        while True:
            left_bytes = _TRIED_BYTES_MIN + _TRIES * (read_bytes + at) - tried_bytes
            at, looked_at_bytes = next_header(
                window,
                at,
                end - position,
                offset_min=next_offset,
                offset_max=offset_max,
                left_bytes=min(left_bytes, DEFAULT_OUTPUT_LIMIT_BYTES),
                growth=_TRIES,
            )
            tried_bytes += looked_at_bytes
            if at < 0:
                break
            size_bytes = LOG_OVERHEAD_BYTES + int(_OFFSET_AND_LENGTH.unpack_from(window, at)[1])
            if at + size_bytes > len(window):
                tried_bytes += size_bytes
            if _is_sound(file.read_at(position + at, size_bytes), offset_max):
                return position + at
            at += 1
        read_bytes += len(window) - _HEADER_BYTES + 1
    return None


def _windows(file: ReadableFile, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield where windows of the file begin, and their bytes; a header is whole in one of them.

    A length is never 0, so no batch begins in a hole, except with a part of its header in front of the hole's end: the
    rest is not read.
    """
    while end - start >= _HEADER_BYTES:
        data = file.data_from(start)
        start = max(start, data - _HEADER_BYTES + 1)
        window_bytes = min(file.hole_from(data) - start, _WINDOW_BYTES) + _HEADER_BYTES - 1
        window = file.read_at(start, min(window_bytes, end - start))
        if len(window) < _HEADER_BYTES:
            return
        yield start, window
        start += len(window) - _HEADER_BYTES + 1


def _is_sound(data: bytes, offset_max: int) -> bool:
    try:
        batch = next(read_batches(data), None)
        if batch is None:
            return False
        batch.check_crc()
    except StorageError:
        return False
    return batch.base_offset <= batch.last_offset <= offset_max
