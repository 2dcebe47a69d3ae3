"""A log in memory in which every rule of compaction has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from compacting import Compacting
from consuming import consumed
from memory_logs import NOW_MS, LogOnMemory

from storage.record.compression import Codec
from storage.record.encoding import BatchForm, batches_of_rows

if TYPE_CHECKING:
    from consuming import ConsumedRecord

    from storage.cleanup.compaction_report import CompactionReport
    from storage.log.view import Isolation


SETTINGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "segment.index.bytes": "240",
    "index.interval.bytes": "128",
    "delete.retention.ms": "1000",
}


class CompactedLog(LogOnMemory):
    """Keys of all kinds, tombstones, producers and transactions; `done` has what runs have reported."""

    keys_max: int
    recovery_point: int
    done: list[CompactionReport]

    @classmethod
    def made(cls, keys_max: int, times: int) -> Self:
        """The log before anything is compacted, by a cleaner with room for so many keys."""
        log = cls(SETTINGS)
        log.keys_max, log.done = keys_max, []
        for number in range(times):
            log.put(f"a{number % 2}", b"x" * 150, codec=list(Codec)[number])
            log.put("gone", None if number == 1 else b"y" * 50)
            log.put("aborted", b"z" * 100, producer_id=8, sequence=2 * number, transactional=True)
            log.put("committed", b"%d" % number * 80, producer_id=9, sequence=2 * number, transactional=True)
            log.put("idempotent", b"i" * 30, producer_id=7, sequence=2 * number)
            log.end_transaction(8, committed=False)
            log.put(f"b{number}", b"v" * 200)
            log.end_transaction(9, committed=True)
        log.put("open", b"o", producer_id=9, sequence=2 * times, transactional=True)
        log.put("last", b"w" * 300)
        log.run_tasks()
        log.log.flush()
        log.recovery_point = log.log.recovery_point
        return log

    def put(
        self,
        key: str,
        value: bytes | None,
        *,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        sequence: int = -1,
        transactional: bool = False,
    ) -> None:
        """Append a batch of a record with this key, and one with a key that all have."""
        form = BatchForm(
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        rows = [(NOW_MS, key.encode(), value, ()), (NOW_MS + 1, b"common", b"c" * 20, ())]
        (batch,) = batches_of_rows(rows, base_offset=None, form=form)
        self.log.append_as_leader(batch, leader_epoch=1)

    def compact(self, now_ms: int) -> None:
        """Compact all that can be, in as many runs as the map needs, and remove what is replaced."""
        self.clock.ms = now_ms
        checkpoint = None
        compacting = Compacting(self.clock, keys_max=self.keys_max, buffer_bytes=500)
        while (plan := compacting.plan(self.log, checkpoint)).is_applicable:
            report = compacting.compact(self.log, plan)
            self.done.append(report)
            checkpoint = report.first_dirty_offset
            for path in compacting.deleted:
                self.files.remove(path)
            compacting.deleted.clear()

    def records(self, isolation: Isolation) -> dict[int, ConsumedRecord]:
        """Return a consumer's records, by offset."""
        return {record.offset: record for record in consumed(self.log, isolation)}

    def compact_twice(self) -> None:
        """Compact as often as tombstones and markers need to go."""
        self.compact(NOW_MS + 10)
        self.compact(NOW_MS + 5000)
