"""Holes of a terabyte in a log and its indexes: they read as zeros, and no reader waits for them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from hostile import CASES
from hostile.store import RECORDS, TERABYTE, sound_store

from storage.clock import Clock
from storage.errors import FramingError
from storage.files import Files, OverlayDirectory, ReadableFile
from storage.record.reading import read_batches
from storage.segment.index.zero_tail import is_zero, used_slots
from storage.segment.scan import GappedScan, LogScan
from storage.segment.sound_batch_search import find_sound_batch
from storage.segment.splitting import _copy
from storage.store.store import Mode, Store
from storage.store.store_recovery import plan_recovery, recover_store
from storage.verify import Verification

if TYPE_CHECKING:
    from pathlib import Path

    from hostile import HostileStore

READ_BYTES_MAX = 64 * 1024 * 1024


@pytest.fixture(autouse=True)
def _little_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test read more than a small part of a hole."""
    read = 0
    read_at = ReadableFile.read_at

    def counted(file: ReadableFile, position: int, size_bytes: int) -> bytes:
        nonlocal read
        data = read_at(file, position, size_bytes)
        read += len(data)
        assert read <= READ_BYTES_MAX, "a hole is read"
        return data

    monkeypatch.setattr(ReadableFile, "read_at", counted)


def sparse(path: Path, *pieces: tuple[int, bytes], size_bytes: int = TERABYTE) -> ReadableFile:
    with path.open("wb") as file:
        for position, data in pieces:
            file.seek(position)
            file.write(data)
        file.truncate(size_bytes)
    return Files().open_reading(path)


def test_a_hole_is_zero_without_being_read(tmp_path: Path) -> None:
    with sparse(tmp_path / "file", (0, b"x")) as file:
        assert is_zero(file, 1, TERABYTE)
        assert is_zero(file, TERABYTE - 1, TERABYTE + 1)
        assert not is_zero(file, 0, TERABYTE)
        assert (file.data_from(2**30), file.hole_from(2**30)) == (TERABYTE, 2**30)
    for position in (TERABYTE - 1, 2**39 + 7, 300_000):
        with sparse(tmp_path / "file", (0, b"x"), (position, b"y")) as file:
            assert not is_zero(file, 1, TERABYTE)
            assert is_zero(file, 1, position)


def test_the_slots_of_an_index_end_before_its_holes(tmp_path: Path) -> None:
    slots = TERABYTE // 8
    for pieces, used in (
        ([], 0),
        ([(0, b"x")], 1),
        ([(4096, b"x" * 8)], 513),
        ([(2**39, b"x"), (5, b"x")], 2**36 + 1),
        ([(TERABYTE - 1, b"x")], slots),
        ([(1 << shift, b"x") for shift in range(3, 40)], 2**36 + 1),
    ):
        with sparse(tmp_path / "file", *pieces) as file:
            assert used_slots(file, slots, 8) == used


def test_a_sound_batch_is_found_between_holes(tmp_path: Path) -> None:
    store = sound_store(tmp_path)
    data = store.log.read_bytes()
    batch = next(read_batches(data))
    whole = data[: batch.size_bytes]
    for position in (2**30, 2**39 + 4095, 2**39 - 3, TERABYTE - len(whole)):
        with sparse(tmp_path / "file", (0, b"damage"), (position, whole)) as file:
            assert find_sound_batch(file, 1, TERABYTE, base_offset=0, next_offset=0) == position
    # All but the last bytes of its header lie in a hole, and are zeros.
    assert whole[:8] == bytes(8)
    with sparse(tmp_path / "file", (0, b"damage"), (2**30 + 8, whole[8:])) as file:
        assert find_sound_batch(file, 1, TERABYTE, base_offset=0, next_offset=0) == 2**30
    with sparse(tmp_path / "file", (0, b"damage"), (TERABYTE - 1, b"x")) as file:
        assert find_sound_batch(file, 1, TERABYTE, base_offset=0, next_offset=0) is None


