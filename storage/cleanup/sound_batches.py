"""Batches that a cleaner may believe: what is decided by them takes other records away for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from storage.record.reading import Batch


def sound_batches(batches: Iterable[Batch], base_offset: int, end_offset: int) -> Iterator[Batch]:
    """The same batches of a segment that begins and ends at these offsets.

    Raises `CorruptBatchError` at the first that does not have its checksum or, as that does not cover offsets, does not
    lie above the one before and within the segment.
    """
    last_offset = base_offset - 1
    for batch in batches:
        batch.check_crc()
        if not last_offset < batch.base_offset <= batch.last_offset < end_offset:
            raise CorruptBatchError(
                f"the batch ends at {batch.last_offset}, and has to lie above {last_offset} and below {end_offset}",
                position=batch.position,
                offset=batch.base_offset,
            )
        last_offset = batch.last_offset
        yield batch
