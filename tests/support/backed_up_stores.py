"""Stores in memory and their backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from memory_logs import sent
from staged_stores import PATHS, StagedStore

from kafkafs.backup import Backup, RunCheck
from storage.store.store import Mode, Store
from storage.verify import Severity, Verification

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from kafkafs.backup import RunReport
    from storage.verify import Finding

DEST: Final = Path("/backups")
LATEST: Final = DEST / "latest"


class Options(TypedDict, total=False):
    """What `Backup` may be given."""

    broker_settings: Mapping[str, str]
    to_end: bool
    copies_all: bool
    accepts_missing: bool


class BackedUp(StagedStore):
    """A store in memory that is appended to and backed up. Time passes between two runs."""

    def append(self, topic: str, partition: int, count: int, text: str = "value") -> None:
        """Append records, each in a batch of its own."""
        with self.open() as store:
            log = store.log_to_write(topic, partition)
            for number in range(count):
                log.append_as_leader(sent(f"{text} {number}".encode() * 10), leader_epoch=0)

    def back_up(self, paths: Sequence[str] = PATHS, **options: Unpack[Options]) -> RunReport:
        """Make a run."""
        self.clock.ms += 60_000
        return self.backup(paths, **options).run(lambda _: None)

    def backup(self, paths: Sequence[str] = PATHS, **options: Unpack[Options]) -> Backup:
        """Return what makes a run."""
        given: Options = {"broker_settings": {}, **options}
        return Backup(self.files, self.clock, list(map(Path, paths)), DEST, **given)

    def values_of(self, run: Path) -> dict[tuple[str, int], list[bytes | None]]:
        """Return the values in a run."""
        with Store.open([run], mode=Mode.READ_ONLY, files=self.files, clock=self.clock) as store:
            return {
                each: [
                    record.value
                    for batch in store.log(*each).view.batches(store.log(*each).view.start_offset)
                    for record in batch.records()
                ]
                for each in sorted(store.topics.inventory.partitions())
            }

    def damage_in(self, run: Path) -> list[Finding]:
        """Return what is wrong with a run as a store, and with its files."""
        assert list(RunCheck(self.files, run).findings(lambda: None)) == []
        found = Verification(self.files, [run]).run(lambda: None)
        return [finding for finding in found if finding.severity is not Severity.NOTICE]

    def identities(self, run: Path, partition: str) -> Mapping[str, tuple[int, int]]:
        """Return which files a partition of a run has."""
        statuses = self.files.directory(run / partition).statuses()
        return {name: status.identity for name, status in statuses.items()}

    def source(self) -> dict[str, bytes]:
        """Return every file of the store."""
        found = {}
        for path in PATHS:
            for name, status in self.files.directory(path).statuses().items():
                inside = self.files.directory(f"{path}/{name}").names() if status.is_directory else [""]
                for each in inside:
                    full = f"{path}/{name}/{each}".rstrip("/")
                    found[full] = self.files.read(full)
        return found


def backed_up_store() -> BackedUp:
    """A store with two topics, of several segments each."""
    made = BackedUp()
    made.create({"orders": 2, "idle": 1})
    made.append("orders", 0, 20)
    made.append("orders", 1, 3)
    made.append("idle", 0, 5)
    return made
