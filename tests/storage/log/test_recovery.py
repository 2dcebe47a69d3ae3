"""What recovery does to a log's directory, damage by damage."""

from __future__ import annotations

import errno
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from damaged_logs import RECORDS, DamagedLog, value_at
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from storage.errors import TooManySegmentsError
from storage.log.epochs import EPOCHS_NAME
from storage.log.recover.report import Repair
from storage.record.encoding import BatchForm, batches_of_rows
from storage.segment import names
from storage.segment.names import FileName, FileSuffix, Kind
from storage.testing.faults import Cut, Effect

if TYPE_CHECKING:
    from storage.log.recover.report import RecoveryReport


def repairs(report: RecoveryReport) -> list[tuple[Repair, str]]:
    return [(step.repair, step.name) for step in report.steps]


def name(base: int, kind: Kind = Kind.LOG, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return str(FileName(base, kind, suffix))


def error_of_recovery(bench: DamagedLog) -> OSError | None:
    try:
        bench.recover()
    except OSError as error:
        return error
    return None


# Nothing to do


@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "in doubt"])
def test_a_log_that_was_closed_stays_as_it_is(*, is_clean: bool) -> None:
    bench = DamagedLog()
    before = bench.state()
    bench.files.now_ms += 1000
    report = bench.recover(is_clean=is_clean)
    assert report.steps == []
    assert (report.start_offset, report.end_offset, report.lost_bytes) == (0, RECORDS, 0)
    after = bench.state()
    assert {key: data for key, (data, _, _) in after.items()} == {key: data for key, (data, _, _) in before.items()}
    if is_clean:
        assert after == before
        assert (report.scanned_segments, report.scanned_bytes) == (0, 0)
    else:
        logs = [key for key in before if key.endswith(Kind.LOG)]
        assert [after[key] for key in logs] == [before[key] for key in logs]
        assert report.scanned_segments == len(logs) == len(bench.bases)
    assert "nothing to repair" in report.summary()


def test_a_log_of_no_segments_stays_empty() -> None:
    bench = DamagedLog()
    for text in bench.files.names(DIRECTORY):
        bench.files.remove(f"{DIRECTORY}/{text}")
    report = bench.recover(start_offset=40)
    assert (report.steps, report.start_offset, report.end_offset) == ([], 40, 40)
    assert bench.files.names(DIRECTORY) == []
    assert bench.open(40).append_as_leader(sent(b"x")).first_offset == 40


def test_a_log_of_too_many_segments_is_neither_recovered_nor_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = DamagedLog()
    bench.write(f"{DIRECTORY}/{8:020}.index", b"a leftover, which recovery would remove")
    before = bench.state()
    monkeypatch.setattr(names, "SEGMENTS_MAX", len(bench.bases) - 1)
    for do in (bench.recover, bench.open):
        with pytest.raises(TooManySegmentsError, match=f"the partition has {len(bench.bases)} segments"):
            do()
    assert bench.state() == before


def test_a_log_whose_process_died_is_closed_without_loss() -> None:
    bench = DamagedLog(close=False)
    values = bench.values()
    report = bench.open_after_crash(bench.files.after_process_death())
    assert (report.lost_bytes, report.end_offset) == (0, RECORDS)
    assert bench.values() == values
    assert [each.first_offset for each in bench.log.view.aborted(0, RECORDS)] == [0]
    bench.log.close()
    assert len(bench.contents()[name(bench.bases[-1], Kind.OFFSET_INDEX)]) % 8 == 0


def test_what_it_leaves_survives_a_loss_of_power() -> None:
    for seed in range(20):
        bench = DamagedLog(close=False)
        bench.files = bench.files.after_process_death()
        bench.flip(bench.path(bench.bases[2]), 30)
        bench.recover()
        before = bench.contents()
        bench.files = bench.files.after_power_loss(seed)
        assert bench.contents() == before


# The log


def test_a_torn_batch_at_the_end_is_cut() -> None:
    bench = DamagedLog()
    last = bench.path(bench.bases[-1])
    whole = bench.files.read(last)
    bench.add(last, sent(b"x" * 100)[:50])
    report = bench.repaired()
    assert repairs(report) == [(Repair.CUT, name(bench.bases[-1]))]
    (step,) = report.steps
    assert (step.position, step.offset, step.lost_bytes) == (len(whole), RECORDS, 50)
    assert report.lost_from_offset is None
    assert "not complete" in step.reason
    assert "50 bytes of logs lost" in report.summary()


def test_a_log_that_was_closed_is_cut_where_it_does_not_end_with_a_batch() -> None:
    bench = DamagedLog()
    bench.add(bench.path(bench.bases[-1]), b"\0" * 70)
    report = bench.repaired(is_clean=True)
    assert repairs(report) == [(Repair.CUT, name(bench.bases[-1]))]
    assert (report.scanned_segments, report.lost_bytes) == (1, 70)


