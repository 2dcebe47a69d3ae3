"""A compacted log in memory, whose records are written as key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compacting import Compacting
from consuming import consumed
from memory_logs import NOW_MS, LogOnMemory

from storage.log.view import Isolation
from storage.record.batch import RecordBatch
from storage.record.encoding import DEFAULT_FORM, BatchForm, batches_of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.cleanup.compaction_report import CompactionReport

COMPACT: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "segment.index.bytes": "1200",
    "index.interval.bytes": "64",
    "delete.retention.ms": "1000",
}


class KeyedLog(LogOnMemory):
    """A log whose records are written as key and value."""

    def __init__(self, settings: Mapping[str, str] = COMPACT) -> None:
        super().__init__(settings)

    def put(self, *rows: tuple[str, str | None], form: BatchForm = DEFAULT_FORM) -> None:
        """Append a batch."""
        records = [(NOW_MS, key.encode(), None if value is None else value.encode(), ()) for key, value in rows]
        (batch,) = batches_of_rows(records, base_offset=None, form=form)
        self.log.append_as_leader(batch, leader_epoch=1)

    def rows(self, isolation: Isolation = Isolation.COMMITTED) -> list[tuple[int, str, str | None]]:
        """Return a consumer's rows: offset, key and value."""
        return [
            (record.offset, (record.key or b"").decode(), record.value.decode() if record.value is not None else None)
            for record in consumed(self.log, isolation)
        ]

    def batches(self) -> list[RecordBatch]:
        """All batches."""
        view = self.log.view
        return [batch for batch in view.batches(view.start_offset) if isinstance(batch, RecordBatch)]

    def compact(self, *, checkpoint: int | None = None, keys_max: int = 100) -> CompactionReport:
        """Compact all that can be, as far as there is room for keys."""
        compacting = Compacting(self.clock, keys_max=keys_max)
        return compacting.compact(self.log, compacting.plan(self.log, checkpoint))
