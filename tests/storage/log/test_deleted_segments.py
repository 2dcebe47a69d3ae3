"""Segments that leave a log, deleted or replaced: what readers see of them, in any order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent
from turns import TurnFiles

from storage.errors import LogChangedError, PoisonedLogError
from storage.log.view import Isolation
from storage.segment.names import FileName, FileSuffix, Kind
from storage.segment.segment import Segment
from storage.testing.faults import Cut, Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storage.log.view import LogView
    from storage.testing.memory_files import MemoryFiles

SETTINGS = {
    "segment.bytes": "800",
    "segment.index.bytes": "120",
    "index.interval.bytes": "100",
    "cleanup.policy": "compact",
}
COMMITTED = Isolation.COMMITTED


def filled(files: MemoryFiles | None = None, count: int = 16) -> LogOnMemory:
    """A log of four segments and some aborted transactions."""
    lab = LogOnMemory(SETTINGS, files=files)
    for number in range(0, count, 4):
        lab.produce(b"%02d" % number * 80, number // 4, transactional=True)
        lab.end_transaction(committed=False)
        for later in (2, 3):
            rows = [(NOW_MS + number + later, b"%02d" % (number + later) * 80)]
            lab.log.append_as_leader(sent(rows), leader_epoch=1)
    lab.run_tasks()
    return lab


def clean(lab: LogOnMemory, old: Sequence[Segment], offsets: Sequence[int]) -> None:
    """Write a segment as `.cleaned` that has the batches at some of the offsets that the old ones have."""
    base_offset = old[0].base_offset
    batches = [batch for segment in old for batch in segment.batches() if batch.last_offset in offsets]
    with lab.files.open_writing(cleaned(base_offset, Kind.LOG), create=True) as file:
        file.write_at(0, [batch.view(0, batch.size_bytes) for batch in batches])
        file.sync()
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX):
        lab.files.open_writing(cleaned(base_offset, kind), create=True).close()


def cleaned(base_offset: int, kind: Kind) -> str:
    return f"{DIRECTORY}/{FileName(base_offset, kind, FileSuffix.CLEANED)}"


def names(lab: LogOnMemory, suffix: FileSuffix) -> list[str]:
    return sorted(name for name in lab.files.names(DIRECTORY) if name.endswith(suffix.value) or not suffix)


def offsets(view: LogView) -> list[int]:
    return [batch.last_offset for batch in view.batches(view.start_offset)]


READINGS: dict[str, Callable[[LogView], object]] = {
    "all": offsets,
    "one": lambda view: [view.find(offset).last_offset for offset in range(14)],
    "times": lambda view: [view.find_timestamp(NOW_MS + each).offset for each in range(14)],
    "the largest": lambda view: view.list_offset(-3),
    "aborted": lambda view: view.aborted(0, 14),
    "committed": lambda view: view.read(0, isolation=COMMITTED).aborted,
    "sizes": lambda view: [segment.size_bytes for segment in view.segments[:-1]],
}


def test_deleted_segments_leave_the_log_with_their_snapshots() -> None:
    lab = filled()
    old = lab.log.view
    assert old.bases[:4] == (0, 4, 8, 12)
    deleted = lab.log.remove_before(8)
    assert deleted == [
        f"{base:020}{kind}.deleted" for base in (0, 4) for kind in (".log", ".index", ".timeindex", ".txnindex")
    ] + [f"{4:020}.snapshot.deleted"]
    assert (lab.log.view.start_offset, lab.log.view.bases) == (8, old.bases[2:])
    assert [entry.offset for entry in lab.log.epochs.entries] == [8]
    assert offsets(old) == list(range(16))
    assert offsets(lab.log.view) == list(range(8, 16))
    for name in deleted:
        lab.log.directory.remove(name)
    with pytest.raises(FileNotFoundError):
        offsets(old)
    assert lab.log.remove_before(8) == []
    lab.log.advance_start(9)
    lab.log.remove_before(12)
    assert lab.log.view.start_offset == 12


def test_deleting_before_what_is_no_segment_does_nothing() -> None:
    lab = filled()
    steps = lab.files.steps
    for offset in (3, 17, -1):
        with pytest.raises(LogChangedError, match="begins there"):
            lab.log.remove_before(offset)
    assert lab.files.steps == steps
    assert lab.log.view.start_offset == 0


def test_the_whole_log_is_deleted_behind_a_roll() -> None:
    lab = filled()
    lab.log.roll()
    lab.log.remove_before(16)
    assert (lab.log.view.start_offset, lab.log.view.end_offset, lab.log.view.bases) == (16, 16, (16,))
    assert lab.produce(b"on", 4) == 16
    lab.log.close()
    lab.open()
    assert (lab.log.view.start_offset, lab.log.view.end_offset) == (16, 17)


def test_segments_are_replaced_and_readers_of_the_old_ones_go_on() -> None:
    lab = filled()
    old = lab.log.view
    clean(lab, old.segments[:2], (3, 7))
    deleted = lab.log.replace(old.segments[:2], [0])
    assert lab.log.view.bases == (0, *old.bases[2:])
    assert (lab.log.view.start_offset, lab.log.recovery_point) == (0, 12)
    assert offsets(lab.log.view) == [3, 7, *range(8, 16)]
    assert offsets(old) == list(range(16))
    assert deleted[-1] == f"{4:020}.snapshot.deleted"
    assert set(deleted) == set(names(lab, FileSuffix.DELETED))
    # The same again: the first generation is gone for good, and no reader is shown the second one in its place.
    second = lab.log.view
    clean(lab, second.segments[:1], (7,))
    lab.log.replace(second.segments[:1], [0])
    assert offsets(second) == [3, 7, *range(8, 16)]
    assert offsets(lab.log.view) == [7, *range(8, 16)]
    for name in ("all", "one", "times"):
        with pytest.raises(FileNotFoundError):
            READINGS[name](old)


def test_a_log_may_lose_closed_segments_without_new_ones() -> None:
    lab = filled()
    old = lab.log.view.segments
    lab.log.replace(old[1:3], [])
    assert (lab.log.view.bases, lab.log.view.start_offset) == ((0, 12), 0)
    assert offsets(lab.log.view) == [0, 1, 2, 3, 12, 13, 14, 15]
    lab.log.replace(old[:1], [])
    assert (lab.log.view.bases, lab.log.view.start_offset) == ((12,), 12)


def test_only_closed_segments_that_are_still_the_logs_are_replaced() -> None:
    lab = filled()
    segments = lab.log.view.segments
    lab.log.remove_before(4)
    before = lab.contents()
    for old in (segments[:2], segments[:1], segments[2:], (segments[1], segments[3]), (segments[2], segments[1])):
        with pytest.raises(LogChangedError, match="no longer closed ones"):
            lab.log.replace(old, [old[0].base_offset])
    lab.log.truncate_to(9)
    with pytest.raises(LogChangedError):
        lab.log.replace(segments[1:3], [4])
    with pytest.raises(LogChangedError):
        lab.log.replace([Segment(lab.files.directory(DIRECTORY), 4)], [4])
    assert (
        before.items() >= {name: data for name, data in lab.contents().items() if name.startswith(f"{4:020}")}.items()
    )
    assert not lab.log.is_poisoned


def test_readers_from_before_a_roll_or_a_truncation_are_told_too() -> None:
    lab = LogOnMemory(SETTINGS)
    lab.log.append_as_leader(sent(b"0" * 80), leader_epoch=1)
    active = lab.log.view
    lab.log.roll()
    lab.run_tasks()
    lab.log.append_as_leader(sent(b"1" * 80), leader_epoch=1)
    closed = lab.log.view
    lab.log.truncate_to(1)
    lab.log.roll()
    clean(lab, lab.log.view.segments[:1], ())
    lab.log.replace(lab.log.view.segments[:1], [0])
    assert offsets(lab.log.view) == []
    assert offsets(active) == [0]
    assert closed.find(0).last_offset == 0


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("seed", range(30))
def test_a_reader_of_an_old_view_is_never_shown_anything_else(name: str, seed: int) -> None:
    reading = READINGS[name]
    files = TurnFiles()
    lab = filled(files)
    old = lab.log.view
    expected = reading(filled().log.view)
    found = []
    is_removing = False

    def read() -> None:
        for _ in range(2):
            try:
                found.append(reading(old))
            except FileNotFoundError:
                assert is_removing
                found.append(expected)

    def change() -> None:
        nonlocal is_removing
        if seed % 3:
            clean(lab, old.segments[:2], (3, 7))
            deleted = lab.log.replace(old.segments[:2], [0])
        else:
            deleted = lab.log.remove_before(8)
        is_removing = seed % 2 == 0
        for name in deleted if is_removing else ():
            lab.log.directory.remove(name)

    files.run(seed, read, change)
    assert found == [expected, expected]


@pytest.mark.parametrize("seed", range(40))
def test_who_reads_the_log_always_gets_one_of_its_states(seed: int) -> None:
    files = TurnFiles()
    lab = filled(files)
    found = []

    def read() -> None:
        for _ in range(3):
            fetched = lab.log.read(2, isolation=COMMITTED)
            first = [batch.last_offset for batch in fetched.batches]
            found.append((first, [aborted.first_offset for aborted in fetched.aborted]))

    def change() -> None:
        old = lab.log.view.segments[:2]
        clean(lab, old, (0, 1, 3, 4, 7))
        for name in lab.log.replace(old, [0]):
            lab.log.directory.remove(name)

    files.run(seed, read, change)
    # The new segment was given no index of transactions.
    behind = [9, 10, 11, 13, 14, 15]
    states = [([2, 3, 5, 6, 7, *behind], [4, 8, 12]), ([3, 4, 7, *behind], [8, 12])]
    assert all(each in states for each in found)
    assert [states.index(each) for each in found] == sorted(states.index(each) for each in found)


@pytest.mark.parametrize("name", ["remove", "replace"])
def test_an_error_in_the_middle_poisons_the_log_and_readers_go_on(name: str) -> None:
    def act(lab: LogOnMemory, segments: Sequence[Segment]) -> None:
        if name == "remove":
            lab.log.remove_before(8)
        else:
            lab.log.replace(segments[:2], [0])

    def prepared() -> LogOnMemory:
        lab = filled()
        if name == "replace":
            clean(lab, lab.log.view.segments[:2], (3, 7))
        return lab

    for step in range(100):
        lab = prepared()
        old = lab.log.view
        cut = lab.files.cut = Cut(lab.files.steps + step, Effect.DISK_ERROR)
        try:
            act(lab, old.segments)
        except PoisonedLogError:
            assert lab.log.is_poisoned
        if lab.files.steps <= cut.step:
            break
        lab.files.cut = None
        assert offsets(old) == list(range(16))
        assert lab.log.view.end_offset == 16
    else:
        pytest.fail("it never ended")
    assert step > 10


def test_a_full_disk_keeps_no_segment() -> None:
    """What would need space, the file of the epochs, is left as it is."""
    lab = filled()
    lab.files.capacity_bytes = 0
    lab.log.remove_before(8)
    assert not lab.log.is_poisoned
    assert lab.log.view.bases == (8, 12)
    assert [entry.offset for entry in lab.log.epochs.entries] == [0]
    lab.files.capacity_bytes = None
    lab.log.close()
    lab.recover(is_clean=True)
    assert [entry.offset for entry in lab.open().epochs.entries] == [8]
