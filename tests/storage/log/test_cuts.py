"""Where another's log was truncated is told exactly, and nothing else that happens to it is taken for a truncation."""

from __future__ import annotations

import random

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, sent

from storage.log.followed_log import FollowedLog


def append(lab: LogOnMemory, count: int, epoch: int) -> None:
    for number in range(count):
        lab.log.append_as_leader(sent(b"%d %d" % (epoch, number) * 30), leader_epoch=epoch)


def followed(lab: LogOnMemory) -> FollowedLog:
    return FollowedLog(
        lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_truncation_by_a_new_leader_is_told_by_its_offset(seed: int) -> None:
    rng, lab = random.Random(seed), LogOnMemory()
    append(lab, 80, 1)
    other = followed(lab)
    assert other.view.cuts == ()
    cuts: tuple[int, ...] = ()
    for epoch in range(2, 8):
        offset = rng.randrange(lab.log.view.end_offset)
        lab.log.truncate_to(offset)
        append(lab, rng.randrange(1, 90), epoch)
        cuts = (*cuts, offset)
        assert (other.view.cuts, lab.log.view.cuts) == (cuts, cuts)
        append(lab, rng.randrange(30), epoch)
        assert other.view.cuts == cuts


def test_without_other_epochs_the_last_batches_that_were_seen_to_come_tell_it() -> None:
    lab = LogOnMemory({"segment.bytes": str(1 << 20)})
    append(lab, 5, 1)
    other = followed(lab)
    assert other.view.end_offset == 5
    append(lab, 40, 1)
    assert other.view.end_offset == 45
    lab.log.truncate_to(17)
    append(lab, 60, 1)
    assert other.view.cuts == (17,)


def test_a_log_that_loses_its_beginning_or_is_taken_away_file_by_file_is_not_truncated() -> None:
    lab = LogOnMemory()
    append(lab, 80, 1)
    other = followed(lab)
    bases = other.view.bases
    for name in lab.log.remove_before(bases[2]):
        lab.log.directory.remove(name)
    assert other.view.cuts == ()
    append(lab, 10, 2)
    assert other.view.cuts == ()
    lab.files.remove(f"{DIRECTORY}/{lab.log.view.bases[-1]:020d}.log")
    assert other.view.end_offset < lab.log.view.end_offset
    assert other.view.cuts == ()
