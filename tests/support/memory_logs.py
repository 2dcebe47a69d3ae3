"""Small logs in memory, and what is appended to them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from storage.clock import Clock
from storage.config import TopicConfig
from storage.log.flushing import Durability
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.producers.state import AppendOrigin
from storage.log.recover.recovery import recover_log
from storage.record.control import EndTransactionMarker
from storage.record.encoding import DEFAULT_FORM, BatchForm, batches_of_rows, marker_batch
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from storage.log.producers.producers import ProducerStates
    from storage.log.producers.state import CachedBatch
    from storage.log.recover.report import RecoveryReport
    from storage.record import RecordBatch

DIRECTORY: Final = "/topic-0"
NOW_MS: Final = 1_700_000_000_000
PRODUCER_EXPIRATION_MS: Final = 86_400_000
SETTINGS: Final = {"segment.bytes": "4096", "segment.index.bytes": "1200", "index.interval.bytes": "256"}
"""Segments and indexes small enough for many of each."""


class StandingClock(Clock):
    """Time that passes only on request."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.ms

    def elapsed_s(self) -> float:
        """The same, as an interval."""
        return self.ms / 1000


class LogOnMemory:
    """A log in `DIRECTORY` of files in memory, opened as often as one likes.

    The flush after a roll waits in `tasks` until the test runs it.
    """

    def __init__(
        self,
        settings: Mapping[str, str] = SETTINGS,
        *,
        files: MemoryFiles | None = None,
        clock: StandingClock | None = None,
        durability: Durability = Durability.BUFFERED,
    ) -> None:
        self.files = MemoryFiles() if files is None else files
        self.clock = StandingClock() if clock is None else clock
        self.config = TopicConfig.resolve(settings)
        self.durability = durability
        self.tasks: list[Callable[[], None]] = []
        if self.files.status(DIRECTORY) is None:
            self.files.make_directory(DIRECTORY)
            self.files.sync_directory("/")
        self.log = self.open()

    def open(self, start_offset: int = 0) -> Log:
        """Open the log, which no other object has open."""
        rng = random.Random(0)
        parts = open_sound_log(
            self.clock,
            self.files.directory(DIRECTORY),
            self.config,
            rng=rng,
            start_offset=start_offset,
            producer_expiration_ms=PRODUCER_EXPIRATION_MS,
        )
        self.log = Log(
            self.clock,
            self.files.directory(DIRECTORY),
            self.config,
            parts,
            rng=rng,
            durability=self.durability,
            in_background=self.tasks.append,
        )
        return self.log

    def recover(
        self,
        *,
        is_clean: bool = False,
        recovery_point: int = 0,
        start_offset: int = 0,
        allows_offset_gaps: bool = False,
    ) -> RecoveryReport:
        """Make of what is there the log of a closed one, to be opened."""
        return recover_log(
            self.clock,
            self.files.directory(DIRECTORY),
            self.config,
            is_clean=is_clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            allows_offset_gaps=allows_offset_gaps,
            producer_expiration_ms=PRODUCER_EXPIRATION_MS,
        )

    def open_after_crash(self, files: MemoryFiles, *, recovery_point: int = 0, start_offset: int = 0) -> RecoveryReport:
        """Recover and open the log in files that a process, which is gone with its tasks, has left."""
        self.files = files
        self.tasks.clear()
        report = self.recover(recovery_point=recovery_point, start_offset=start_offset)
        self.open(start_offset)
        return report

    def run_tasks(self) -> None:
        """Do what waits."""
        while self.tasks:
            self.tasks.pop(0)()

    def produce(self, value: bytes, sequence: int, *, producer_id: int = 7, transactional: bool = False) -> int:
        """Append a producer's record, and return its offset."""
        form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=transactional)
        return self.log.append_as_leader(sent(value, form), leader_epoch=1).first_offset

    def end_transaction(self, producer_id: int = 7, *, committed: bool) -> int:
        """Append the marker that ends a producer's transaction, and return its offset."""
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        data = marker_batch(marker, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0)
        return self.log.append_as_leader(data, leader_epoch=1, origin=AppendOrigin.COORDINATOR).first_offset

    def values(self) -> list[bytes | None]:
        """The values of all records."""
        view = self.log.view
        return [record.value for batch in view.batches(view.start_offset) for record in batch.records()]

    def contents(self) -> dict[str, bytes]:
        """All files of the log."""
        return {name: self.files.read(f"{DIRECTORY}/{name}") for name in self.files.names(DIRECTORY)}


def sent(
    rows: Sequence[tuple[int, bytes]] | bytes, form: BatchForm = DEFAULT_FORM, *, key: bytes | None = b"key"
) -> bytes:
    """One batch as a producer sends it: of timestamps and values, or of one value at `NOW_MS`."""
    records = [(NOW_MS, rows)] if isinstance(rows, bytes) else rows
    (batch,) = batches_of_rows([(timestamp, key, value, ()) for timestamp, value in records], form=form)
    return batch.data


def check(producers: ProducerStates, *batches: RecordBatch, origin: AppendOrigin) -> CachedBatch | None:
    """The first batch in the log that one of these, about to be appended, repeats."""
    return next(filter(None, producers.check(batches, origin=origin)), None)
