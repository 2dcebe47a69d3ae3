"""`append` and its sisters: files that turn what is written to them into records of a log.

The records that one write completes are stored together, or none of them is. They are stamped with the time of that
write unless they have a time of their own, compressed as the topic says (where it leaves that to producers, not at
all), and written in the epoch of the log's last leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.render.intake import new_intake
from kafkafs.render.packing import Packing
from kafkafs.tree.errors import GoneError
from kafkafs.tree.log_input import LogInput
from kafkafs.tree.receipts import Receipts
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from kafkafs.locator.paths import PartitionFilePath
    from kafkafs.render.intake import Intake
    from kafkafs.tree.log_source import LogSource
    from storage.clock import Clock
    from storage.log import Log


class AppendFile(LogInput):
    """A file that takes records in one form. It is empty to readers."""

    def __init__(self, path: PartitionFilePath, source: LogSource, clock: Clock) -> None:
        super().__init__(path, source)
        self._form = path.view
        self._clock = clock

    def text(self) -> bytes:
        """Return no text: the records are in other views."""
        return b""

    def open_writing(self) -> Appending:
        """Open it for one writer. Its records never mix with those of other writers."""
        intake = new_intake(self._form, self.source.options.key_values)
        return Appending(str(self.path), self.source, self.writable_log(), intake, self._clock)


class Appending:
    """One writer's descriptor. The caller makes one call at a time; writers wait for one another only in the log
    itself.

    A call that raises has stored nothing, and drops the record in progress up to its end. Writing goes on after that.
    """

    def __init__(self, path: str, source: LogSource, log: Log, intake: Intake, clock: Clock) -> None:
        self._path = path
        self._source = source
        self._log = log
        self._intake = intake
        self._clock = clock
        self._receipts = Receipts()
        self._config = log.config
        self._last_packing = Packing.of_topic(log.config, 0)

    def write(self, data: Buffer) -> None:
        """Store the records that the data completes. Readers see them when this returns."""
        self._store(lambda packing: self._intake.take(data, packing), is_write=True)

    def read(self, size_bytes: int) -> bytes:
        """Return the receipts of the records that were stored since the last call."""
        return self._receipts.take(size_bytes)

    def flush(self) -> None:
        """Store the record that is complete only now, if there is one."""
        self._store(self._intake.finish)

    def sync(self) -> None:
        """Return when all that was stored in the log is on disk."""
        self._log.flush()

    def close(self) -> None:
        """Forget the record in progress."""
        self._intake.refuse()

    def _store(self, take_in: Callable[[Packing], Sequence[Buffer]], *, is_write: bool = False) -> None:
        log = self._log
        try:
            batches = take_in(self._packing())
            # A poisoned log refuses even half a line: many writers see only the errors of writes.
            if batches or (is_write and log.is_poisoned):
                leader_epoch = log.epochs.writing_epoch
                self._check_directory()
                self._receipts.add(log.append_all_as_leader(batches, leader_epoch=leader_epoch))
        except Exception as error:
            self._intake.refuse()
            if isinstance(error, StorageError):
                error.located(path=self._path)
            raise

    def _check_directory(self) -> None:
        if not self._source.has_directory():
            raise GoneError(f"{self._path}: {self._source.directory} has been removed, so nothing can be stored in it")

    def _packing(self) -> Packing:
        config, now_ms = self._log.config, self._clock.now_ms()
        if config is not self._config:
            self._config, self._last_packing = config, Packing.of_topic(config, now_ms)
        return self._last_packing.at(now_ms)
