"""What recovery does to the files beside a log: indexes, epochs, snapshots and what a crash has left."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import pytest
from damaged_logs import RECORDS, DamagedLog
from memory_logs import DIRECTORY

from storage.errors import CorruptBatchError
from storage.log.epochs import EPOCHS_NAME
from storage.log.recover.report import Repair
from storage.segment.names import FileName, FileSuffix, Kind

if TYPE_CHECKING:
    from storage.log.recover.report import RecoveryReport
    from storage.log.view import LogView


def repairs(report: RecoveryReport) -> list[tuple[Repair, str]]:
    return [(step.repair, step.name) for step in report.steps]


def name(base: int, kind: Kind = Kind.LOG, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return str(FileName(base, kind, suffix))


def check_batches(view: LogView) -> None:
    for batch in view.batches(view.start_offset):
        batch.check_crc()


# Indexes


@pytest.mark.parametrize("kind", [Kind.OFFSET_INDEX, Kind.TIME_INDEX])
def test_a_missing_index_is_built_anew(kind: Kind) -> None:
    bench = DamagedLog()
    before = bench.contents()
    bench.files.remove(bench.path(bench.bases[1], kind))
    report = bench.recover(is_clean=True)
    assert repairs(report) == [(Repair.REBUILT, name(bench.bases[1], kind))]
    assert report.scanned_segments == 1
    assert bench.contents() == before
    assert bench.recover(is_clean=True).steps == []


def test_indexes_of_a_segment_that_is_believed_are_built_up_to_its_damage_which_stays() -> None:
    bench = DamagedLog()
    path = bench.path(bench.bases[1])
    bench.flip(path, 30 + 2 * 300)
    before = bench.contents()
    bench.files.remove(bench.path(bench.bases[1], Kind.OFFSET_INDEX))
    report = bench.recover(is_clean=True)
    assert [step.repair for step in report.steps] == [Repair.REBUILT] * 2
    assert (report.lost_bytes, report.end_offset) == (0, RECORDS)
    after = bench.contents()
    assert after.keys() == before.keys()
    assert after[name(bench.bases[1])] == before[name(bench.bases[1])]
    assert len(after[name(bench.bases[1], Kind.OFFSET_INDEX)]) < len(before[name(bench.bases[1], Kind.OFFSET_INDEX)])
    log = bench.open()
    with pytest.raises(CorruptBatchError):
        check_batches(log.view)
    assert log.view.find(bench.bases[2]) is not None


def test_an_index_that_is_damaged_behind_the_recovery_point_is_built_anew() -> None:
    bench = DamagedLog()
    before = bench.contents()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        bench.write(bench.path(bench.bases[-1], kind), b"\xff" * 240)
    bench.recover()
    assert bench.contents() == before


@pytest.mark.parametrize(
    "entry", [Struct(">hqqqq").pack(9, 7, 0, 1, 2), Struct(">hqqqq").pack(0, 7, 0, -1, 2)], ids=["version", "marker"]
)
def test_a_transaction_index_with_a_bad_entry_is_built_anew(entry: bytes) -> None:
    bench = DamagedLog()
    base = bench.bases[0]
    before = bench.contents()
    assert name(base, Kind.TRANSACTION_INDEX) in before
    bench.write(bench.path(base, Kind.TRANSACTION_INDEX), entry)
    report = bench.recover(is_clean=True)
    assert repairs(report) == [(Repair.REBUILT, name(base, Kind.TRANSACTION_INDEX))]
    assert bench.contents() == before


# Beside the segments


@pytest.mark.parametrize(
    "damage",
    [b"", b"\0" * 40, b"0\n1\n1 x\n", b"0\n2\n1 0\n", b"9\n0\n"],
    ids=["empty", "NUL", "text", "count", "version"],
)
@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "in doubt"])
def test_epochs_that_cannot_be_read_are_found_in_the_log(damage: bytes, *, is_clean: bool) -> None:
    bench = DamagedLog()
    before = bench.contents()
    bench.write(f"{DIRECTORY}/{EPOCHS_NAME}", damage)
    report = bench.recover(is_clean=is_clean)
    assert repairs(report) == [(Repair.REBUILT, EPOCHS_NAME)]
    assert bench.contents() == before
    assert [tuple(entry) for entry in bench.open().epochs.entries] == [(1, 0), (2, 12), (3, 24)]


def test_epochs_that_the_log_has_and_the_file_does_not_are_added_and_those_behind_its_end_go() -> None:
    bench = DamagedLog()
    before = bench.contents()[EPOCHS_NAME]
    bench.write(f"{DIRECTORY}/{EPOCHS_NAME}", b"0\n1\n1 0\n")
    bench.recover()
    assert bench.contents()[EPOCHS_NAME] == before
    bench.write(f"{DIRECTORY}/{EPOCHS_NAME}", before.replace(b"3\n1 0", b"4\n1 0") + b"4 30\n")
    bench.recover()
    assert bench.contents()[EPOCHS_NAME] == before


def test_a_snapshot_that_is_damaged_is_passed_over() -> None:
    bench = DamagedLog(close=False)
    bench.files = bench.files.after_process_death()
    bench.write(bench.path(bench.bases[-1], Kind.SNAPSHOT), b"\0" * 30)
    bench.open_after_crash(bench.files, recovery_point=RECORDS)
    (state,) = bench.log.producers.states()
    assert (state.producer_id, state.last_sequence) == (7, 0)


def test_snapshots_of_no_segment_are_removed_and_the_rest_is_made() -> None:
    bench = DamagedLog()
    before = bench.contents()
    bench.write(bench.path(1, Kind.SNAPSHOT), before[name(RECORDS, Kind.SNAPSHOT)])
    bench.write(bench.path(RECORDS + 50, Kind.SNAPSHOT), before[name(RECORDS, Kind.SNAPSHOT)])
    for base in bench.bases[1:]:
        bench.files.remove(bench.path(base, Kind.SNAPSHOT))
    bench.recover()
    assert bench.contents() == before


def test_producers_of_segments_that_are_not_read_are_known_without_snapshots() -> None:
    bench = DamagedLog()
    before = bench.contents()
    for offset in (*bench.bases[1:], RECORDS):
        bench.files.remove(bench.path(offset, Kind.SNAPSHOT))
    bench.recover(recovery_point=RECORDS)
    made = {name(bench.bases[-1], Kind.SNAPSHOT), name(RECORDS, Kind.SNAPSHOT)}
    assert bench.contents() == {
        text: data for text, data in before.items() if not text.endswith(Kind.SNAPSHOT) or text in made
    }


def test_temporary_files_of_ours_are_removed_and_others_are_not() -> None:
    bench = DamagedLog()
    before = bench.contents()
    ours = [f"{EPOCHS_NAME}.tmp", "partition.metadata.tmp", f"{name(7, Kind.SNAPSHOT)}.tmp"]
    for text in (*ours, "notes.tmp"):
        bench.write(f"{DIRECTORY}/{text}", b"unfinished")
    report = bench.recover(is_clean=True)
    assert repairs(report) == [(Repair.REMOVED, text) for text in sorted(ours)]
    assert bench.contents() == {**before, "notes.tmp": b"unfinished"}


def test_files_whose_log_is_gone_are_removed() -> None:
    bench = DamagedLog()
    before = bench.contents()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        bench.write(bench.path(RECORDS + 5, kind), b"\0" * 24)
    report = bench.recover(is_clean=True)
    assert {step.name for step in report.steps} == {
        name(RECORDS + 5, kind) for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)
    }
    assert bench.contents() == before


def test_replacements_are_finished_before_anything_else() -> None:
    bench = DamagedLog()
    values = bench.values()
    base = bench.bases[1]
    for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        bench.files.rename(bench.path(base, kind), bench.path(base, kind, FileSuffix.SWAP))
    bench.write(bench.path(0, Kind.LOG, FileSuffix.DELETED), b"old")
    report = bench.repaired()
    assert repairs(report)[:2] == [
        (Repair.REMOVED, name(0, Kind.LOG, FileSuffix.DELETED)),
        (Repair.REMOVED, name(base, Kind.SNAPSHOT)),
    ]
    assert [step.repair for step in report.steps[2:]] == [*[Repair.RENAMED] * 3, Repair.ADDED]
    assert bench.values() == [*values, b"and on"]
