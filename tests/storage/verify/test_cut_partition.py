"""A partition verified in pieces, compared with the whole of it."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING

import pytest
from checked_logs import append, closed_log, filled_log, replace
from memory_logs import DIRECTORY

from storage.verify.context import PartitionExpectation
from storage.verify.finding import KEPT_MAX
from storage.verify.partition import CutPartition, verify_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from memory_logs import LogOnMemory

    from storage.verify.partition import PartitionResult


def whole(expected: PartitionExpectation) -> PartitionResult:
    return verify_partition(expected, advance=lambda _: None)


def in_pieces(expected: PartitionExpectation, *, meanwhile: Callable[[], object] = lambda: None) -> PartitionResult:
    """Return the result, with everything pickled that would be sent to another process."""
    cut = CutPartition.of(expected)
    assert cut is not None
    results = [pickle.loads(pickle.dumps(piece.verify())) for piece in reversed(cut.pieces)]
    meanwhile()
    return pickle.loads(pickle.dumps(cut)).result(results[::-1])


def check_same(expected: PartitionExpectation) -> PartitionResult:
    found, due = in_pieces(expected), whole(expected)
    assert set(found.findings) == set(due.findings)
    assert len(found.findings) == len(due.findings)
    assert (found.topic_id, found.segments, found.batches, found.size_bytes) == (
        due.topic_id,
        due.segments,
        due.batches,
        due.size_bytes,
    )
    return due


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_sound_log(*, is_clean: bool) -> None:
    log = closed_log() if is_clean else filled_log()
    result = check_same(PartitionExpectation(directory=log.files.directory(DIRECTORY), is_clean=is_clean))
    assert result.segments > 3
    assert not result.has_damage


@pytest.mark.parametrize("seed", range(60))
def test_damage_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    log = closed_log()
    for _ in range(rng.randrange(1, 4)):
        contents = {name: data for name, data in log.contents().items() if data}
        name = rng.choice(sorted(contents))
        data = bytearray(contents[name])
        match rng.randrange(4):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                at = rng.randrange(len(data))
                data[at : at + 100] = bytes(len(data[at : at + 100]))
            case _:
                data += rng.randbytes(50)
        replace(log, name, bytes(data))
    reached = {"replication-offset-checkpoint": rng.randrange(400)}
    check_same(
        PartitionExpectation(directory=log.files.directory(DIRECTORY), is_clean=rng.random() < 0.5, reached=reached),
    )


def test_more_findings_of_a_kind_than_are_kept() -> None:
    log = filled_log({"segment.bytes": "100000", "index.interval.bytes": "0"})
    rng = random.Random(1)
    for number in range(100, 100 + 2 * KEPT_MAX):
        append(log, number, rng)
    log.log.roll()
    append(log, 1, rng)
    log.log.close()
    name = max((name for name in log.contents() if name.endswith(".index")), key=lambda each: len(log.contents()[each]))
    data = bytearray(log.contents()[name])
    for at in range(7, len(data), 8):
        data[at] ^= 1
    replace(log, name, bytes(data))
    result = check_same(PartitionExpectation(directory=log.files.directory(DIRECTORY), is_clean=True))
    assert any("more like this" in finding.reason for finding in result.findings)


def test_a_log_that_grows_meanwhile() -> None:
    log = filled_log()
    expected = PartitionExpectation(directory=log.files.directory(DIRECTORY))
    found = in_pieces(expected, meanwhile=lambda: append(log, 1, random.Random(1)))
    assert list(found.findings) == list(whole(expected).findings)


def test_a_segment_that_is_cut_and_one_that_goes_meanwhile() -> None:
    for change in (b"", None):
        log = closed_log()
        expected = PartitionExpectation(directory=log.files.directory(DIRECTORY), is_clean=True, is_compacted=True)
        name = min(name for name in log.contents() if name.endswith(".log"))

        def meanwhile(log: LogOnMemory = log, name: str = name, change: bytes | None = change) -> None:
            if change is None:
                log.files.remove(f"{DIRECTORY}/{name}")
            else:
                replace(log, name, change)

        found = in_pieces(expected, meanwhile=meanwhile)
        assert list(found.findings) == list(whole(expected).findings)


def test_what_cannot_be_listed_is_not_cut() -> None:
    files = closed_log().files
    assert CutPartition.of(PartitionExpectation(directory=files.directory("/elsewhere-0"))) is None
