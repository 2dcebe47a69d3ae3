"""Whether another replica's batches are those that a broken batch was: its header may be left, and its checksum.

A batch that was broken in one place has its own checksum either in its header or by its bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.record.kernel.crc32c import crc32c
from storage.record.layout import (
    BATCH_HEADER,
    BATCH_HEADER_BYTES,
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
)
from storage.replicas.unsummed import RANGE_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.files import Directory
    from storage.record.reading import Batch
    from storage.replicas.digests import OffsetRange
    from storage.replicas.order import Damage

_ENTRY_HEAD: Final = Struct(">qiIb")  # offset, size, CRC, magic


class _Broken(NamedTuple):
    """What a broken batch says of itself, and the checksums that it may have had."""

    base_offset: int
    magic: int
    checksums: frozenset[int]


def fits(directory: Directory, damages: Sequence[Damage], gap: OffsetRange, batches: Iterable[Batch]) -> bool | None:
    """Return True if the batches have the checksums of all that is damaged in a gap, and False if one has another.

    None is returned where the damage does not tell.
    """
    broken = [found for each in damages if (found := _read(directory, each, gap)) is not None]
    if not broken:
        return None
    known: set[int] = set()
    contradicted: set[int] = set()
    for batch in batches:
        for number, each in enumerate(broken):
            if batch.magic == each.magic and batch.crc in each.checksums:
                known.add(number)
            elif batch.read_first_offset() <= each.base_offset <= batch.last_offset:
                contradicted.add(number)
    if contradicted - known:
        return False
    return True if len(known) == len(damages) else None


def _read(directory: Directory, damage: Damage, gap: OffsetRange) -> _Broken | None:
    """Return what a damaged range says of the batch at its beginning, if that can be believed."""
    if damage.end is None or damage.end - damage.position <= MAGIC_AT:
        return None
    size_bytes = min(damage.end - damage.position, RANGE_MAX_BYTES)
    try:
        with directory.open_reading(damage.name) as file:
            data = bytes(file.read_at(damage.position, size_bytes))
    except OSError:
        return None
    if len(data) <= MAGIC_AT:
        return None
    offset, length, crc, magic = _ENTRY_HEAD.unpack_from(data)
    if not gap.begin <= offset < gap.end:
        return None
    if magic in (0, 1):
        return _Broken(offset, magic, frozenset({crc}))
    if magic != CURRENT_MAGIC or len(data) < BATCH_HEADER_BYTES or _is_wiped(data, gap):
        return None
    crc = BATCH_HEADER.unpack_from(data)[4]
    end = LOG_OVERHEAD_BYTES + length
    sizes: Sequence[int] = (end, len(data)) if BATCH_HEADER_BYTES <= end < len(data) else (len(data),)
    return _Broken(offset, magic, frozenset({crc, *(crc32c(data[CRC_COVERS_FROM:size]) for size in sizes)}))


def _is_wiped(data: bytes, gap: OffsetRange) -> bool:
    """Return True if more than one field of a header is wrong, so that its checksum may be too."""
    fields = BATCH_HEADER.unpack_from(data)
    offset, delta, count = fields[0], fields[6], fields[-1]
    is_outside = not 0 <= delta < gap.end - offset
    return not any(data[MAGIC_AT + 1 : BATCH_HEADER_BYTES]) or (is_outside and not 0 < count <= gap.end - offset)
