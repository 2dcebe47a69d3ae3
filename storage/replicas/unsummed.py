"""Records of broken batches that decode by themselves, in batches that a broker takes.

Nothing vouches for such records: the checksum that did is wrong, or was of a frame that is. A batch keeps its bytes if
all of its records decode; its checksum is made to fit, and a length, a magic byte or an offset that its place
contradicts. Otherwise the records before the first that does not decode are packed again.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import StorageError
from storage.record.batch import RecordBatch
from storage.record.layout import (
    BATCH_HEADER_BYTES,
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    ENTRY_CRC_COVERS_FROM,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
)
from storage.record.reading import read_batches
from storage.record.rewriting import assign_offset, retaining
from storage.verify.batch_check import check_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from storage.record.kernel.decode import Record
    from storage.record.reading import Batch

_LENGTH_BYTES: Final = 4
_CRC_BYTES: Final = 4
_LAST_DELTA_AT: Final = CRC_COVERS_FROM + 2
_COUNT_AT: Final = BATCH_HEADER_BYTES - 4
_COUNT_MAX: Final = 2**31 - 1
_RECORDS_MAX: Final = 200_000
_BATCHES_MAX: Final = 1000  # of one damaged range


RANGE_MAX_BYTES: Final = 64 * 1024 * 1024
"""How much of a damaged range is looked at."""


class Place(NamedTuple):
    """The offsets that a broken batch may have: from `begin` up to `end`, which is excluded.

    A sound batch begins at the end if the place `is_followed`. `leader_epoch` is the one in force there.
    """

    begin: int
    end: int
    leader_epoch: int
    is_followed: bool

    def takes(self, first_offset: int, last_offset: int) -> bool:
        """Return True if these offsets lie there."""
        return self.begin <= first_offset <= last_offset < self.end


class UnsummedBatch(NamedTuple):
    """A batch made of a broken one, which lies between two positions of its range.

    `declared` is the number of records that the broken one declares, None if it does not say. One that `has_checksum`
    was broken outside of what its checksum covers, and is the batch that was written.
    """

    position: int
    end: int
    first_offset: int
    last_offset: int
    records: int
    declared: int | None
    has_checksum: bool
    data: bytes


def unsummed_batches(data: bytes, place: Place) -> Iterator[UnsummedBatch]:
    """Yield what decodes in the bytes of a damaged range, from its beginning on, in the order of the offsets."""
    position = 0
    for _ in range(_BATCHES_MAX):
        found = _first(data[position:], place)
        if found is None:
            return
        yield found._replace(position=position, end=position + found.end)
        position += found.end
        place = place._replace(begin=found.last_offset + 1)


def _first(data: bytes, place: Place) -> UnsummedBatch | None:
    """Return what decodes of the batch at the beginning of the bytes, whose length and magic byte may be wrong."""
    if len(data) <= MAGIC_AT:
        return None
    length = int.from_bytes(data[LOG_OVERHEAD_BYTES - _LENGTH_BYTES : LOG_OVERHEAD_BYTES], "big", signed=True)
    own_bytes = LOG_OVERHEAD_BYTES + length
    sizes = [own_bytes, len(data)] if BATCH_HEADER_BYTES <= own_bytes < len(data) else [len(data)]
    tried = [found for size in sizes if (found := _framed(data[:size], place)) is not None]
    return max(tried, key=lambda found: (found.has_checksum, found.records, -found.end), default=None)


def _framed(data: bytes, place: Place) -> UnsummedBatch | None:
    """Return what decodes of a batch that has all of the bytes."""
    made = [_entry(data, place) if data[MAGIC_AT] < CURRENT_MAGIC else None, _record_batch(data, place)]
    return max((each for each in made if each is not None), key=lambda each: each.has_checksum, default=None)


def _record_batch(data: bytes, place: Place) -> UnsummedBatch | None:
    if len(data) < BATCH_HEADER_BYTES:
        return None
    framed = _with_length(data)
    framed[MAGIC_AT] = CURRENT_MAGIC
    batch = _batch_of(framed)
    has_checksum = batch.crc_matches
    base_offset = _base_offset(batch, place)
    if not place.takes(base_offset, base_offset):
        return None
    assign_offset(framed, base_offset=base_offset, leader_epoch=place.leader_epoch)
    batch = _batch_of(framed)
    records, is_whole = _leading_records(batch, place)
    if not is_whole:
        framed[_COUNT_AT:BATCH_HEADER_BYTES] = _COUNT_MAX.to_bytes(4, "big")
        records = max(records, _leading_records(_batch_of(framed), place)[0], key=len)
    if is_whole and place.takes(base_offset, batch.last_offset):
        made = bytes(_summed(framed))
    elif records:
        framed[_LAST_DELTA_AT : _LAST_DELTA_AT + 4] = (records[-1].offset - base_offset).to_bytes(4, "big")
        made = retaining(_batch_of(framed), records)
        has_checksum = False
    else:
        return None
    return _checked(made, len(data), len(records), batch.count, has_checksum=has_checksum)


def _base_offset(batch: RecordBatch, place: Place) -> int:
    """Return the batch's base offset, or that of the place, which the batch's own may contradict.

    No checksum covers it.
    """
    if place.takes(batch.base_offset, batch.last_offset):
        return batch.base_offset
    if place.is_followed:
        fills = place.begin + batch.last_offset_delta + 1 == place.end
        return place.begin if fills else batch.base_offset
    return batch.base_offset if place.takes(batch.base_offset, batch.base_offset) else place.begin


def _leading_records(batch: RecordBatch, place: Place) -> tuple[Sequence[Record], bool]:
    """Return the records up to the first that does not decode or has another place, and whether those are all."""
    found: list[Record] = []
    next_offset = batch.base_offset
    try:
        for record in batch.records():
            if record.offset < next_offset or not place.takes(record.offset, record.offset):
                return found, False
            next_offset = record.offset + 1
            found.append(record)
            if len(found) == _RECORDS_MAX:
                return found, batch.count == _RECORDS_MAX
    except StorageError:
        return found, False
    return found, len(found) > 0


def _entry(given: bytes, place: Place) -> UnsummedBatch | None:
    """Return an entry of an old message set whose records decode.

    Hardly any bytes are none, zeros for one: either its checksum or its length has to be right.
    """
    data = _with_length(given)
    sum_at = ENTRY_CRC_COVERS_FROM - _CRC_BYTES
    crc = zlib.crc32(memoryview(data)[ENTRY_CRC_COVERS_FROM:]).to_bytes(_CRC_BYTES, "big")
    has_checksum = bytes(data[sum_at:ENTRY_CRC_COVERS_FROM]) == crc
    if not has_checksum and data != given:
        return None
    data[sum_at:ENTRY_CRC_COVERS_FROM] = crc
    batch = _batch(data)
    if batch is None:
        return None
    try:
        count = sum(1 for _ in batch.checked_records())
        first_offset = batch.read_first_offset()
    except StorageError:
        return None
    if not count or not place.takes(first_offset, batch.last_offset):
        return None
    return _checked(bytes(data), len(data), count, batch.count, has_checksum=has_checksum)


def _checked(
    made: bytes, size_bytes: int, records: int, declared: int | None, *, has_checksum: bool
) -> UnsummedBatch | None:
    """Return the batch unless a reader would stumble over it."""
    try:
        (batch,) = read_batches(made)
        first_offset = check_batch(batch).first_offset
    except (StorageError, ValueError):
        return None
    return UnsummedBatch(0, size_bytes, first_offset, batch.last_offset, records, declared, has_checksum, made)


def _batch(data: bytearray) -> Batch | None:
    try:
        return next(read_batches(bytes(data)), None)
    except StorageError:
        return None


def _batch_of(framed: bytearray) -> RecordBatch:
    """Return a batch that has its frame."""
    (batch,) = read_batches(bytes(framed))
    assert isinstance(batch, RecordBatch)
    return batch


def _with_length(data: bytes) -> bytearray:
    framed = bytearray(data)
    length = len(data) - LOG_OVERHEAD_BYTES
    framed[LOG_OVERHEAD_BYTES - _LENGTH_BYTES : LOG_OVERHEAD_BYTES] = length.to_bytes(_LENGTH_BYTES, "big")
    return framed


def _summed(framed: bytearray) -> bytearray:
    """Give a batch the checksum of its bytes."""
    batch = _batch_of(framed)
    framed[CRC_COVERS_FROM - _CRC_BYTES : CRC_COVERS_FROM] = batch.checksum().to_bytes(_CRC_BYTES, "big")
    return framed
