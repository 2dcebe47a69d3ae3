"""Recovery keeps producers whose records retention has deleted: a snapshot is all that is left of them."""

from __future__ import annotations

import random

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, StandingClock

from storage.log.followed_log import FollowedLog
from storage.log.opening import open_sound_log
from storage.segment.names import FileName, Kind

PRODUCERS = range(100, 114)


def retained() -> LogOnMemory:
    """A log of which only the active segment is left; most of its producers wrote before that."""
    lab = LogOnMemory({"segment.bytes": "2000", "index.interval.bytes": "256"})
    for producer_id in PRODUCERS:
        lab.produce(b"x" * 300, 0, producer_id=producer_id)
    assert len(lab.log.view.bases) > 2
    for name in lab.log.remove_before(lab.log.view.bases[-1]):
        lab.log.directory.remove(name)
    lab.run_tasks()
    return lab


def base_of(lab: LogOnMemory) -> int:
    (base,) = lab.log.view.bases
    return base


def known(lab: LogOnMemory) -> list[int]:
    return sorted(state.producer_id for state in lab.log.producers.states())


@pytest.mark.parametrize("recovery_point", [0, 10**6], ids=["in doubt", "on disk"])
def test_producers_are_kept_where_recovery_begins_in_a_first_segment_above_0(recovery_point: int) -> None:
    lab = retained()
    base, end = base_of(lab), lab.log.view.end_offset
    assert 0 < base < end
    lab.open_after_crash(lab.files.after_process_death(), recovery_point=min(recovery_point, end))
    assert known(lab) == list(PRODUCERS)
    snapshots = {name for name in lab.files.names(DIRECTORY) if name.endswith(Kind.SNAPSHOT)}
    assert snapshots == {str(FileName(offset, Kind.SNAPSHOT)) for offset in (base, end)}
    lab.open_after_crash(lab.files.after_process_death(), recovery_point=min(recovery_point, end))
    assert known(lab) == list(PRODUCERS), "after a second crash"


def test_a_snapshot_from_before_the_first_segment_is_out_of_date() -> None:
    lab = retained()
    base = base_of(lab)
    newest = f"{DIRECTORY}/{FileName(base, Kind.SNAPSHOT)}"
    older = f"{DIRECTORY}/{FileName(base - 1, Kind.SNAPSHOT)}"  # a loss of power has brought it back
    files = lab.files.after_process_death()
    with files.open_writing(older, create=True) as file:
        file.write_at(0, [files.read(newest)])
    files.remove(newest)
    lab.open_after_crash(files)
    assert known(lab) == [producer_id for producer_id in PRODUCERS if producer_id >= 100 + base]


def test_a_start_that_a_checkpoint_says_is_passed_as_by_a_broker() -> None:
    lab = retained()
    base = base_of(lab)
    lab.open_after_crash(lab.files.after_process_death(), start_offset=base)
    assert known(lab) == [producer_id for producer_id in PRODUCERS if producer_id >= 100 + base]


def test_producers_of_an_empty_log_are_kept() -> None:
    lab = retained()
    lab.log.close()
    lab.run_tasks()
    end = lab.log.view.end_offset
    for name in lab.files.names(DIRECTORY):
        if name.endswith((Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)):
            lab.files.remove(f"{DIRECTORY}/{name}")
    lab.files.open_writing(f"{DIRECTORY}/{FileName(end, Kind.LOG)}", create=True).close()
    report = lab.recover()
    assert (report.start_offset, report.end_offset) == (end, end)
    lab.open()
    assert known(lab) == list(PRODUCERS)


def test_a_closed_log_is_opened_with_the_snapshot_at_its_first_segment() -> None:
    lab = retained()
    files = lab.files.after_process_death()
    end = lab.log.view.end_offset
    files_of_end = f"{DIRECTORY}/{FileName(end, Kind.SNAPSHOT)}"
    assert files.status(files_of_end) is None
    parts = open_sound_log(
        StandingClock(),
        files.directory(DIRECTORY),
        lab.config,
        rng=random.Random(0),
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    assert sorted(state.producer_id for state in parts.producers.states()) == list(PRODUCERS)


def test_indexes_that_are_built_again_know_the_transactions_that_began_before_the_log() -> None:
    lab = LogOnMemory({"segment.bytes": "2000", "index.interval.bytes": "256"})
    lab.produce(b"to be aborted", 0, producer_id=99, transactional=True)
    for producer_id in PRODUCERS:
        lab.produce(b"x" * 300, 0, producer_id=producer_id)
    lab.end_transaction(99, committed=False)
    for name in lab.log.remove_before(lab.log.view.bases[-1]):
        lab.log.directory.remove(name)
    lab.log.close()
    lab.run_tasks()
    before = lab.contents()
    base = base_of(lab)
    assert before[str(FileName(base, Kind.TRANSACTION_INDEX))]
    lab.files.remove(f"{DIRECTORY}/{FileName(base, Kind.OFFSET_INDEX)}")
    lab.recover(is_clean=True)
    assert lab.contents() == before
    lab.recover()
    assert (
        lab.contents()[str(FileName(base, Kind.TRANSACTION_INDEX))]
        == before[str(FileName(base, Kind.TRANSACTION_INDEX))]
    )


def test_a_log_that_is_followed_has_all_its_producers() -> None:
    lab = retained()
    files = lab.files.after_process_death()
    followed = FollowedLog(
        lab.clock, files.directory(DIRECTORY), lab.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
    )
    assert sorted(state.producer_id for state in followed.producers.states()) == list(PRODUCERS)


def test_a_truncation_into_the_first_segment_keeps_them() -> None:
    lab = retained()
    base, end = base_of(lab), lab.log.view.end_offset
    lab.log.truncate_to(end - 1)
    assert known(lab) == [producer_id for producer_id in PRODUCERS if producer_id < 100 + end - 1]
    assert base < end - 1