@pytest.mark.parametrize("allows_offset_gaps", [False, True])
def test_what_lies_behind_a_hole_is_kept_where_there_may_be_one(*, allows_offset_gaps: bool) -> None:
    bench = DamagedLog()
    doomed = bench.bases[1]
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        bench.files.remove(bench.path(doomed, kind))
    report = bench.recover(allows_offset_gaps=allows_offset_gaps)
    if allows_offset_gaps:
        assert (report.lost_bytes, report.end_offset) == (0, RECORDS)
        bench.open()
        behind = [value_at(offset) for offset in range(bench.bases[2], RECORDS)]
        assert bench.values()[-len(behind) :] == behind
    else:
        assert (report.lost_bytes > 0, report.end_offset) == (True, doomed)


def test_a_bad_checksum_drops_what_follows() -> None:
    bench = DamagedLog()
    base, *later = bench.bases[1:]
    path = bench.path(base)
    size_bytes = len(bench.files.read(path))
    lost = size_bytes // 2 + sum(len(bench.files.read(bench.path(each))) for each in later)
    with bench.files.open_reading(path) as file:
        batch_bytes = 12 + int.from_bytes(file.read_at(8, 4), "big")
    bench.flip(path, batch_bytes * 2 + 30)
    report = bench.repaired()
    behind = base + 2
    assert repairs(report) == [
        *((Repair.DROPPED, name(each)) for each in reversed(later)),
        (Repair.CUT, name(base)),
        (Repair.REBUILT, name(base, Kind.TIME_INDEX)),
        (Repair.REBUILT, name(base, Kind.OFFSET_INDEX)),
        (Repair.ADDED, name(behind, Kind.SNAPSHOT)),
        *((Repair.REMOVED, name(each, Kind.SNAPSHOT)) for each in (*later, RECORDS)),
        (Repair.REBUILT, EPOCHS_NAME),
    ]
    assert report.end_offset == base + 2
    assert report.lost_bytes > lost
    cut = report.steps[len(later)]
    assert (cut.position, cut.offset) == (batch_bytes * 2, base + 2)
    assert "CRC" in cut.reason
    assert cut.next_good_offset == report.lost_from_offset == base + 3, "whole batches follow the bad one"
    assert [step.next_good_offset for step in report.steps[: len(later)]] == [*reversed(later)]
    assert f"bytes of logs lost, whole batches from offset {base + 3} on among them" in report.summary()
    assert bench.values()[2:] == [*(value_at(offset) for offset in range(2, base + 2)), b"and on"]
    assert {text for text in bench.files.names(DIRECTORY) if text.endswith(Kind.LOG)} == {name(0), name(base)}


def test_garbage_behind_a_segment_after_which_the_next_goes_on_is_all_that_is_cut() -> None:
    bench = DamagedLog()
    bench.add(bench.path(bench.bases[1]), b"garbage" * 9)
    report = bench.repaired()
    assert repairs(report) == [(Repair.CUT, name(bench.bases[1]))]
    assert (report.lost_bytes, report.end_offset, report.lost_from_offset) == (63, RECORDS, None)
    assert len(bench.values()) == RECORDS + 1


def test_a_segment_that_is_gone_ends_the_log() -> None:
    bench = DamagedLog()
    bench.files.remove(bench.path(bench.bases[2]))
    report = bench.repaired()
    assert report.end_offset == bench.bases[2]
    assert {name(base) for base in bench.bases[3:]} == {
        step.name for step in report.steps if step.repair is Repair.DROPPED
    }


def test_damage_below_the_recovery_point_is_not_looked_for() -> None:
    bench = DamagedLog()
    last = bench.bases[-1]
    size_bytes = len(bench.files.read(bench.path(last)))
    bench.flip(bench.path(bench.bases[0]), 30)
    report = bench.recover(recovery_point=RECORDS)
    assert report.steps == []
    assert (report.scanned_segments, report.scanned_bytes) == (1, size_bytes)
    for base, following in pairwise(bench.bases[1:]):
        for recovery_point, first in ((base + 1, base), (following - 1, base), (following, following)):
            report = bench.recover(recovery_point=recovery_point)
            assert (report.steps, report.scanned_segments) == ([], sum(each >= first for each in bench.bases))
    report = bench.repaired(recovery_point=bench.bases[0])
    assert report.end_offset == 0
    assert Repair.CUT in [step.repair for step in report.steps]


