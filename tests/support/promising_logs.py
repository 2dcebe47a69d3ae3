"""A log in memory that keeps account of what it has promised, and the same log as the next process finds it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from memory_logs import NOW_MS, LogOnMemory, sent
from promises import LogPromises, PromisedBatch

from storage.errors import DiskFullError, StorageError
from storage.log.flushing import Durability
from storage.log.producers.state import AppendOrigin
from storage.record.control import EndTransactionMarker
from storage.record.encoding import DEFAULT_FORM, BatchForm, marker_batch
from storage.record.reading import read_batches

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.log.log import Log
    from storage.log.recover.report import RecoveryReport
    from storage.testing.memory_files import MemoryFiles


class PromisingLog(LogOnMemory):
    """A log all of whose operations go through here, each of them at least once.

    One that is refused for want of space is tried again; one that poisons the log raises `PoisonedLogError`.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        durability: Durability = Durability.BUFFERED,
        files: MemoryFiles | None = None,
        promises: LogPromises | None = None,
    ) -> None:
        self.promises = LogPromises(is_synced=durability is Durability.SYNCED) if promises is None else promises
        self.settings = settings
        self.leader_epoch = 1
        super().__init__(settings, files=files, durability=durability)

    def survivor(self, files: MemoryFiles) -> PromisingLog:
        """The log in files that this one has left, not recovered yet; both may make promises of their own."""
        made = PromisingLog.__new__(PromisingLog)
        made.__dict__.update(self.__dict__, files=files, tasks=[], promises=self.promises.copy())
        return made

    # Opening

    def recover(
        self,
        *,
        is_clean: bool = False,
        recovery_point: int = 0,
        start_offset: int | None = None,
        allows_offset_gaps: bool = False,
    ) -> RecoveryReport:
        """Recover the directory; the log begins where it was last known to."""
        return super().recover(
            is_clean=is_clean,
            recovery_point=recovery_point,
            start_offset=max(self.promises.starts) if start_offset is None else start_offset,
            allows_offset_gaps=allows_offset_gaps,
        )

    def open(self, start_offset: int | None = None) -> Log:
        """Open the log, recovered or new, which begins where it was last known to."""
        return super().open(max(self.promises.starts) if start_offset is None else start_offset)

    def reopen(self) -> None:
        """Close the log, have checkpoints say so, and open it as the next process does; failures are tried again."""
        self.close()
        is_clean, self.promises.is_closed = self.promises.is_closed, False
        self.promises.starts = {max(self.promises.starts)}
        try:
            self.recover(is_clean=is_clean)
            self.open()
        except (OSError, StorageError):
            self.recover()
            self.open()

    # Changing

    def append(self, *values: bytes, form: BatchForm = DEFAULT_FORM, timestamp: int = NOW_MS) -> int:
        """Append a batch of these values, one ms apart."""
        rows = [(timestamp + index, value) for index, value in enumerate(values)]
        return self._append(sent(rows, form), AppendOrigin.CLIENT)

    def produce(self, value: bytes, sequence: int, *, producer_id: int = 7, transactional: bool = False) -> int:
        """Append a producer's record."""
        form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=transactional)
        return self.append(value, form=form)

    def end_transaction(self, producer_id: int = 7, *, committed: bool) -> int:
        """Append the marker that ends a producer's transaction."""
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        data = marker_batch(marker, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0)
        return self._append(data.data, AppendOrigin.COORDINATOR)

    def _append(self, data: bytes, origin: AppendOrigin) -> int:
        def append() -> int:
            batch = PromisedBatch.of(
                next(iter(read_batches(data))), offset=self.log.view.end_offset, leader_epoch=self.leader_epoch
            )
            with self.promises.appending(batch):
                appended = self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=origin)
                assert (appended.first_offset, appended.last_offset) == (batch.first_offset, batch.last_offset)
                assert not appended.is_duplicate
            return appended.first_offset

        before = self.log.view
        try:
            offset = append()
        except DiskFullError:
            self._expect_unchanged(before.end_offset)
            offset = append()
        self._note()
        return offset

    def _expect_unchanged(self, end_offset: int, *added: PromisedBatch) -> None:
        view = self.log.view
        assert view.end_offset == end_offset
        found = [PromisedBatch.of(batch) for batch in view.batches(view.start_offset)]
        expected = [*self.promises.batches, *added]
        assert found == [batch for batch in expected if batch.last_offset >= view.start_offset]

    def expect_refusal_or_go_on(self) -> None:
        """Raise `AssertionError` unless the log refuses every write, or is as it was before what broke it off.

        Then it takes more.
        """
        attempted, self.promises.attempted = self.promises.attempted, None
        data = sent([(NOW_MS, b"and on")])
        batch = PromisedBatch.of(
            next(iter(read_batches(data))), offset=self.promises.end_offset, leader_epoch=self.leader_epoch
        )
        try:
            appended = self.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        except StorageError:
            self.promises.attempted = attempted
            return
        assert appended.first_offset == self.promises.end_offset
        with self.promises.appending(batch):
            self._expect_unchanged(appended.last_offset + 1, batch)
        self._note()

    def repeat(self, value: bytes, sequence: int, *, producer_id: int = 7) -> None:
        """Send a producer's record again that was acknowledged."""
        form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        first = next(
            batch.first_offset for batch in self.promises.batches if batch.producer == (producer_id, 0, sequence)
        )
        appended = self.log.append_as_leader(sent(value, form), leader_epoch=self.leader_epoch)
        assert appended.is_duplicate
        assert appended.first_offset == first

    def flush(self) -> None:
        """Bring everything to disk."""
        self.log.flush()
        assert self.log.recovery_point == self.log.view.end_offset
        self._note()

    def roll(self) -> None:
        """Begin a segment."""
        try:
            self.log.roll()
        except DiskFullError:
            self._expect_unchanged(self.log.view.end_offset)
            self.log.roll()
        self._note()

    def run_tasks(self) -> None:
        """Do what waits in the background."""
        super().run_tasks()
        self._note()

    def truncate_to(self, offset: int) -> None:
        """Truncate the log to the offset."""
        with self.promises.truncating(offset):
            self.log.truncate_to(offset)
        self._note()

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset; checkpoints may remember it or not."""
        try:
            self.log.advance_start(offset)
        except DiskFullError:
            self.log.advance_start(offset)
        assert self.log.view.start_offset == offset
        self.promises.starts.add(offset)

    def remove_before(self, base_offset: int) -> None:
        """Delete the segments before one, and remove their files."""
        with self.promises.removing(base_offset):
            deleted = self.log.remove_before(base_offset)
        self._note()
        assert self.log.view.segments[0].base_offset == base_offset
        self.promises.starts.add(self.log.view.start_offset)
        for name in deleted:
            self.log.directory.remove(name)

    def close(self) -> None:
        """Close the log, poisoned or not."""
        self.log.close()
        if not self.log.is_poisoned:
            self._note()
            self.promises.is_closed = True

    def abandon(self) -> None:
        """Close the files of a poisoned log."""
        with suppress(StorageError, OSError):
            self.log.close()

    def _note(self) -> None:
        """Note the log's own offsets as promises."""
        if not self.log.is_poisoned:
            self.promises.flushed(self.log.recovery_point)
