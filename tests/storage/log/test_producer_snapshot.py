"""Producer snapshots: real ones to the byte and to the real tool's text, damage, and what becomes of the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptSnapshotError
from storage.log.producers.producers import ProducerStates
from storage.log.producers.snapshot import SnapshotFiles, decode_snapshot, encode_snapshot
from storage.log.producers.state import CachedBatch, ProducerState
from storage.testing.checksums import crc32c
from storage.testing.faults import Cut, CutError, Effect, InterruptError
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.files import Files
    from storage.record import RecordBatch

    Batches = Callable[..., RecordBatch]

GOLDEN = bytes.fromhex(
    "000174bcb8fc0000000100000000000000090002000000040000000000000006000000040000018bcfe5680000000003ffffffffffffffff"
)
OF_GOLDEN = ProducerState(9, 2, 3, 1700000000000, None, (CachedBatch(4, 6, 4, 1700000000000),))
NEVER_MS = 2**62


def test_golden_bytes() -> None:
    assert decode_snapshot(GOLDEN) == [OF_GOLDEN]
    assert encode_snapshot([OF_GOLDEN]) == GOLDEN


def real_snapshots(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each snapshot that kafka-dump-log was run on, and what that printed."""
    for dump in sorted(root.rglob("*.snapshot.txt")):
        top = next(parent for parent in dump.parents if parent.name.endswith(".dump"))
        yield top.with_suffix("") / dump.relative_to(top).with_suffix(""), dump


def dumped(state: ProducerState) -> str:
    """What kafka-dump-log prints of an entry."""
    transaction = "OptionalLong.empty"
    if state.transaction_offset is not None:
        transaction = f"OptionalLong[{state.transaction_offset}]"
    text = (
        f"producerId: {state.producer_id} producerEpoch: {state.epoch} coordinatorEpoch: {state.coordinator_epoch} "
        f"currentTxnFirstOffset: {transaction} lastTimestamp: {state.last_timestamp} "
    )
    for batch in state.batches:
        text += (
            f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
    return text


@pytest.mark.golden
@pytest.mark.parametrize(
    "name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-recovery", "kafka-3.9-compaction"]
)
def test_real_snapshots(datasets: Callable[[str], Path], name: str) -> None:
    compared = 0
    for path, dump in real_snapshots(datasets(name)):
        data = path.read_bytes()
        states = decode_snapshot(data)
        assert [dumped(state) for state in states] == dump.read_text().splitlines()
        # 2.2 wrote the entries in the order of another hash table than 3.9, whose order is ours for ids this small.
        assert encode_snapshot(states)[10:] == b"".join(sorted(data[at : at + 46] for at in range(10, len(data), 46)))
        if name != "kafka-2.2":
            assert encode_snapshot(states) == data
        compared += 1
    assert compared > 1


@given(
    st.dictionaries(
        st.integers(0, 2**63 - 1),
        st.tuples(
            st.integers(-1, 2**15 - 1),
            st.integers(-1, 2**31 - 1),
            st.integers(-1, 2**63 - 1),
            st.none() | st.integers(0, 2**63 - 1),
            st.none() | st.tuples(st.integers(-1, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)),
        ),
        max_size=8,
    )
)
def test_what_is_encoded_is_decoded(
    drawn: dict[int, tuple[int, int, int, int | None, tuple[int, int, int] | None]],
) -> None:
    states = [
        ProducerState(
            producer_id, epoch, coordinator, timestamp, transaction, (CachedBatch(*batch, timestamp),) if batch else ()
        )
        for producer_id, (epoch, coordinator, timestamp, transaction, batch) in drawn.items()
    ]
    data = encode_snapshot(states)
    assert len(data) == 10 + 46 * len(states)
    assert decode_snapshot(data) == sorted(states, key=lambda state: state.producer_id)


def test_only_the_last_batch_is_kept() -> None:
    batches = tuple(CachedBatch(i, i, 0, i) for i in range(5))
    (state,) = decode_snapshot(encode_snapshot([ProducerState(1, 0, -1, 4, None, batches)]))
    assert state.batches == batches[-1:]


