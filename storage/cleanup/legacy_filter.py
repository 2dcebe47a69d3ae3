"""What a cleaner keeps of a batch of version 0 or 1, which has no place for delete horizons and cannot be empty.

A tombstone goes at the time that its segment's age gives. Where a batch has to stay, its last record does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.cleanup.compaction_report import Loss
from storage.cleanup.kept_batch import KeptBatch
from storage.errors import ChecksumError
from storage.record.compression import Codec
from storage.record.legacy_encoding import encode_wrapper

if TYPE_CHECKING:
    from storage.cleanup.compaction_report import Tally
    from storage.record.kernel.decode import Record
    from storage.record.kernel.offset_map import OffsetMap
    from storage.record.legacy import LegacyBatch


def filtered_entries(
    batch: LegacyBatch,
    offsets: OffsetMap,
    *,
    keeps_tombstones: bool,
    must_stay: bool,
    level: int | None,
    tally: Tally,
) -> KeptBatch | None:
    """What is kept of an entry or a wrapper, whose own checksum is right; None if it goes.

    A wrapper that is not kept as it is, or holds entries of another version than its own, is made anew.
    """
    entries = list(batch.entries())
    fates = [_fate(entry.record, offsets, keeps_tombstones=keeps_tombstones) for entry in entries]
    if must_stay and Loss.NONE not in fates:
        fates[-1] = Loss.NONE
    tally.lose(fates)
    kept = [entry for entry, fate in zip(entries, fates, strict=True) if fate is Loss.NONE]
    if not kept:
        return None
    is_sound = all(entry.magic == batch.magic for entry in kept)
    if batch.codec is Codec.NONE or (is_sound and len(kept) == len(entries)):
        return KeptBatch(batch.view(0, batch.size_bytes), is_unchanged=True)
    for entry in kept:
        if not entry.crc_matches:
            raise ChecksumError(
                f"an entry within the wrapper does not have its CRC {entry.crc:08x}",
                position=batch.position,
                offset=entry.record.offset,
            )
    records = [entry.record for entry in kept]
    data = encode_wrapper(records, batch.magic, batch.codec, level=level, timestamp_type=batch.timestamp_type)
    return KeptBatch(data, is_unchanged=False)


def _fate(record: Record, offsets: OffsetMap, *, keeps_tombstones: bool) -> Loss:
    offset = record.offset
    if offset > offsets.latest_offset:
        return Loss.NONE
    key = record.key
    if key is None:
        return Loss.KEYLESS
    if offset < offsets.find(key):
        return Loss.SUPERSEDED
    return Loss.EXPIRED if record.value_size < 0 and not keeps_tombstones else Loss.NONE
