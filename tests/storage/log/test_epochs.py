"""Leader epochs: real checkpoints, Kafka's rules one by one, and all of them against a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptCheckpointError, NulFilledCheckpointError
from storage.files import Files
from storage.log.epoch_entries import EpochStart
from storage.log.epochs import EPOCHS_NAME, EpochEnd, LeaderEpochs, may_begin_at
from storage.record import RecordBatch
from storage.segment.scan import LogScan
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = Files()


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(MemoryFiles().directory("/"))
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


@pytest.mark.golden
@pytest.mark.parametrize(
    "name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-recovery", "kafka-3.9-compaction"]
)
def test_real_checkpoints(datasets: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    found = sorted(datasets(name).rglob(EPOCHS_NAME))
    assert found
    for path in found:
        read = LeaderEpochs.load(FILES.directory(path.parent))
        lines = path.read_text().splitlines()[2:]
        assert list(read.entries) == [tuple(map(int, line.split())) for line in lines]
        (tmp_path / EPOCHS_NAME).unlink(missing_ok=True)
        written = LeaderEpochs(FILES.directory(tmp_path))
        for entry in read.entries:
            written.assign(entry.epoch, entry.offset)
        assert (tmp_path / EPOCHS_NAME).read_bytes() == path.read_bytes()


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_epochs_from_the_batches_of_real_logs(datasets: Callable[[str], Path], name: str) -> None:
    """An epoch in which nothing was written is known to the broker alone, so the log's epochs are among its own."""
    compared = 0
    for path in sorted(datasets(name).rglob(EPOCHS_NAME)):
        logs = sorted(path.parent.glob("*.log"))
        written = LeaderEpochs(MemoryFiles().directory("/"))
        for log in logs:
            with FILES.open_reading(log) as file:
                for batch in LogScan(file):
                    if isinstance(batch, RecordBatch):
                        written.assign(batch.leader_epoch, batch.base_offset)
        known = dict(LeaderEpochs.load(FILES.directory(path.parent)).entries)
        written.truncate_from_start(min(known.values()))  # records may have been deleted up to within a batch
        for entry in written.entries:
            # Compaction and retention take an epoch's first batches away, never add one before.
            assert known[entry.epoch] <= entry.offset
            compared += 1
    assert compared > 20


def test_a_new_epoch_is_on_disk_at_once() -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs(files.directory("/"))
    epochs.assign(0, 0)
    epochs.assign(3, 10)
    assert files.read(f"/{EPOCHS_NAME}") == b"0\n2\n0 0\n3 10\n"
    assert LeaderEpochs.load(files.after_power_loss(1).directory("/")).entries == ((0, 0), (3, 10))


def test_batches_of_the_same_epoch_cost_nothing() -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs(files.directory("/"))
    epochs.assign(1, 5)
    steps = files.steps
    epochs.assign(1, 5)
    epochs.assign(1, 6)
    epochs.assign(-1, 7)
    assert files.steps == steps
    assert epochs.entries == ((1, 5),)


def test_entries_that_conflict_with_a_new_one_go() -> None:
    assert epochs_of((1, 0), (3, 10), (5, 20), (2, 30)).entries == ((1, 0), (2, 30))
    assert epochs_of((1, 0), (3, 10), (5, 20), (7, 10)).entries == ((1, 0), (7, 10))
    assert epochs_of((1, 10), (1, 5)).entries == ((1, 5),)
    assert epochs_of((1, 10), (0, 0)).entries == ((0, 0),)


def test_truncation_from_the_start() -> None:
    epochs = epochs_of((1, 0), (3, 10), (5, 20))
    epochs.truncate_from_start(0)
    assert epochs.entries == ((1, 0), (3, 10), (5, 20))
    epochs.truncate_from_start(15)
    assert epochs.entries == ((3, 15), (5, 20))
    epochs.truncate_from_start(20)
    assert epochs.entries == ((5, 20),)
    epochs.truncate_from_start(100)
    assert epochs.entries == ((5, 100),)
    epochs.truncate_from_start(50)
    assert epochs.entries == ((5, 100),)


def test_truncation_from_the_end() -> None:
    epochs = epochs_of((1, 0), (3, 10), (5, 20))
    epochs.truncate_from_end(21)
    assert epochs.entries == ((1, 0), (3, 10), (5, 20))
    epochs.truncate_from_end(20)
    assert epochs.entries == ((1, 0), (3, 10))
    epochs.truncate_from_end(0)
    assert epochs.entries == ()
    assert epochs.latest_epoch is None