def sealed(body: bytes, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(56),
        GOLDEN[:9],
        GOLDEN[:-1],
        GOLDEN + b"\0",
        GOLDEN[:30] + b"\xff" + GOLDEN[31:],
        sealed(GOLDEN[6:], version=2),
        sealed(b"\0\0\0\2" + GOLDEN[10:]),
        sealed(b"\xff\xff\xff\xff" + GOLDEN[10:]),
        sealed(GOLDEN[6:] + b"\0"),
    ],
)
def test_damage(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(data)


# The files


def put(files: MemoryFiles, name: str, data: bytes = GOLDEN) -> None:
    with files.open_writing(f"/{name}", create=True) as file:
        file.write_at(0, [data])


def files_with(*offsets: int) -> MemoryFiles:
    files = MemoryFiles()
    for offset in offsets:
        put(files, f"{offset:020}.snapshot")
    return files


def offsets_on_disk(files: Files) -> list[int]:
    return sorted(int(name[:20]) for name in files.names("/") if name.endswith(".snapshot"))


def test_which_files_are_snapshots() -> None:
    files = files_with(5, 20)
    for name in ("5.snapshot", f"{9:020}.snapshot.deleted", f"{9:020}.snapshot.tmp", f"{9:020}.log", "x.snapshot"):
        put(files, name)
    snapshots = SnapshotFiles(files.directory("/"))
    assert (snapshots.offsets, snapshots.latest) == ([5, 20], 20)


@pytest.mark.parametrize(
    ("found", "bases", "kept"),
    [
        ([], [0], []),
        ([10, 20, 30], [0, 10, 20], [10, 20, 30]),
        ([10, 15, 20, 25, 30], [0, 10, 20], [10, 20, 30]),
        ([10, 15], [0, 10, 20], [10]),
        ([5, 15], [0, 10, 20], []),
        ([5, 40], [0, 10], [40]),
        ([5, 7], [], [7]),
    ],
)
def test_strays_go_except_what_a_clean_shutdown_wrote(found: list[int], bases: list[int], kept: list[int]) -> None:
    files = files_with(*found)
    snapshots = SnapshotFiles(files.directory("/"))
    snapshots.remove_strays(bases)
    assert snapshots.offsets == offsets_on_disk(files) == kept


def test_a_deleted_segments_snapshot_is_renamed() -> None:
    files = files_with(5, 20)
    snapshots = SnapshotFiles(files.directory("/"))
    assert snapshots.mark_deleted(6) is None
    deleted = snapshots.mark_deleted(5)
    assert deleted is not None
    assert files.read(f"/{deleted}") == GOLDEN
    assert deleted == f"{5:020}.snapshot.deleted"
    assert snapshots.offsets == offsets_on_disk(files) == [20]


def test_a_snapshot_cut_at_any_step_is_whole_or_absent() -> None:
    whole = MemoryFiles()
    SnapshotFiles(whole.directory("/")).write(9, [OF_GOLDEN], sync=True)
    for step in range(whole.steps):
        for effect in Effect:
            files = files_with(3)
            files.cut = Cut(files.steps + step, effect, step)
            with pytest.raises((CutError, OSError, MemoryError, InterruptError)):
                SnapshotFiles(files.directory("/")).write(9, [OF_GOLDEN], sync=True)
            for survivor in (files.after_process_death(), files.after_power_loss(step)):
                for offset in SnapshotFiles(survivor.directory("/")).offsets:
                    if offset == 9:
                        assert SnapshotFiles(survivor.directory("/")).read(offset) == [OF_GOLDEN]
    assert SnapshotFiles(whole.after_power_loss(0).directory("/")).read(9) == [OF_GOLDEN]


def test_a_snapshot_can_be_brought_to_disk_later() -> None:
    files = MemoryFiles()
    snapshots = SnapshotFiles(files.directory("/"))
    snapshots.write(9, [OF_GOLDEN], sync=False)
    snapshots.write(10, [OF_GOLDEN], sync=False)
    snapshots.remove(10)
    snapshots.sync()
    steps = files.steps
    snapshots.sync()
    assert files.steps == steps
    for seed in range(10):
        assert SnapshotFiles(files.after_power_loss(seed).directory("/")).read(9) == [OF_GOLDEN]


# Producers and their snapshots


def producers_in(files: Files, *, read_only: bool = False) -> ProducerStates:
    return ProducerStates(files.directory("/"), expiration_ms=NEVER_MS, read_only=read_only)


def test_a_snapshot_is_taken_where_there_is_none_as_new(data: Batches) -> None:
    files = MemoryFiles()
    producers = producers_in(files)
    assert producers.take_snapshot() is None
    producers.apply(data(offset=3))
    assert producers.take_snapshot() == 4
    assert producers.take_snapshot() is None
    producers.set_end_offset(10)
    assert producers.take_snapshot(sync=False) == 10
    assert offsets_on_disk(files) == producers.snapshots.offsets == [4, 10]
    assert decode_snapshot(files.read(f"/{10:020}.snapshot")) == producers.states()


def test_reloading_takes_the_newest_within_the_log(data: Batches) -> None:
    files = MemoryFiles()
    producers = producers_in(files)
    for offset in range(0, 50, 10):
        producers.apply(data(sequence=offset, offset=offset, transactional=True))
        producers.set_end_offset(offset + 10)
        producers.take_snapshot()
    other = producers_in(files)
    other.truncate_and_reload(10, 45, now_ms=0)
    assert other.snapshots.offsets == offsets_on_disk(files) == [20, 30, 40]
    assert other.end_offset == 40
    assert other.first_unstable_offset == 0
    (state,) = other.states()
    assert (state.last_sequence, state.transaction_offset) == (30, 0)
    assert other.take_snapshot() is None
    other.truncate_and_reload(10, 40, now_ms=0)
    assert other.states() == [state]
    other.truncate_and_reload(40, 60, now_ms=0)
    assert (other.states(), other.end_offset, other.first_unstable_offset) == ([], 40, None)
    assert offsets_on_disk(files) == []


def test_a_bad_snapshot_is_removed_and_the_next_older_tried(data: Batches) -> None:
    files = MemoryFiles()
    producers = producers_in(files)
    producers.apply(data(offset=3))
    producers.take_snapshot()
    put(files, f"{8:020}.snapshot", GOLDEN[:-1])
    put(files, f"{9:020}.snapshot", b"")
    files.make_directory("/elsewhere")
    other = producers_in(files)
    other.truncate_and_reload(0, 20, now_ms=0)
    assert other.states() == producers.states()
    assert other.end_offset == 4
    assert offsets_on_disk(files) == [4]


def test_a_snapshot_that_is_gone_is_passed_over(data: Batches) -> None:
    files = MemoryFiles()
    producers = producers_in(files)
    producers.apply(data(offset=3))
    producers.take_snapshot()
    put(files, f"{9:020}.snapshot")
    reader = producers_in(files, read_only=True)
    files.remove(f"/{9:020}.snapshot")
    reader.truncate_and_reload(0, 20, now_ms=0)
    assert reader.end_offset == 4


def test_reading_only_changes_no_file() -> None:
    files = files_with(5, 10, 20, 40)
    put(files, f"{20:020}.snapshot", b"bad")
    steps = files.steps
    producers = producers_in(files, read_only=True)
    producers.truncate_and_reload(5, 30, now_ms=0)
    assert producers.states() == [OF_GOLDEN]
    assert producers.end_offset == 10
    assert files.steps == steps


def test_expired_producers_are_not_loaded() -> None:
    files = files_with(10)
    producers = ProducerStates(files.directory("/"), expiration_ms=1000)
    producers.truncate_and_reload(0, 20, now_ms=1700000000999)
    assert producers.states() == [OF_GOLDEN]
    producers.truncate_and_reload(0, 20, now_ms=1700000001000)
    assert producers.states() == []
    assert producers.end_offset == 10


def test_starting_anew_removes_every_snapshot(data: Batches) -> None:
    files = MemoryFiles()
    producers = producers_in(files)
    producers.apply(data(offset=3, transactional=True))
    producers.take_snapshot()
    producers.reset_to(100)
    assert offsets_on_disk(files) == []
    assert (producers.states(), producers.end_offset, producers.first_unstable_offset) == ([], 100, None)
    assert producers.take_snapshot() == 100
