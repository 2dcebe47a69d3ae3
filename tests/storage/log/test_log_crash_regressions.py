"""What crashes have once shown to be wrong, each as small as it can be said."""

from __future__ import annotations

from contextlib import suppress

import pytest
from memory_logs import DIRECTORY, sent
from promising_logs import PromisingLog
from soundness import check_sound, damages

from storage.errors import DiskFullError
from storage.log.producers.snapshot import SnapshotFiles
from storage.segment.names import FileName, Kind
from storage.testing.faults import Cut, CutError, Effect

SMALL = {"segment.bytes": "1000", "segment.index.bytes": "120", "index.interval.bytes": "128"}
SEEDS = range(30)


def test_what_a_loss_of_power_leaves_behind_a_lost_end_of_a_segment_is_dropped() -> None:
    log = PromisingLog(SMALL)
    for number in range(9):
        log.append(b"%d" % number * 200)
    assert len(log.log.view.bases) > 2
    segment = log.log.view.segments[1]
    position = segment.locate(segment.base_offset + 1)
    with log.files.open_writing(f"{DIRECTORY}/{FileName(segment.base_offset, Kind.LOG)}") as file:
        file.truncate(position)
    survivor = log.survivor(log.files.after_process_death())
    assert survivor.recover().end_offset == segment.base_offset + 1
    assert survivor.open().view.bases == log.log.view.bases[:2]


def test_a_segment_that_was_flushed_before_it_was_finished_is_looked_at() -> None:
    outcomes = set()
    for step in range(12):
        log = PromisingLog({**SMALL, "preallocate": "true"})
        log.append(b"x" * 200)
        log.append(b"x" * 200)
        log.flush()
        log.files.cut = Cut(log.files.steps + step)
        with suppress(CutError):
            log.roll()
        survivor = log.survivor(log.files.after_process_death())
        survivor.recover(recovery_point=2)
        assert damages(survivor, 0) == []
        check_sound(survivor.open())
        outcomes.add(survivor.log.view.bases)
    assert outcomes == {(0,), (0, 2)}


def test_a_flush_brings_the_snapshots_of_rolls_to_disk() -> None:
    log = PromisingLog(SMALL)
    log.produce(b"x" * 500, 0)
    log.produce(b"x" * 500, 1)
    assert log.log.view.bases == (0, 1)
    log.flush()
    for seed in SEEDS:
        assert SnapshotFiles(log.files.after_power_loss(seed).directory(DIRECTORY)).read(1)


def test_a_truncation_into_a_batch_ends_the_log_where_it_will_be_found_to_end() -> None:
    log = PromisingLog(SMALL)
    log.append(b"a", b"b")
    log.append(b"c", b"d", b"e")
    log.truncate_to(4)
    assert log.log.view.end_offset == 2
    log.roll()
    log.append(b"f")
    assert log.log.view.bases == (0, 2)


def test_what_was_refused_does_not_come_back_after_a_loss_of_power() -> None:
    log = PromisingLog({**SMALL, "segment.bytes": "100000"})
    log.append(b"x" * 600)
    log.flush()
    for step in range(3):  # the batch, and its entries in two indexes
        for seed in SEEDS:
            log.files.cut = Cut(log.files.steps + step, Effect.DISK_FULL, seed)
            with pytest.raises(DiskFullError):
                log.log.append_as_leader(sent(b"y" * 600))
            assert log.survivor(log.files.after_power_loss(seed)).recover().end_offset == 1


def test_epochs_from_before_a_start_that_no_checkpoint_remembers_are_known() -> None:
    log = PromisingLog(SMALL)
    log.append(b"x")
    log.leader_epoch = 2
    log.append(b"x")
    log.append(b"x")
    log.advance_start(2)
    survivor = log.survivor(log.files.after_process_death())
    survivor.recover(start_offset=0)
    assert [tuple(entry) for entry in survivor.open(0).epochs.entries] == [(1, 0), (2, 1)]
