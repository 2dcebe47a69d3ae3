"""From bytes to batches of all versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from storage.record.batch import RecordBatch
from storage.record.kernel.walk import Walk
from storage.record.legacy import LegacyBatch

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.record.kernel.pinned_buffer import PinnedBuffer

Batch: TypeAlias = RecordBatch | LegacyBatch


def read_batches(
    source: Buffer | PinnedBuffer, *, start: int = 0, end: int | None = None, origin: int = 0
) -> Walk[RecordBatch, LegacyBatch]:
    """Walk over the whole batches in `source`, as `Walk` promises.

    `origin` is the position in the file of the buffer's first byte; every error's position counts from there.
    """
    return Walk(source, RecordBatch, LegacyBatch, start=start, end=end, origin=origin)
