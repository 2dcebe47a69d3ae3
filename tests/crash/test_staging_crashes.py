"""Staging, committing and completing are cut at every step: a commit is there once or not at all, for every reader."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from memory_logs import sent
from soundness import check_sound
from staged_stores import StagedStore

from storage.commit.applied import Transaction
from storage.commit.commits import STAGED_AGE_MS_MAX
from storage.errors import FramingError, StorageError
from storage.store.store import Mode
from storage.testing.faults import Cut, CutError, InterruptError

if TYPE_CHECKING:
    from storage.testing.memory_files import MemoryFiles

pytestmark = pytest.mark.crash

PARTITIONS = [("t", 0), ("t", 1), ("new", 0)]
VERSIONS = 2
LOOSE = b"appended by somebody else"


@dataclass
class Job:
    """A driver with its tasks, which writes version after version; `acknowledged` is how many it was told are there."""

    store: StagedStore = field(default_factory=StagedStore)
    acknowledged: int = 0
    seed: int = 0

    @property
    def files(self) -> MemoryFiles:
        return self.store.files

    def run(self, first: int, last: int, *, aborts: bool = False) -> None:
        """Stage and commit these versions; where it fails the driver says so to what was staged."""
        for version in range(first, last + 1):
            names: list[str] = []
            try:
                for task in range(2):
                    self.seed += 1
                    names.append(self.store.stage(rows(version, task), seed=self.seed, new_topics=True).name)
                with self.store.open() as opened:
                    # Unflushed records may be lost, and records committed after them may not.
                    opened.log("t", 0).append_as_leader(sent(LOOSE), leader_epoch=0)
                    opened.commits.commit(names, Transaction("app", version))
            except (OSError, StorageError, MemoryError, InterruptError):
                if aborts:
                    self.store.discard(names)
                raise
            self.acknowledged = version + 1


def rows(version: int, task: int) -> list[tuple[str, int, bytes]]:
    """Return the rows of a task, in more than one segment of each partition."""
    return [
        (topic, partition, b"%d %d %d" % (version, task, number) * 50)
        for number in range(2)
        for topic, partition in PARTITIONS
        if topic != "new" or version > 0
    ]


def expected(versions: int) -> dict[tuple[str, int], list[bytes]]:
    """All values when so many versions are there."""
    values: dict[tuple[str, int], list[bytes]] = {partition: [] for partition in PARTITIONS}
    for version in range(versions):
        for task in range(2):
            for topic, partition, value in rows(version, task):
                values[topic, partition].append(value)
    return {partition: found for partition, found in values.items() if partition[0] != "new" or found}


def prepared() -> Job:
    job = Job()
    job.store.create({"t": 2})
    job.run(0, 0)
    return job


def again(job: Job) -> Job:
    """Return the same in files of its own."""
    return replace(job, store=StagedStore(job.files.after_process_death()))


def check(job: Job, files: MemoryFiles, *, aborts: bool, has_lost_power: bool) -> None:
    """Check that the next opener sees whole commits, completes decided ones, and can repeat all of them."""
    survivor = Job(StagedStore(files), job.acknowledged, job.seed + 100)
    store = survivor.store
    wholes = [expected(versions) for versions in range(job.acknowledged, VERSIONS + 1)]
    found = wholes[0]
    # What a loss of power has torn is damage to who only reads, commit or not.
    with suppress(FramingError) if has_lost_power else nullcontext():
        found = committed(store.values(Mode.READ_ONLY))
    assert found in wholes
    if aborts:
        store.discard(store.staged_names())
    whole = committed(store.values(Mode.READ_WRITE))
    assert whole in wholes[wholes.index(found) :]
    assert committed(store.values(Mode.READ_ONLY)) == whole
    survivor.run(0, VERSIONS - 1)
    assert committed(store.values(Mode.READ_ONLY)) == expected(VERSIONS)
    store.clock.ms += STAGED_AGE_MS_MAX + 1
    with store.open() as opened:
        for partition in PARTITIONS:
            check_sound(opened.log(*partition))
    assert store.staged_names() == []


def committed(values: dict[tuple[str, int], list[bytes | None]]) -> dict[tuple[str, int], list[bytes | None]]:
    """Return what was committed; a topic that was made for a commit that never came is empty."""
    kept = {partition: [value for value in found if value != LOOSE] for partition, found in values.items()}
    return {partition: found for partition, found in kept.items() if partition[0] != "new" or found}


def test_every_commit_is_there_once_or_not_at_all(crashes) -> None:
    def act(job: Job) -> None:
        job.run(1, VERSIONS - 1, aborts=job.files.cut is not None and job.files.cut.step // 4 % 2 == 0)

    begun = prepared()
    for job, later in crashes.of(lambda: again(begun), act):
        for files, has_lost_power in later:
            check(job, files, aborts=bool(later.rng.randrange(2)), has_lost_power=has_lost_power)


@pytest.mark.parametrize("share", [0.6])
def test_an_interrupted_completion_is_begun_again(crashes, share: float) -> None:
    """The driver died somewhere in the middle, and so does who opens the store next."""
    begun = prepared()
    whole = again(begun)
    whole.run(1, 1)
    half = again(begun)
    half.files.cut = Cut(int(whole.files.steps * share))
    with suppress(CutError):
        half.run(1, 1)

    def act(job: Job) -> None:
        job.store.open().close()

    for job, later in crashes.of(lambda: again(half), act):
        for files, has_lost_power in later:
            check(job, files, aborts=bool(later.rng.randrange(2)), has_lost_power=has_lost_power)
