"""Replicas that parted within a leader epoch, or have none, are told apart by their batches."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from replica_directories import TIME_MS, ReplicaDirectory, Written

from storage.record import read_batches, retaining
from storage.replicas import comparison, compose, scan_replica
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.replicas import Composition

EPOCH = 3
A_BATCH = (TIME_MS,) * 3
SHARED = Written(EPOCH)


def own(history: bytes, *, records: int = 1) -> Written:
    """Return a batch of one history; all are of one epoch."""
    return Written(EPOCH, (TIME_MS,) * records, history)


def replicas(*batches: list[Written], a_segment: int = 2) -> list[ReplicaDirectory]:
    files = MemoryFiles()
    return [ReplicaDirectory(files, f"/{number}", each, a_segment) for number, each in enumerate(batches)]


def composed(*given: ReplicaDirectory) -> Composition:
    return compose([scan_replica(each.directory) for each in given])


def lost(composition: Composition) -> list[tuple[int, int]]:
    return [tuple(each.offsets) for each in composition.divergences]


def overwrite(replica: ReplicaDirectory, number: int, at: int, data: bytes) -> None:
    name, position, _ = replica.places[number]
    with replica.files.open_writing(f"{replica.path}/{name}") as file:
        file.write_at(position + at, [data])


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([own(b"x")], [own(b"y")], [(5, 6)]),
        ([own(b"x")] * 4, [own(b"y")] * 2, [(5, 7)]),
        ([own(b"x", records=6)], [own(b"y")] * 4, [(5, 9)]),
        ([own(b"x")] * 6, [own(b"y", records=5)], [(5, 10)]),
        ([own(b"x")] * 6, [], []),
        ([own(b"x")] * 6, [own(b"x")] * 5, []),
    ],
)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_offsets_of_a_replica_with_a_history_of_its_own_are_lost(
    ours: list[Written], theirs: list[Written], expected: list[tuple[int, int]], magic: int
) -> None:
    one, other = replicas(
        *([each._replace(magic=magic) for each in batches] for batches in ([SHARED] * 5 + ours, [SHARED] * 5 + theirs))
    )
    for given in ((one, other), (other, one)):
        composition = composed(*given)
        if one.end_offset > other.end_offset:
            assert composition.chosen.directory == one.directory
        assert lost(composition) == expected
        assert composition.lost == sum(end - begin for begin, end in expected)


def test_three_histories_are_all_named_and_each_offset_is_counted_once() -> None:
    given = replicas(*([SHARED] * 3 + [own(history)] * count for history, count in ((b"x", 5), (b"y", 2), (b"z", 4))))
    composition = composed(*given)
    assert sorted(lost(composition)) == [(3, 5), (3, 7)]
    assert composition.lost == 4


def test_any_parting_in_a_long_log_is_found_exactly() -> None:
    rng = random.Random(18)
    for _ in range(12):
        length = rng.randint(300, 1500)
        batches = [Written(EPOCH, (TIME_MS,) * rng.randint(1, 3)) for _ in range(length)]
        begin = rng.randrange(length)
        end = rng.choice([length, rng.randint(begin + 1, length)])
        changed = [
            each._replace(history=b"x") if begin <= number < end else each for number, each in enumerate(batches)
        ]
        one, other = replicas(batches, changed, a_segment=rng.randint(20, 400))
        offsets = [*one.offsets, one.end_offset]
        assert lost(composed(one, other)) == [(offsets[begin], offsets[end])]


def test_what_is_kept_of_a_log_stays_small() -> None:
    (replica,) = replicas([SHARED] * 3000, a_segment=1000)
    digests = scan_replica(replica.directory).digests
    assert 100 < len(digests.stretches) <= 256


def test_replicas_of_the_same_batches_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = replicas([SHARED] * 600, [SHARED] * 600, a_segment=200)
    monkeypatch.setattr(comparison, "_batches", lambda *_: pytest.fail("a replica is read again"))
    assert lost(composed(one, other)) == []


def test_what_a_cleaner_removed_is_no_other_history() -> None:
    one, other = replicas([Written(EPOCH, A_BATCH)] * 4, [Written(EPOCH, A_BATCH)] * 4, a_segment=4)
    name, *_ = other.places[0]
    with other.files.open_writing(f"{other.path}/{name}") as file:
        data = bytes(file.read_at(0, file.size_bytes()))
        batches = list(read_batches(data))
        cleaned = b"".join(retaining(batch, list(batch.records())[1:]) for batch in batches[:3])
        rest = data[batches[3].position :]
        file.truncate(0)
        file.write_at(0, [cleaned + rest])
    composition = composed(other, one)
    assert lost(composition) == []
    assert composition.chosen.directory == one.directory, "it has everything"


def test_cleaned_batches_with_other_records_are_another_history() -> None:
    one, other = replicas([SHARED, own(b"x", records=3), SHARED], [SHARED, own(b"y", records=3), SHARED], a_segment=3)
    for replica in (one, other):
        name, position, size_bytes = replica.places[1]
        with replica.files.open_writing(f"{replica.path}/{name}") as file:
            (batch,) = read_batches(bytes(file.read_at(position, size_bytes)))
            after = bytes(file.read_at(position + size_bytes, file.size_bytes()))
            file.truncate(position)
            file.write_at(position, [retaining(batch, list(batch.records())[1:]) + after])
    assert lost(composed(one, other)) == [(1, 4)]


def broken_and_other(history: bytes = b"x") -> list[ReplicaDirectory]:
    """Return a replica to break at batch 3, and a shorter one that may have parted there."""
    return replicas(
        [SHARED] * 3 + [own(b"x", records=4), own(b"x")], [SHARED] * 3 + [own(history, records=3)], a_segment=5
    )


def test_no_batch_with_another_checksum_fills_damage() -> None:
    damaged, other = broken_and_other(b"y")
    damaged.damage(3)
    composition = composed(damaged, other)
    assert composition.chosen.directory == damaged.directory
    assert composition.filled == ()
    assert [gap.offsets for gap in composition.gaps] == [(3, 7)]
    assert lost(composition) == [(3, 6)]


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (20, b"\xff"),  # of the checksum
        (26, b"\x09"),  # of the last offset's delta
        (60, b"\x09"),  # of the count
        (11, b"\x70"),  # of the length
        (70, b"\xff"),  # of a record
        (17, b"\0" * 44),  # all of the header from its checksum on
        (0, b"\xee" * 61),
    ],
)
def test_damage_in_any_field_is_filled_from_the_same_history(at: int, data: bytes) -> None:
    one, other = replicas([SHARED] * 3 + [own(b"x", records=4)] * 3, [SHARED] * 3 + [own(b"x", records=4)] * 2)
    overwrite(one, 3, at, data)
    composition = composed(one, other)
    assert [tuple(filled.offsets) for filled in composition.filled] == [(3, 7)]
    assert lost(composition) == []


def test_the_checksum_of_a_broken_batch_counts_more_than_what_follows() -> None:
    one, other = replicas([SHARED] * 4 + [own(b"x")] * 2, [SHARED] * 4 + [own(b"y")])
    one.damage(3)
    composition = composed(one, other)
    assert [tuple(filled.offsets) for filled in composition.filled] == [(3, 4)]
    assert lost(composition) == [(4, 5)]


@pytest.mark.parametrize(("number", "begin"), [(4, 4), (5, 4)])
def test_damage_that_does_not_tell_is_not_filled_beside_another_history(number: int, begin: int) -> None:
    one, other = replicas([SHARED] * 4 + [own(b"x")] * 4, [SHARED] * 4 + [own(b"y")] * 3, a_segment=8)
    overwrite(one, number, 0, b"\xee" * 61)
    composition = composed(one, other)
    assert composition.filled == ()
    assert [gap.offsets for gap in composition.gaps] == [(number, number + 1)]
    assert lost(composition) == [(begin, 7)]


def test_a_lost_segment_is_not_filled_from_another_history() -> None:
    one, other, third = replicas(
        [SHARED] * 4 + [own(b"x")] * 5, [SHARED] * 4 + [own(b"y")] * 4, [SHARED] * 4 + [own(b"x")] * 3
    )
    one.lose_segment(4)
    composition = composed(one, other, third)
    ((offsets, filler),) = composition.filled
    assert (offsets, filler.directory) == ((4, 6), third.directory)
    assert lost(composition) == [(4, 8)]
