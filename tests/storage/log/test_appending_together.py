"""Batches that are appended together are there together or not at all."""

from __future__ import annotations

import pytest
from memory_logs import DIRECTORY, SETTINGS, LogOnMemory, sent

from storage.errors import DiskFullError, InvalidRecordError, OutOfOrderSequenceError, StorageError
from storage.log.flushing import Durability
from storage.record.encoding import BatchForm
from storage.testing.faults import Cut, Effect

VALUES = [b"%d" % number * 300 for number in range(12)]


def batches(values: list[bytes] = VALUES) -> list[bytes]:
    return [sent(value) for value in values]


def test_they_get_offsets_in_their_order_and_roll_segments_on_the_way() -> None:
    lab = LogOnMemory(SETTINGS)
    lab.log.append_as_leader(sent(b"before"), leader_epoch=2)
    appended = lab.log.append_all_as_leader(batches(), leader_epoch=2)
    assert [(each.first_offset, each.last_offset) for each in appended] == [(n, n) for n in range(1, 13)]
    assert lab.values() == [b"before", *VALUES]
    assert len(lab.log.view.segments) > 1
    assert lab.log.append_all_as_leader([], leader_epoch=2) == []


def test_readers_see_none_until_they_see_all() -> None:
    lab = LogOnMemory(SETTINGS)
    seen = set()
    step = lab.files.step

    def stepping(*arguments: object) -> None:
        seen.add(lab.log.view.end_offset)
        step(*arguments)  # type: ignore[arg-type]

    lab.files.step = stepping  # type: ignore[method-assign]
    lab.log.append_all_as_leader(batches())
    assert seen == {0}
    assert lab.log.view.end_offset == len(VALUES)


@pytest.mark.parametrize("bad", [0, 5, 11])
def test_one_that_is_refused_refuses_all(bad: int) -> None:
    lab = LogOnMemory({**SETTINGS, "cleanup.policy": "compact"})
    data = batches()
    data[bad] = sent(b"no key", key=None)
    steps = lab.files.steps
    with pytest.raises(InvalidRecordError):
        lab.log.append_all_as_leader(data)
    assert (lab.values(), lab.files.steps) == ([], steps)
    lab.log.append_all_as_leader(batches())
    assert lab.values() == VALUES


def test_producers_are_answered_one_by_one() -> None:
    lab = LogOnMemory(SETTINGS)

    def from_producer(sequence: int) -> bytes:
        return sent(b"value", BatchForm(producer_id=7, producer_epoch=0, base_sequence=sequence))

    lab.log.append_all_as_leader([from_producer(0), from_producer(1)])
    again = lab.log.append_all_as_leader([from_producer(1), from_producer(2), from_producer(3)])
    assert [(each.first_offset, each.is_duplicate) for each in again] == [(1, True), (2, False), (3, False)]
    with pytest.raises(OutOfOrderSequenceError):
        lab.log.append_all_as_leader([from_producer(4), from_producer(6)])
    assert lab.log.view.end_offset == 4
    assert lab.log.append_all_as_leader([from_producer(4)])[0].first_offset == 4


@pytest.mark.parametrize("durability", list(Durability))
def test_a_disk_that_is_full_on_the_way_leaves_none(durability: Durability) -> None:
    outcomes = {"refused": 0, "poisoned": 0, "appended": 0}
    step = 0
    while True:
        lab = LogOnMemory(SETTINGS, durability=durability)
        lab.log.append_all_as_leader(batches(), leader_epoch=1)
        before = lab.values()
        lab.files.cut = Cut(lab.files.steps + step, Effect.DISK_FULL, seed=step)
        try:
            lab.log.append_all_as_leader(batches(), leader_epoch=2)
        except DiskFullError:
            outcomes["refused"] += 1
            assert lab.values() == before
            lab.files.cut = None
            lab.log.append_all_as_leader(batches([b"later"]), leader_epoch=3)
            assert lab.values() == [*before, b"later"]
        except StorageError:
            outcomes["poisoned"] += 1
            assert lab.log.is_poisoned
            assert lab.values() == before
        else:
            outcomes["appended"] += 1
            assert lab.values() == [*before, *VALUES]
            if lab.files.steps <= lab.files.cut.step:
                break
        step += 1
    assert outcomes["refused"] > 20
    assert outcomes["poisoned"] < step / 2
    assert lab.files.names(DIRECTORY)
