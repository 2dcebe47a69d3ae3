"""Copies compared in parts, by several threads, give what they give when they are compared from start to end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from kafkafs.find import equal_parts
from kafkafs.find.comparison import Comparison, compare
from storage.clock import Clock
from storage.files import Files
from storage.log import FollowedLog
from storage.record import BatchForm, batches_of_rows
from storage.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

TIME_MS = 1_700_000_000_000
BATCHES = 90
PART_BYTES = 2000


def write(path: Path, segment_bytes: int, *, without: int | None = None) -> None:
    """Write a log of batches of many sizes, with entries in its indexes every few of them."""
    settings = {"segment.bytes": str(segment_bytes), "segment.index.bytes": "1200", "index.interval.bytes": "300"}
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1, settings)
        log = store.log_to_write("orders", 0)
        for number in range(BATCHES):
            value = b"v" * (number * 37 % 400)
            (batch,) = batches_of_rows([(TIME_MS, b"k", value, ())] * 2, base_offset=None, form=BatchForm())
            if number != without:
                log.append_as_leader(batch, leader_epoch=0)


def read(path: Path) -> Store:
    return Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock())


def compared(one: Path, other: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> Comparison:
    monkeypatch.setattr(equal_parts, "_PART_BYTES", part_bytes)
    passed: list[int] = []
    with read(one) as first, read(other) as second:
        mine, others = first.log("orders", 0), second.log("orders", 0)
        assert isinstance(mine, FollowedLog)
        assert isinstance(others, FollowedLog)
        found = compare(mine, others, passed.append)
    assert sum(passed) == found.equal_bytes
    return found


def check(one: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Assert that parts change nothing, whichever copy comes first; return the result."""
    for pair in ((one, other), (other, one)):
        whole = compared(*pair, monkeypatch, 2**40)
        for part_bytes in (PART_BYTES, 300):
            assert dataclasses.asdict(compared(*pair, monkeypatch, part_bytes)) == dataclasses.asdict(whole)
    return whole


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two stores with the same batches in segments that are cut differently."""
    place = tmp_path_factory.mktemp("copies")
    write(place / "one", 7000)
    write(place / "other", 4000)
    return place / "one", place / "other"


def test_equal_copies_are_compared_in_parts(stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = stores
    found = check(one, other, monkeypatch)
    size_bytes = sum(log.stat().st_size for log in (one / "orders-0").glob("*.log"))
    assert (found.is_same, found.equal_bytes) == (True, size_bytes)
    monkeypatch.setattr(equal_parts, "_PART_BYTES", PART_BYTES)
    with read(one) as first, read(other) as second:
        parts = [*equal_parts.equal_parts(first.log("orders", 0).view, second.log("orders", 0).view, 0)]
    assert len(parts) > 4
    assert parts == sorted(set(parts))
    assert all(PART_BYTES / 4 < part.size_bytes < PART_BYTES * 4 for part in parts)


def test_the_first_difference_is_the_same_wherever_it_is(
    stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte of each batch is changed; its log then differs or is damaged from there on."""
    one, other = stores
    offsets = []
    for log in sorted((other / "orders-0").glob("*.log")):
        data = log.read_bytes()
        for at in range(0, len(data), 997):
            log.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            offsets.append(check(one, other, monkeypatch).offset)
        log.write_bytes(data)
    assert None not in offsets
    assert len(set(offsets)) > BATCHES / 4


@pytest.mark.parametrize("without", [0, 1, BATCHES // 2, BATCHES - 1])
def test_a_batch_that_one_copy_lacks(
    without: int, stores: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "short", 7000, without=without)
    found = check(stores[0], tmp_path / "short", monkeypatch)
    assert found.offset == min(2 * without, 2 * BATCHES - 2)


def test_a_part_that_cannot_be_read_is_left_to_the_caller(
    stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = stores
    monkeypatch.setattr(equal_parts, "_PART_BYTES", PART_BYTES)
    with read(one) as first, read(other) as second:
        mine, others = first.log("orders", 0).view, second.log("orders", 0).view
        names = sorted((other / "orders-0").glob("*.log"))
        data = names[1].read_bytes()
        names[1].write_bytes(data[: len(data) // 2])
        found = [*equal_parts.equal_parts(mine, others, 0)]
        names[1].write_bytes(data)
    assert 0 < sum(part.size_bytes for part in found) < names[0].stat().st_size + len(data) // 2
