"""Indexes when the disk is full or fails, the process dies, power is lost, and others look while one writes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from storage.files import Files
from storage.segment.index.entries import AbortedTransaction, OffsetEntry
from storage.segment.index.offset import OffsetIndex, OffsetIndexReader, OffsetIndexWriter
from storage.segment.index.time import TimeIndexWriter
from storage.segment.index.txn import TransactionIndexReader, TransactionIndexWriter
from storage.testing.faults import DISK_EFFECTS, Cut, CutError, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATH = "/t-0/00000000000000000100.index"
BASE = 100
A, B, C, D = (OffsetEntry(BASE + number, number * 5000) for number in (3, 7, 8, 20))
# What is done, and the entries there are after it.
LIFE: list[tuple[Callable[[OffsetIndex], None], list[OffsetEntry]]] = [
    (lambda index: index.append(*A), [A]),
    (lambda index: index.append(*B), [A, B]),
    (lambda index: index.append(*C), [A, B, C]),
    (lambda index: index.flush(), [A, B, C]),
    (lambda index: index.truncate_to(C.offset), [A, B]),
    (lambda index: index.trim(), [A, B]),
    (lambda index: index.flush(), [A, B]),
    (lambda index: index.truncate_to_entries(1), [A]),
    (lambda index: index.expand(), [A]),
    (lambda index: index.append(*D), [A, D]),
    (lambda index: index.trim(), [A, D]),
]


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/t-0")
    return files


def states() -> Iterator[tuple[Callable[[OffsetIndex], None], list[OffsetEntry], list[OffsetEntry]]]:
    before: list[OffsetEntry] = []
    for action, after in LIFE:
        yield action, before, after
        before = after


def steps_of_a_life() -> int:
    files = MemoryFiles()
    files.make_directory("/t-0")
    index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
    for action, _, after in states():
        action(index)
        assert list(index) == after
    return files.steps


def test_every_change_is_a_step_that_a_test_can_fail(files: MemoryFiles) -> None:
    index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
    for action, steps in ((lambda: index.append(*A), 1), (index.trim, 1), (index.flush, 2), (index.flush, 1)):
        before = files.steps
        action()
        assert files.steps - before == steps


@pytest.mark.parametrize("effect", [Effect.DISK_FULL, Effect.DISK_ERROR])
def test_a_call_that_fails_leaves_the_entries_as_they_were(effect: Effect) -> None:
    failures = 0
    for step in range(steps_of_a_life()):
        files = MemoryFiles()
        files.make_directory("/t-0")
        files.cut = Cut(step, effect)
        try:
            index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
        except OSError:
            failures += 1
            assert files.status(PATH) is None or files.read(PATH) == b""
            index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
        for action, before, after in states():
            try:
                action(index)
            except OSError:
                failures += 1
                assert list(index) == before
                assert index.lookup(BASE + 7) == max((e for e in before if e.offset <= BASE + 7), default=(BASE, 0))
                index.expand()
                assert list(index) == before
                action(index)
            assert list(index) == after
        index.close()
        assert len(files.read(PATH)) == 16
    assert failures == steps_of_a_life() - 1  # all but making the directory


def live_until_cut(files: MemoryFiles) -> list[list[OffsetEntry]]:
    """The entries that there may be when the process has died; its maps are gone with it."""
    possible: list[list[OffsetEntry]] = [[]]
    try:
        index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
        for action, before, after in states():
            possible = [before, after]
            action(index)
    except CutError:
        return possible
    raise AssertionError("the run was not cut")


def test_what_a_dead_process_leaves_is_read_again() -> None:
    found_bytes = set()
    for step in range(2, steps_of_a_life()):
        files = MemoryFiles()
        files.make_directory("/t-0")
        files.cut = Cut(step)
        possible = live_until_cut(files)
        left = files.after_process_death()
        found_bytes.add(len(left.read(PATH)))
        reading = OffsetIndexReader.open(*left.parent(PATH), BASE)
        assert list(reading) in possible
        index = OffsetIndexWriter.open(*left.parent(PATH), BASE, 80)
        assert list(index) == list(reading)
        index.close()
        assert len(left.read(PATH)) == 8 * len(list(reading))
    assert found_bytes == {0, 8, 16, 80}


@pytest.mark.parametrize("seed", range(20))
def test_what_was_flushed_survives_a_loss_of_power_with_its_length(files: MemoryFiles, seed: int) -> None:
    index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
    files.sync_directory("/")
    files.sync_directory("/t-0")
    index.append(*A)
    index.append(*B)
    index.flush()
    left = files.after_power_loss(seed)
    assert len(left.read(PATH)) == 80
    assert list(OffsetIndexReader.open(*left.parent(PATH), BASE)) == [A, B]
    index.trim()
    index.flush()
    left = files.after_power_loss(seed)
    assert len(left.read(PATH)) == 16
    assert list(OffsetIndexReader.open(*left.parent(PATH), BASE)) == [A, B]


def test_a_full_disk_refuses_a_new_index_and_holds_none_of_it() -> None:
    files = MemoryFiles(capacity_bytes=1000)
    with pytest.raises(OSError, match="No space left"):
        OffsetIndexWriter.create(*files.parent("/x.index"), 0, 1008)
    assert files.read("/x.index") == b""


def test_a_full_disk_leaves_an_index_that_was_to_grow_readable_and_full() -> None:
    files = MemoryFiles(capacity_bytes=1000)
    index = OffsetIndexWriter.create(*files.parent("/x.index"), 0, 80)
    index.append(5, 50)
    index.close()
    again = OffsetIndexWriter.open(*files.parent("/x.index"), 0, 1008)
    with pytest.raises(OSError, match="No space left"):
        again.expand()
    assert (list(again), again.is_full) == ([(5, 50)], True)
    again.close()
    assert len(files.read("/x.index")) == 8


def test_a_close_that_fails_lets_go_all_the_same(files: MemoryFiles) -> None:
    index = OffsetIndexWriter.create(*files.parent(PATH), BASE, 80)
    index.append(*A)
    files.cut = Cut(files.steps, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        index.close()
    index.close()
    assert index.lookup(BASE + 9) == (BASE, 0)
    assert list(OffsetIndexReader.open(*files.parent(PATH), BASE)) == [A]


def test_a_time_index_entry_that_was_refused_can_be_added_again(files: MemoryFiles) -> None:
    index = TimeIndexWriter.create(*files.parent(PATH), BASE, 80)
    index.maybe_append(10, BASE + 1)
    files.cut = Cut(files.steps, Effect.DISK_ERROR)
    with pytest.raises(OSError, match="Input/output error"):
        index.maybe_append(11, BASE + 2)
    assert index.last_entry == (10, BASE + 1)
    index.maybe_append(11, BASE + 2)
    assert list(index) == [(10, BASE + 1), (11, BASE + 2)]


FIRST, SECOND = AbortedTransaction(1, 100, 110, 111), AbortedTransaction(1, 112, 120, 121)
ABORTS = "/t-0/00000000000000000100.txnindex"


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("effect", [Effect.DEATH, *DISK_EFFECTS])
def test_a_torn_write_of_an_abort_leaves_those_before_it(files: MemoryFiles, effect: Effect, seed: int) -> None:
    index = TransactionIndexWriter.open(*files.parent(ABORTS), BASE)
    index.append(FIRST)
    files.cut = Cut(files.steps, effect, seed)
    with pytest.raises((OSError, CutError)):
        index.append(SECOND)
    left = files.after_process_death()
    again = TransactionIndexWriter.open(*left.parent(ABORTS), BASE)
    assert list(again) in ([FIRST], [FIRST, SECOND])
    if effect is not Effect.DEATH:
        assert list(index) == [FIRST]
        index.append(SECOND)
        assert list(TransactionIndexReader.open(*files.parent(ABORTS), BASE)) == [FIRST, SECOND]


@pytest.mark.parametrize("seed", range(20))
def test_a_flushed_abort_survives_a_loss_of_power_with_its_file(files: MemoryFiles, seed: int) -> None:
    files.sync_directory("/")
    index = TransactionIndexWriter.open(*files.parent(ABORTS), BASE)
    index.append(FIRST)
    index.flush()
    index.append(SECOND)
    found = list(TransactionIndexWriter.open(*files.after_power_loss(seed).parent(ABORTS), BASE))
    assert found in ([FIRST], [FIRST, SECOND])
    index.flush()
    assert list(TransactionIndexReader.open(*files.after_power_loss(seed).parent(ABORTS), BASE)) == [FIRST, SECOND]


class Looker(threading.Thread):
    """Looks things up in an index whose entries are (10 n, n) until it is told to stop, and notes what is wrong."""

    def __init__(self, index: OffsetIndex, done: threading.Event) -> None:
        super().__init__()
        self.index = index
        self.done = done
        self.looks = 0
        self.wrong: list[object] = []

    def run(self) -> None:
        try:
            while not self.done.is_set():
                self.looks += 1
                for found in (self.index.lookup(10_000), next(iter(self.index))):
                    if found.offset != found.position * 10 or not 1 <= found.position <= 400:
                        self.wrong.append(found)
        except Exception as error:  # noqa: BLE001
            self.wrong.append(error)


def write_and_resize(index: OffsetIndex) -> None:
    for position in range(2, 401):
        index.append(position * 10, position)
        index.trim()
        if position % 100 == 0:
            index.flush()
            index.truncate_to_entries(position // 2)
            for again in range(position // 2 + 1, position + 1):
                index.expand()
                index.append(again * 10, again)
        index.expand()


def test_others_look_up_while_one_appends_trims_expands_and_flushes(tmp_path: Path) -> None:
    index = OffsetIndexWriter.create(*Files().parent(tmp_path / "x.index"), 0, 4096)
    index.append(10, 1)
    done = threading.Event()
    lookers = [Looker(index, done), Looker(index, done)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for looker in lookers:
            looker.start()
        write_and_resize(index)
    finally:
        done.set()
        for looker in lookers:
            looker.join()
        sys.setswitchinterval(interval)
    assert [looker.wrong for looker in lookers] == [[], []]
    assert all(looker.looks > 10 for looker in lookers)
    assert index.entries_count == 400
    index.close()
    assert index.lookup(10_000) == (0, 0)
