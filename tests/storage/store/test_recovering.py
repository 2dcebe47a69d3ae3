"""Recovering a whole store: what belongs to it besides partitions, what is left alone, and when it counts as closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent

from storage.errors import MetadataLossError
from storage.log.recover.report import Repair
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets, write_offsets
from storage.log_dir.recognition import CLEAN_MARKER_NAME
from storage.segment.names import FileName, Kind
from storage.store.log_opener import LogOpener
from storage.store.recovered_log_dir import RecoveredLogDir
from storage.store.store import Mode, Store
from storage.store.store_recovery import Recovered, RecoveryOptions, plan_recovery, recover_store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Files

PATHS = ["/a", "/b"]
HEX = "0123456789abcdef0123456789abcdef"
COPY = f"/b/t-0.{HEX}-future"
STRAY = f"/b/old-1.{HEX}-stray"
DELETED = f"/b/old-2.{HEX}-delete"
METADATA = "/a/__cluster_metadata-0"
MARKERS = [f"{path}/{CLEAN_MARKER_NAME}" for path in PATHS]
CLOCK = StandingClock()


def written_log(files: Files, directory: str, batches: int = 8) -> None:
    """A log that was appended to and not closed; its indexes have unused slots."""
    with Store.create(["/made"], files=files, clock=CLOCK, open_log=LogOpener()) as store:
        store.topics.create("x", 1, {"index.interval.bytes": "0", "segment.index.bytes": "240"})
        log = store.log("x", 0)
        for number in range(batches):
            log.append_as_leader(sent(b"%d" % number * 100), leader_epoch=1)  # type: ignore[attr-defined]
        for name in files.names("/made/x-0"):
            if name != "partition.metadata":
                copy(files, f"/made/x-0/{name}", f"{directory}/{name}")
    for name in files.names("/made/x-0"):
        files.remove(f"/made/x-0/{name}")
    files.remove_directory("/made/x-0")
    for name in files.names("/made"):
        files.remove(f"/made/{name}")
    files.remove_directory("/made")


def copy(files: Files, source: str, target: str) -> None:
    directory = target.rpartition("/")[0]
    if files.status(directory) is None:
        files.make_directory(directory)
    with files.open_writing(target, create=True) as file:
        file.write_at(0, [files.read(source)])


@pytest.fixture
def files() -> MemoryFiles:
    """What a broker that was killed has left: partitions, a copy, a stray, and one that is deleted."""
    files = MemoryFiles()
    for path in PATHS:
        files.make_directory(path)
    for path in PATHS:
        with files.open_writing(f"{path}/meta.properties", create=True) as file:
            file.write_at(0, [b"version=0\nbroker.id=1\n"])
    for directory in ("/a/t-0", "/b/t-1", COPY, STRAY, DELETED):
        written_log(files, directory)
    return files


def everything(files: Files, *directories: str) -> dict[str, bytes]:
    return dict(_everything(files, directories or PATHS))


def _everything(files: Files, directories: tuple[str, ...] | list[str]) -> Iterator[tuple[str, bytes]]:
    for directory in directories:
        for name in files.names(directory):
            path = f"{directory}/{name}"
            status = files.status(path)
            assert status is not None
            if status.is_directory:
                yield from _everything(files, [path])
            elif name != ".lock":
                yield path, files.read(path)


def told(files: Files, run=recover_store, **options: bool) -> list[Recovered | RecoveredLogDir]:
    found: list[Recovered | RecoveredLogDir] = []
    run(
        PATHS,
        files=files,
        clock=CLOCK,
        announce=lambda *_: None,
        tell=found.append,
        options=RecoveryOptions(**options),
    )
    return found


def names_of_changes(found: list[Recovered | RecoveredLogDir]) -> set[str]:
    """The paths of all files that are said to change."""
    changed = set()
    for each in found:
        directory = each.path if isinstance(each, RecoveredLogDir) else each.directory
        steps = each.steps if isinstance(each, RecoveredLogDir) else each.report.steps if each.report else []
        changed |= {f"{directory}/{step.name}" for step in steps}
    return changed


def changes(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def are_marked(files: Files) -> list[bool]:
    return [files.status(marker) is not None for marker in MARKERS]


# Copies and strays


def test_copies_and_strays_are_recovered_and_what_is_deleted_is_not(files: MemoryFiles) -> None:
    deleted = everything(files, DELETED)
    found = told(files)
    recovered = {str(each.directory) for each in found if isinstance(each, Recovered)}
    assert recovered == {"/a/t-0", "/b/t-1", COPY, STRAY}
    index = str(FileName(0, Kind.TIME_INDEX))
    assert len(files.read(f"{COPY}/{index}")) == len(files.read(f"{STRAY}/{index}")) == 12
    assert everything(files, DELETED) == deleted
    assert are_marked(files) == [True, True]
    points = [read_offsets(files.directory(path), OffsetCheckpoint.RECOVERY_POINT) for path in PATHS]
    assert points == [{("t", 0): 8}, {("t", 0): 8, ("t", 1): 8}]


def test_a_plan_says_each_file_that_changes_and_changes_none(files: MemoryFiles) -> None:
    before = everything(files)
    planned = told(files, plan_recovery)
    assert everything(files) == before
    done = told(files)
    assert planned == done or str([vars_of(each) for each in planned]) == str([vars_of(each) for each in done])
    assert names_of_changes(done) == changes(before, everything(files))
    again = told(files)
    assert names_of_changes(again) == set()


def vars_of(each: Recovered | RecoveredLogDir) -> object:
    if isinstance(each, RecoveredLogDir) or each.report is None:
        return each
    return (each.directory, each.high_watermark, vars(each.report))


def test_a_copy_that_cannot_be_recovered_keeps_the_marker_away(files: MemoryFiles) -> None:
    index = f"{COPY}/{FileName(0, Kind.OFFSET_INDEX)}"
    files.remove(index)
    files.make_directory(index)
    found = told(files)
    assert [str(each.directory) for each in found if isinstance(each, Recovered) and each.error] == [COPY]
    assert are_marked(files) == [True, False]


def test_a_store_that_was_opened_for_writing_is_not_marked_beside_a_copy_that_was_not_recovered(
    files: MemoryFiles,
) -> None:
    with Store.open(PATHS, mode=Mode.READ_WRITE, files=files, clock=CLOCK, open_log=LogOpener()) as store:
        for partition in range(2):
            store.log("t", partition)
    assert are_marked(files) == [True, False]
    told(files)
    with Store.open(PATHS, mode=Mode.READ_WRITE, files=files, clock=CLOCK, open_log=LogOpener()) as store:
        store.log("t", 0)
    assert are_marked(files) == [True, True]


def test_the_start_of_a_copy_is_not_forgotten(files: MemoryFiles) -> None:
    write_offsets(files.directory("/b"), OffsetCheckpoint.LOG_START, {("t", 0): 3})
    told(files)
    assert read_offsets(files.directory("/b"), OffsetCheckpoint.LOG_START) == {("t", 0): 3}
    with Store.open(PATHS, mode=Mode.READ_WRITE, files=files, clock=CLOCK, open_log=LogOpener()) as store:
        store.log("t", 1)
    assert read_offsets(files.directory("/b"), OffsetCheckpoint.LOG_START) == {("t", 0): 3}


# What is left alone


def test_a_partition_directory_without_a_segment_is_left_as_it_is(files: MemoryFiles) -> None:
    files.make_directory("/a/backup-3")
    for name in ("notes.tmp", "leader-epoch-checkpoint.tmp", f"{7:020d}.index", f"{7:020d}.snapshot"):
        files.open_writing(f"/a/backup-3/{name}", create=True).close()
    before = everything(files, "/a/backup-3")
    assert ("backup", 3) in {(each.topic, each.partition) for each in told(files) if isinstance(each, Recovered)}
    assert everything(files, "/a/backup-3") == before
    assert are_marked(files) == [True, True]


def test_a_marker_in_whose_directory_nothing_changed_keeps_its_epoch(files: MemoryFiles) -> None:
    told(files)
    marker = b'{"version":0,"brokerEpoch":7}'
    with files.open_writing(MARKERS[0]) as file:
        file.truncate(0)
        file.write_at(0, [marker])
    before = everything(files)
    assert [each.trusts_marker for each in told(files) if isinstance(each, RecoveredLogDir)] == [True, True]
    assert everything(files) == before


def test_damage_in_a_store_that_was_closed_is_found_without_its_marker(files: MemoryFiles) -> None:
    told(files)
    path = f"/b/t-1/{FileName(0, Kind.LOG)}"
    size_bytes = len(files.read(path))
    with files.open_writing(path) as file:
        file.write_at(size_bytes // 2 + 100, [b"?"])
    assert names_of_changes(told(files)) == set()
    before = everything(files)
    planned = told(files, plan_recovery, ignores_marker=True)
    assert everything(files) == before
    assert [each.report.lost_bytes > 0 for each in planned if isinstance(each, Recovered) and each.report] == [
        False,
        True,
        False,
        False,
    ]
    done = told(files, ignores_marker=True)
    assert names_of_changes(done) == names_of_changes(planned) == changes(before, everything(files))
    assert are_marked(files) == [True, True]


# The cluster's metadata log


@pytest.fixture
def with_metadata(files: MemoryFiles) -> MemoryFiles:
    written_log(files, METADATA)
    return files


def log_of_metadata(files: Files) -> bytes:
    return files.read(f"{METADATA}/{FileName(0, Kind.LOG)}")


def change_metadata(files: Files, position: int, data: bytes) -> None:
    with files.open_writing(f"{METADATA}/{FileName(0, Kind.LOG)}") as file:
        file.write_at(position, [data])


@pytest.mark.parametrize("position", [100, 8, 9], ids=["a record", "a length", "an incomplete batch before others"])
def test_the_metadata_log_is_not_cut_at_damage_unasked(position: int, with_metadata: MemoryFiles) -> None:
    files = with_metadata
    change_metadata(files, position, b"\x7f")
    before = everything(files, METADATA)
    for run in (plan_recovery, recover_store):
        (error,) = (each.error for each in told(files, run) if isinstance(each, Recovered) and each.error)
        assert isinstance(error, MetadataLossError)
        assert "--cut-metadata" in str(error)
        assert "-stray" in str(error)
    assert everything(files, METADATA) == before
    assert are_marked(files) == [False, True]
    told(files, cuts_metadata=True)
    assert log_of_metadata(files) == b""
    assert are_marked(files) == [True, True]


@pytest.mark.parametrize("point", [None, 8])
@pytest.mark.parametrize("is_marked", [True, False])
def test_neither_marker_nor_recovery_point_is_believed_of_the_metadata_log(
    point: int | None, with_metadata: MemoryFiles, *, is_marked: bool
) -> None:
    files = with_metadata
    told(files)
    if point is not None:
        points = {("t", 0): 8, ("__cluster_metadata", 0): point}
        write_offsets(files.directory("/a"), OffsetCheckpoint.RECOVERY_POINT, points)
    if not is_marked:
        files.remove(MARKERS[0])
    change_metadata(files, 100, b"\x7f")
    before = everything(files, METADATA)
    marker = b'{"version":0,"brokerEpoch":7}'
    if is_marked:
        files.directory("/a").replace(CLEAN_MARKER_NAME, marker)
    for run in (plan_recovery, recover_store):
        (error,) = (each.error for each in told(files, run) if isinstance(each, Recovered) and each.error)
        assert isinstance(error, MetadataLossError)
    assert everything(files, METADATA) == before
    if is_marked and point is None:
        assert files.read(MARKERS[0]) == marker, "it says nothing of this log, and nothing else changed"
    assert are_marked(files) == [is_marked, True]
    told(files, cuts_metadata=True)
    assert log_of_metadata(files) == b""
    assert are_marked(files) == [True, True]


def test_a_bad_last_batch_of_the_metadata_log_is_not_cut_unasked(with_metadata: MemoryFiles) -> None:
    files = with_metadata
    change_metadata(files, len(log_of_metadata(files)) - 3, b"?")
    before = everything(files, METADATA)
    assert [each.topic for each in told(files) if isinstance(each, Recovered) and each.error] == ["__cluster_metadata"]
    assert everything(files, METADATA) == before


@pytest.mark.parametrize("tail", [b"\0" * 100, None], ids=["zeros", "the beginning of a batch"])
def test_what_was_never_acknowledged_is_cut_from_the_metadata_log(
    tail: bytes | None, with_metadata: MemoryFiles
) -> None:
    files = with_metadata
    whole = log_of_metadata(files)
    change_metadata(files, len(whole), sent(b"?" * 100)[:70] if tail is None else tail)
    assert [each.error for each in told(files) if isinstance(each, Recovered) and each.error] == []
    assert log_of_metadata(files) == whole


def test_a_store_that_is_opened_for_writing_does_not_touch_the_metadata_log(with_metadata: MemoryFiles) -> None:
    files = with_metadata
    change_metadata(files, 100, b"\x7f")
    before = everything(files, METADATA)
    with Store.open(PATHS, mode=Mode.READ_WRITE, files=files, clock=CLOCK, open_log=LogOpener()) as store:
        store.log("__cluster_metadata", 0)
        store.log("t", 0)
    assert everything(files, METADATA) == before
    assert are_marked(files)[0] is False


def test_repairs_have_names(files: MemoryFiles) -> None:
    repairs = {step.repair for each in told(files) if isinstance(each, RecoveredLogDir) for step in each.steps}
    assert repairs == {Repair.REBUILT, Repair.ADDED}
