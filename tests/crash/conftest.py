"""Runs that are cut short at every step, in every way, and what the next process makes of what they leave.

With the profile `test` the process dies at every second step once, the disk is full or fails at every second of the
others, and at every fourth an exception comes that has nothing to do with the disk; then the power is lost or not.
KAFKAFS_HYPOTHESIS_PROFILE=prove does all of that at each step, with several tears of the write under way and both kinds
of exceptions, loses the power more often, and makes runs longer. All chance is seeded by the step.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from itertools import count, product
from typing import TYPE_CHECKING, Protocol, TypeVar

import pytest
from soundness import check_sound, damages

from storage.errors import StorageError
from storage.testing.faults import BREAKS, Cut, CutError, Effect, InterruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from promising_logs import PromisingLog

    from storage.testing.memory_files import MemoryFiles

IS_PROOF = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
TEARS = 2 if IS_PROOF else 1
POWER_LOSSES = (
    {Effect.DEATH: 8, Effect.DISK_FULL: 4, Effect.DISK_ERROR: 4, Effect.BREAK_BEFORE: 2, Effect.BREAK_AFTER: 2}
    if IS_PROOF
    else {Effect.DEATH: 1}
)
SAMPLES = {
    Effect.DEATH: (2, 0),
    Effect.DISK_FULL: (4, 1),
    Effect.DISK_ERROR: (4, 3),
    Effect.BREAK_BEFORE: (8, 2),
    Effect.BREAK_AFTER: (8, 6),
}
"""Of how many steps it is one, and which, in a run that is no proof."""


class HasFiles(Protocol):
    files: MemoryFiles


Subject = TypeVar("Subject", bound=HasFiles)


@dataclass
class Crashes:
    """Counts the points at which runs were cut; `record` is told at the end of each sequence."""

    record: Callable[[str, object], None]
    is_proof: bool = IS_PROOF

    def of(self, prepare: Callable[[], Subject], act: Callable[[Subject], object]) -> Iterator[tuple[Subject, Later]]:
        """The subject after each cut of the act, and how to go on from there.

        Where the process goes on after an error of the disk, what the act raised was a `StorageError` or an `OSError`.
        """
        act(prepare())
        points = 0
        for effect, tear in product(Effect, range(TEARS)):
            for step in count():
                if not IS_PROOF and step % SAMPLES[effect][0] != SAMPLES[effect][1]:
                    continue
                subject = prepare()
                seed = TEARS * step + tear + (step // 8 if effect in BREAKS else 0)  # of breaks it chooses the error
                cut = subject.files.cut = Cut(subject.files.steps + step, effect, seed)
                try:
                    act(subject)
                except CutError:
                    assert effect is Effect.DEATH
                except (MemoryError, InterruptError):
                    assert effect in BREAKS
                except (StorageError, OSError):
                    assert effect is not Effect.DEATH
                if subject.files.steps <= cut.step:
                    break
                subject.files.cut = None
                points += 1
                yield subject, Later(subject.files, effect, random.Random(cut.seed))
        self.record("cut_points", points)

    def of_log(self, prepare: Callable[[], PromisingLog], act: Callable[[PromisingLog], object]) -> None:
        """Check all that is promised after each cut of what is done to a log."""
        for log, later in self.of(prepare, act):
            if later.effect in BREAKS:
                log.expect_refusal_or_go_on()
            if not later.is_dead and log.log.is_poisoned:
                log.abandon()
            for files, has_lost_power in later:
                check_survivor(log, files, later, has_lost_power=has_lost_power)


@dataclass
class Later:
    """Yield what the next process may find, after the death of the last one and after losses of power."""

    files: MemoryFiles
    effect: Effect
    rng: random.Random

    @property
    def is_dead(self) -> bool:
        """True if the process died of the cut; otherwise it went on until the act ended or raised."""
        return self.effect is Effect.DEATH

    @property
    def lives(self) -> int:
        """After how many crashes in a row what is left is looked at."""
        return 2 if IS_PROOF or not self.rng.randrange(4) else 1

    def __iter__(self) -> Iterator[tuple[MemoryFiles, bool]]:
        power_losses = POWER_LOSSES.get(self.effect, self.rng.randrange(2))
        if self.is_dead or IS_PROOF or not power_losses:
            yield self.files.after_process_death(), False
        for _ in range(power_losses):
            yield self.files.after_power_loss(self.rng.getrandbits(32)), True


def check_survivor(log: PromisingLog, files: MemoryFiles, later: Later, *, has_lost_power: bool) -> None:
    """Recover the log from what is left of it, hold it to its promises, go on with it, and lose the power again."""
    rng = later.rng
    for _ in range(later.lives):
        survivor = log.survivor(files)
        promises = survivor.promises
        is_clean = promises.is_closed
        at_least = promises.durable_offset if has_lost_power else promises.written_offset
        start_offset = rng.choice(sorted(promises.starts))
        recovery_point = rng.choice(sorted(promises.recovery_points))
        survivor.recover(is_clean=is_clean, recovery_point=recovery_point, start_offset=start_offset)
        check_recovered(survivor, start_offset, recovery_point)
        survivor.open(start_offset)
        promises.check_start(survivor.log.view, start_offset, has_lost_power=has_lost_power)
        promises.check(survivor.log.view, at_least)
        check_sound(survivor.log)
        go_on(survivor)
        log, files, has_lost_power = survivor, survivor.files.after_power_loss(rng.getrandbits(32)), True
    survivor.close()
    closed = survivor.contents()
    assert survivor.recover(is_clean=True, start_offset=start_offset).steps == []
    assert {**closed, **survivor.contents()} == closed, "only snapshots that a newer one replaces may go"


def check_recovered(log: PromisingLog, start_offset: int, recovery_point: int) -> None:
    """Check that nothing is wrong, and nothing is left to recover."""
    assert [(each.path, each.reason, each.offset) for each in damages(log, start_offset)] == []
    before = without_indexes(log.contents())
    again = log.recover(recovery_point=recovery_point, start_offset=start_offset)
    assert [step for step in again.steps if not step.name.endswith("index")] == []
    assert without_indexes(log.contents()) == before


def without_indexes(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out indexes: rebuilt ones have other entries than those of a segment that was closed in between."""
    return {name: data for name, data in contents.items() if not name.endswith("index")}


def go_on(log: PromisingLog) -> None:
    """Append as if nothing had happened."""
    batches = log.promises.batches
    mine = [batch for batch in batches if batch.producer[0] == 7 and not batch.is_control]
    if mine:
        sequence = mine[-1].producer[2]
        if mine[-1].first_offset >= log.log.view.start_offset:
            log.repeat(mine[-1].records[0][3], sequence)
        log.produce(b"and on", sequence + 1)
    for number in range(3):
        log.append(b"%d" % number * 200)


@pytest.fixture
def crashes(record_property: Callable[[str, object], None]) -> Crashes:
    return Crashes(record_property)