@pytest.mark.parametrize("kind", [Kind.OFFSET_INDEX, Kind.TIME_INDEX])
def test_a_segment_that_ends_at_the_recovery_point_is_read_where_its_roll_was_interrupted(kind: Kind) -> None:
    bench = DamagedLog()
    before = bench.contents()
    path = bench.path(bench.bases[1], kind)
    bench.add(path, b"\0" * 120)
    report = bench.recover(recovery_point=bench.bases[2])
    assert repairs(report) == [(Repair.TRIMMED, name(bench.bases[1], kind))]
    assert bench.contents() == before
    last = bench.files.read(bench.path(bench.bases[1], Kind.TIME_INDEX))
    for torn in (last[:-4] + b"\0" * 4, last[:-8] + b"\0" * 8, last[:-12] + b"\0" * 12):
        bench.write(bench.path(bench.bases[1], Kind.TIME_INDEX), torn)
        report = bench.recover(recovery_point=bench.bases[2])
        assert bench.contents() == before


def test_a_finished_segment_that_ends_at_the_recovery_point_keeps_its_transaction_index() -> None:
    bench = DamagedLog()
    path = bench.path(bench.bases[0], Kind.TRANSACTION_INDEX)
    # Compaction keeps the entry of the whole transaction, of which it has removed the first batches.
    bench.write(path, Struct(">hqqqq").pack(0, 8, 0, 1, 2))
    before = bench.contents()
    assert bench.recover(recovery_point=bench.bases[1]).steps == []
    assert bench.contents() == before


# Where the log begins


def test_a_log_that_ends_before_it_is_to_begin_is_emptied() -> None:
    bench = DamagedLog()
    bytes_before = sum(len(data) for text, data in bench.contents().items() if text.endswith(Kind.LOG))
    report = bench.recover(start_offset=RECORDS + 10)
    assert (report.start_offset, report.end_offset) == (RECORDS + 10, RECORDS + 10)
    assert report.lost_bytes == bytes_before
    dropped = [step.name for step in report.steps if step.repair is Repair.DROPPED]
    assert dropped == [name(base) for base in reversed(bench.bases)]
    assert set(bench.contents()) == {EPOCHS_NAME}
    assert bench.contents()[EPOCHS_NAME] == b"0\n0\n"
    assert bench.open(RECORDS + 10).view.end_offset == RECORDS + 10


def test_a_log_that_ends_where_it_is_to_begin_is_kept() -> None:
    bench = DamagedLog()
    report = bench.recover(start_offset=RECORDS)
    assert (report.start_offset, report.end_offset, report.lost_bytes) == (RECORDS, RECORDS, 0)
    assert [each for each in bench.contents() if each.endswith(Kind.LOG)]


def test_epochs_begin_where_the_log_does() -> None:
    bench = DamagedLog()
    report = bench.repaired(start_offset=15)
    assert report.start_offset == 15
    assert tuple(bench.log.epochs.entries[0])[1] == 15
    assert bench.values()[0] == value_at(15)


# Failures


def test_a_full_disk_is_an_error_and_the_next_attempt_succeeds() -> None:
    def damaged() -> DamagedLog:
        bench = DamagedLog(close=False)
        bench.files = bench.files.after_process_death()
        bench.tasks.clear()
        bench.flip(bench.path(bench.bases[2]), 30)
        bench.write(f"{DIRECTORY}/{EPOCHS_NAME}", b"")
        return bench

    whole = damaged()
    first = whole.files.steps
    whole.recover()
    expected = whole.contents()
    failures = 0
    for step in range(first, whole.files.steps):
        for effect, number in ((Effect.DISK_FULL, errno.ENOSPC), (Effect.DISK_ERROR, errno.EIO)):
            bench = damaged()
            bench.files.cut = Cut(step, effect, seed=step)
            error = error_of_recovery(bench)
            if error is not None:
                # A full disk that is met once a small file is in its place is no refusal: that file has changed.
                is_replaced = "the file was replaced" in str(error)
                assert (error.errno, bool(error.filename)) == (errno.EIO if is_replaced else number, True)
                failures += 1
            bench.files.cut = None
            bench.recover()
            assert bench.contents() == expected
    assert failures > 20


def test_a_disk_without_space_is_told_before_anything_is_lost() -> None:
    bench = DamagedLog()
    for base in bench.bases:
        bench.files.remove(bench.path(base, Kind.OFFSET_INDEX))
    used_bytes = sum(map(len, bench.contents().values()))
    bench.files.capacity_bytes = used_bytes
    with pytest.raises(OSError, match="No space") as caught:
        bench.recover(is_clean=True)
    assert caught.value.errno == errno.ENOSPC
    bench.files.capacity_bytes = None
    report = bench.recover(is_clean=True)
    assert (report.lost_bytes, report.end_offset) == (0, RECORDS)


def test_batches_of_a_follower_keep_the_offsets_that_they_lack() -> None:
    lab = LogOnMemory()
    for offset in (0, 5, 9):
        (data,) = batches_of_rows([(NOW_MS, b"k", b"%d" % offset, ())], base_offset=offset, form=BatchForm())
        lab.log.append_as_follower([data])
    report = lab.open_after_crash(lab.files.after_process_death())
    assert (report.lost_bytes, report.end_offset) == (0, 10)
    assert lab.values() == [b"0", b"5", b"9"]