def test_where_epochs_end() -> None:
    epochs = epochs_of((2, 0), (4, 10), (7, 20))
    assert epochs.latest_epoch == 7
    assert epochs.end_of(7, 25) == EpochEnd(7, 25)
    assert epochs.end_of(4, 25) == EpochEnd(4, 20)
    assert epochs.end_of(6, 25) == EpochEnd(4, 20)
    assert epochs.end_of(3, 25) == EpochEnd(2, 10)
    assert epochs.end_of(1, 25) == EpochEnd(1, 0)
    assert epochs.end_of(8, 25) is None
    assert epochs.end_of(-1, 25) is None
    assert epochs_of().end_of(0, 25) is None


def test_forgetting_all() -> None:
    epochs = epochs_of((2, 0))
    epochs.clear()
    assert epochs.entries == ()


def test_a_failed_write_changes_nothing() -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs(files.directory("/"))
    epochs.assign(1, 0)
    files.cut = Cut(files.steps + 1, Effect.DISK_FULL)
    with pytest.raises(OSError, match="space"):
        epochs.assign(2, 10)
    assert epochs.entries == ((1, 0),)
    assert LeaderEpochs.load(files.directory("/")).entries == ((1, 0),)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / EPOCHS_NAME
    path.write_bytes(bytes(20))
    with pytest.raises(NulFilledCheckpointError):
        LeaderEpochs.load(FILES.directory(tmp_path))
    for text in ("0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n0 0 0\n", "0\n1\n2147483648 0\n"):
        path.write_text(text)
        with pytest.raises(CorruptCheckpointError):
            LeaderEpochs.load(FILES.directory(tmp_path))
    path.write_bytes(b"")
    assert LeaderEpochs.load(FILES.directory(tmp_path)).entries == ()
    path.write_bytes(b"0\n3\n1 0\n5 20\n3 10\n")
    assert LeaderEpochs.load(FILES.directory(tmp_path)).entries == ((1, 0), (3, 10))


@pytest.mark.property
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=20), st.integers(0, 100), st.integers(0, 100))
def test_against_the_epoch_of_every_offset(written: list[tuple[int, int]], start: int, end: int) -> None:
    """A log as the list of its offsets' epochs; each leader's epoch is above the last."""
    of_offset: list[int] = []
    epochs = LeaderEpochs(MemoryFiles().directory("/"))
    latest = 0
    for step, count in written:
        latest += step
        epochs.assign(latest, len(of_offset))
        of_offset += [latest] * count
    end = min(end, len(of_offset))
    start = min(start, end)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    kept = of_offset[start:end]
    firsts = [EpochStart(epoch, start + kept.index(epoch)) for epoch in sorted(set(kept))]
    assert [entry for entry in epochs.entries if entry.offset < end] == firsts
    for epoch in set(kept):
        last = start + len(kept) - kept[::-1].index(epoch)
        assert epochs.end_of(epoch, end) == EpochEnd(epoch, last)


class Counted(Sequence[EpochStart]):
    """Very many epochs, which counts those that are made."""

    def __init__(self) -> None:
        self.made = 0

    def __len__(self) -> int:
        return 1_000_000

    @overload
    def __getitem__(self, index: int) -> EpochStart: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EpochStart, ...]: ...
    def __getitem__(self, index: int | slice) -> EpochStart | tuple[EpochStart, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            self.made += 1
            return EpochStart(numbers, numbers * 10)
        self.made += len(numbers)
        return tuple(EpochStart(number, number * 10) for number in numbers)


def test_of_very_many_epochs_few_are_looked_at() -> None:
    entries = Counted()
    epochs = LeaderEpochs(MemoryFiles().directory("/"), entries)
    epochs.assign_all([EpochStart(999_999, 9_999_990), EpochStart(999_999, 9_999_995)])
    epochs.truncate_from_start(0)
    epochs.truncate_from_end(20_000_000)
    assert epochs.entries is entries
    assert epochs.end_of(500_000, 20_000_000) == EpochEnd(500_000, 5_000_010)
    assert may_begin_at(entries, 5_000_000)
    assert not may_begin_at(entries, 5_000_001)
    assert entries.made < 200
    epochs.truncate_from_end(21)
    assert list(epochs.entries) == [(0, 0), (1, 10), (2, 20)]
    assert entries.made < 300
