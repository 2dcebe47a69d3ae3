"""Batches of a visible log, decoded or, where that takes long, only skimmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.errors import CorruptBatchError
    from storage.record import Batch, Record
    from storage.segment import Segment

_SKIMMED_MAX: Final = 1_000_000
"""A batch that has more records according to its header is decoded to find them."""


class VisibleBatch(NamedTuple):
    """A batch, and those of its records that were asked for and are visible: at least one."""

    batch: Batch
    segment: Segment
    records: Sequence[Record]


class SkimmedBatch(NamedTuple):
    """A batch that was not decoded, and the offsets, of those asked for, that it has according to its header."""

    offsets: range


def extent_of(piece: VisibleBatch | SkimmedBatch | CorruptBatchError) -> tuple[int, int, int]:
    """Return how many records there are, and the offsets of the first and the last; zeros for damage."""
    if isinstance(piece, VisibleBatch):
        records, first = piece.records, piece.records[0].offset
        return len(records), first, first if len(records) == 1 else records[-1].offset
    if isinstance(piece, SkimmedBatch):
        return len(piece.offsets), piece.offsets[0], piece.offsets[-1]
    return 0, 0, 0


def has_all_offsets(batch: Batch) -> bool:
    """True if each of a batch's offsets has a record, according to its header."""
    return batch.count == batch.last_offset - batch.base_offset + 1 <= _SKIMMED_MAX
