"""One log of several replicas: the one that an unclean election would best choose, and what fills its damage."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from memory_logs import StandingClock
from replica_directories import TIME_MS, ReplicaDirectory, Written

from storage.config import TopicConfig
from storage.replicas import compose, scan_replica, write_log
from storage.segment.scan import LogScan
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.replicas import Composition

TOPIC_ID = UUID(int=1 << 100)
ONE = Written(1)
TWO = Written(2)


def composed(*replicas: ReplicaDirectory, until_ms: int | None = None) -> Composition:
    return compose([scan_replica(each.directory, until_ms=until_ms) for each in replicas])


def values(composition: Composition, files: MemoryFiles, path: str = "/copy") -> list[bytes]:
    """Return the values of the composed log, once it is written and recovered."""
    files.make_directory(path)
    directory = files.directory(path)
    write_log(composition, directory, TopicConfig.resolve({}), TOPIC_ID, StandingClock())
    found = []
    for name in sorted(name for name in directory.names() if name.endswith(".log")):
        with directory.open_reading(name) as file:
            found += [record.value for batch in LogScan(file) for record in batch.records()]
    return found


def numbered(offsets: Sequence[int] | range) -> list[bytes]:
    return [b"%d" % offset for offset in offsets]


def two(first: list[Written], second: list[Written]) -> tuple[MemoryFiles, ReplicaDirectory, ReplicaDirectory]:
    files = MemoryFiles()
    return files, ReplicaDirectory(files, "/a", first), ReplicaDirectory(files, "/b", second)


def test_the_longest_of_those_with_the_highest_epoch_is_chosen() -> None:
    files, short, long = two([ONE] * 5, [ONE] * 9)
    composition = composed(short, long)
    assert composition.chosen.directory == long.directory
    assert composition.divergences == ()
    assert values(composition, files) == numbered(range(9))


def test_a_higher_epoch_comes_before_a_longer_log_which_is_told() -> None:
    _, led, longer = two([ONE] * 3 + [TWO] * 2, [ONE] * 9)
    composition = composed(longer, led)
    assert composition.chosen.directory == led.directory
    ((lost, other),) = composition.divergences
    assert (lost, other.directory) == ((3, 9), longer.directory)


def test_damage_is_filled_from_a_replica_with_the_same_history() -> None:
    files, damaged, other = two([ONE] * 9, [ONE] * 6)
    damaged.damage(3)
    damaged.damage(7)
    composition = composed(damaged, other)
    assert [filled.offsets for filled in composition.filled] == [(3, 4)]
    assert [gap.offsets for gap in composition.gaps] == [(7, 8)]
    assert values(composition, files) == numbered([*range(7), 8])


def test_no_other_history_fills_damage() -> None:
    _, damaged, other = two([ONE] * 4 + [TWO] * 5, [ONE] * 9)
    damaged.damage(2)
    damaged.damage(6)
    composition = composed(damaged, other)
    assert [filled.offsets for filled in composition.filled] == [(2, 3)]
    assert [gap.offsets for gap in composition.gaps] == [(6, 7)]


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_a_segment_that_is_gone_comes_from_another_replica(lost: int) -> None:
    files, holed, other = two([ONE] * 9, [ONE] * 8)
    if lost:
        holed.lose_segment(lost)
        composition = composed(holed, other)
        assert values(composition, files) == numbered(range(9))
    else:
        holed.lose_segment(lost)
        composition = composed(holed, other)
        assert composition.start_offset == 2, "a log may begin anywhere: nothing says that this was lost"


def test_the_other_history_ends_where_the_batches_of_the_chosen_one_do_not_say() -> None:
    """The first batch of an epoch is damaged, and the checkpoint alone says where the epoch began."""
    files, damaged, other = two([ONE] * 4 + [TWO] * 4, [ONE] * 6)
    damaged.damage(4)
    files.directory("/a").replace("leader-epoch-checkpoint", b"0\n2\n1 0\n2 4\n")
    composition = composed(damaged, other)
    assert composition.filled == ()
    assert [gap.offsets for gap in composition.gaps] == [(4, 5)]


def test_any_damage_of_two_replicas_leaves_what_one_of_them_has() -> None:
    rng = random.Random(11)
    for _ in range(60):
        length = rng.randint(1, 12)
        files, one, other = two([ONE] * length, [ONE] * rng.randint(0, length))
        broken = {
            each.path: {number for number in range(len(each.batches)) if rng.random() < 0.2} for each in (one, other)
        }
        for each in (one, other):
            for number in broken[each.path]:
                each.damage(number)
        sound = {
            offset
            for each in (one, other)
            for number, offset in enumerate(each.offsets)
            if number not in broken[each.path]
        }
        composition = composed(one, other)
        assert values(composition, files) == numbered(sorted(sound))


def test_until_cuts_before_the_first_later_record() -> None:
    rng = random.Random(12)
    for _ in range(80):
        batches = [
            Written(1, tuple(TIME_MS + rng.randint(0, 40) for _ in range(rng.randint(1, 3))))
            for _ in range(rng.randint(1, 9))
        ]
        until_ms = TIME_MS + rng.randint(0, 45)
        files = MemoryFiles()
        replica = ReplicaDirectory(files, "/a", batches)
        kept = 0
        for number, batch in enumerate(batches):
            if any(time_ms >= until_ms for time_ms in batch.timestamps):
                break
            kept = number + 1
        end_offset = replica.offsets[kept] if kept < len(batches) else replica.end_offset
        composition = composed(replica, until_ms=until_ms)
        assert composition.end_offset == end_offset
        assert values(composition, files) == numbered(range(end_offset))


def test_until_cuts_at_a_late_record_that_only_the_other_replica_still_has() -> None:
    late = Written(1, (TIME_MS + 100,))
    files, damaged, other = two([ONE, ONE, late, ONE, ONE, ONE], [ONE, ONE, late, ONE])
    damaged.damage(2)
    composition = composed(damaged, other, until_ms=TIME_MS + 50)
    assert values(composition, files) == numbered(range(2))