def test_no_place_that_claims_a_huge_batch_is_tried(tmp_path: Path) -> None:
    """What lies in a hole counts as read only if it was."""
    header = bytes(8) + (2**31 - 13).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(60)
    with sparse(tmp_path / "file", *((position << 32, header) for position in range(1, 100))) as file:
        assert find_sound_batch(file, 1, TERABYTE, base_offset=0, next_offset=0) is None


def test_a_scan_ends_in_front_of_a_hole(tmp_path: Path) -> None:
    store = CASES["a terabyte of zeros before a byte"].make(tmp_path)
    with Files().open_reading(store.log) as file:
        scan = GappedScan(LogScan(file), 0)
        with pytest.raises(Exception, match="length") as caught:
            list(scan)
        gap = scan.gap_of(caught.value)  # type: ignore[arg-type]
        assert (gap.is_unused, gap.end) == (False, None)


def test_a_hole_is_copied_as_a_hole(tmp_path: Path) -> None:
    with (
        sparse(tmp_path / "file", (0, b"x" * 10), (2**39, b"y")) as file,
        Files().open_writing(tmp_path / "copy", create=True) as copy,
    ):
        _copy(file, 5, TERABYTE, copy)
        assert copy.size_bytes() == TERABYTE - 5
        assert copy.read_at(0, 6) == b"x" * 5 + b"\0"
        assert copy.read_at(2**39 - 5, 1) == b"y"
    status = Files().status(tmp_path / "copy")
    assert status is not None
    assert status.disk_blocks < 1000


def test_a_plan_sees_the_holes_of_the_files_below(tmp_path: Path) -> None:
    sparse(tmp_path / "file", (2**30, b"x")).close()
    overlay = OverlayDirectory(Files().directory(tmp_path))
    with overlay.open_writing("file") as file:
        assert file.data_from(0) == 2**30
        assert file.data_from(2**31) == TERABYTE
        file.write_at(5000, [b"y"])
        assert file.data_from(0) <= 5000
        assert file.data_from(10**6) == 2**30
        file.truncate(2**20)
        assert file.data_from(10**6) == 2**20


NAMES = (
    "a terabyte as 00000000000000000000.log of a partition",
    "a terabyte as 00000000000000000000.index of a partition",
    "a terabyte as 00000000000000000000.timeindex of a partition",
    "a terabyte as 00000000000000000000.txnindex of a partition",
    "a terabyte as 00000000000000000000.snapshot of a partition",
    "a terabyte as leader-epoch-checkpoint of a partition",
    "a terabyte as recovery-point-offset-checkpoint",
    "a terabyte of zeros before a byte",
    "a terabyte of zeros without an index",
)


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HostileStore:
    made: HostileStore = CASES[request.param].make(tmp_path)
    return made


def has_damage(store: HostileStore) -> bool:
    """True if there is a byte after the hole."""
    with store.log.open("rb") as file:
        file.seek(-1, 2)
        return store.log.stat().st_size == TERABYTE and file.read() == b"x"


def test_a_store_with_holes_is_read(store: HostileStore) -> None:
    with Store.open([store.path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        view = opened.log("victim", 0).view
        assert view.end_offset == RECORDS
        found = []
        with pytest.raises(FramingError) if has_damage(store) else nullcontext():
            for batch in view.batches(0):
                found += [record.offset for record in batch.records()]
        assert found == list(range(RECORDS))


def test_a_store_with_holes_is_verified(store: HostileStore) -> None:
    list(Verification(Files(), [store.path]).run(lambda: None))


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_store_with_holes_is_recovered_and_written(store: HostileStore, is_clean: bool) -> None:
    if not is_clean:
        (store.path / ".kafka_cleanshutdown").unlink()
    for recover in (plan_recovery, recover_store):
        told: list[Any] = []
        recover([store.path], files=Files(), clock=Clock(), announce=lambda *_: None, tell=told.append)
    with Store.open([store.path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        assert opened.log("victim", 0).view.end_offset == RECORDS
    assert store.log.stat().st_size < 2**20
