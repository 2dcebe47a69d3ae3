"""Logs that were salvaged: what they lack by the account beside them is damage, which another replica fills."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from replica_directories import ReplicaDirectory, Written

from storage.errors import CorruptMetadataError
from storage.replicas import ACCOUNT_SUFFIX, LostOffsets, compose, read_account, scan_replica
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.replicas import Replica


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    for broker in "abcw":
        files.make_directory(f"/{broker}")
    return files


def salvaged(files: MemoryFiles, lost: set[int], *accounted: LostOffsets, path: str = "/a/t-0") -> Replica:
    """Return a log of eight batches, two a segment, without some of them; each segment keeps its name."""
    whole = ReplicaDirectory(files, f"{path}.whole", [Written(0)] * 8)
    files.make_directory(path)
    for number, (name, position, size_bytes) in enumerate(whole.places):
        if number not in lost:
            with files.open_writing(f"{path}/{name}", create=True) as file:
                file.write_at(file.size_bytes(), [whole.directory.open_reading(name).read_at(position, size_bytes)])
    return scan_replica(files.directory(path), lost=accounted)


@pytest.mark.parametrize(
    ("begin", "end", "reason"),
    [
        (0, 1, "offset 0"),
        (2, 3, "offset 2"),
        (3, 4, "offset 3"),
        (3, 5, "offset 3"),  # across the end of a segment
        (2, 6, "offsets 2 to 5"),
    ],
)
def test_a_hole_of_the_account_is_damage(files: MemoryFiles, begin: int, end: int, reason: str) -> None:
    replica = salvaged(files, set(range(begin, end)), LostOffsets(begin, end))
    assert not replica.lacks_offsets
    assert replica.damages[0].reason == f"the log was salvaged without {reason}"
    composition = compose([replica])
    assert [tuple(gap.offsets) for gap in composition.gaps] == [(begin, end)]
    other = scan_replica(ReplicaDirectory(files, "/b/t-0", [Written(0)] * 7).directory)
    filled = compose([replica, other])
    assert [tuple(each.offsets) for each in filled.filled] == [(begin, end)]
    assert (filled.gaps, filled.end_offset) == ((), 8)


def test_a_hole_that_the_account_does_not_have_is_compaction(files: MemoryFiles) -> None:
    whole = ReplicaDirectory(files, "/w/t-0", [Written(0)] * 8, a_segment=8)
    files.make_directory("/c/t-0")
    with files.open_writing("/c/t-0/00000000000000000000.log", create=True) as file:
        for number in (0, 2, 3, 5, 6, 7):
            name, position, size_bytes = whole.places[number]
            file.write_at(file.size_bytes(), [whole.directory.open_reading(name).read_at(position, size_bytes)])
    replica = scan_replica(files.directory("/c/t-0"), lost=[LostOffsets(1, 2)])
    assert replica.lacks_offsets
    assert [tuple(gap.offsets) for gap in compose([replica]).gaps] == [(1, 2)]


@pytest.mark.parametrize(("end", "what"), [(9, "offset 8"), (None, "what followed")])
def test_what_was_lost_at_the_end(files: MemoryFiles, end: int | None, what: str) -> None:
    replica = salvaged(files, set(), LostOffsets(8, end))
    (gap,) = compose([replica]).gaps
    assert (tuple(gap.offsets), gap.reason) == ((8, 8), f"the log was salvaged without {what}")


def account(files: MemoryFiles, **said: Any) -> None:
    files.directory("/a").replace(f"t-0{ACCOUNT_SUFFIX}", json.dumps(said).encode())


def test_the_account(files: MemoryFiles) -> None:
    account(files, lost=[{"offset": 3, "endOffset": 5}, {"offset": 9, "endOffset": None}], damage=[])
    found = read_account(files.directory("/a"), "t-0")
    assert found is not None
    assert found == ((LostOffsets(3, 5), LostOffsets(9, None)), False)
    assert read_account(files.directory("/a"), "t-1") is None


def test_a_torn_batch_at_the_end_is_no_loss(files: MemoryFiles) -> None:
    account(files, lost=[{"offset": 9, "endOffset": None}], damage=[{"kind": "torn_tail"}], isCompacted=True)
    assert read_account(files.directory("/a"), "t-0") == ((), True)


@pytest.mark.parametrize("said", [{}, {"lost": 1}, {"lost": [{}], "damage": []}, {"lost": [], "damage": [1]}])
def test_what_is_no_account(files: MemoryFiles, said: dict[str, Any]) -> None:
    account(files, **said)
    with pytest.raises(CorruptMetadataError, match="no account"):
        read_account(files.directory("/a"), "t-0")
