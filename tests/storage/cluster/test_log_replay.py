"""Following a log of `__consumer_offsets` equals reading all of it, after any change."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory

from storage.cluster.followed_topics import OffsetsLog, OffsetsTopic
from storage.config import TopicConfig
from storage.errors import UnknownPartitionError
from storage.internal import offsets
from storage.log.followed_log import FollowedLog
from storage.log.producers.state import AppendOrigin
from storage.record import BatchForm, Codec, EndTransactionMarker, batches_of_rows, marker_batch
from storage.segment.names import Kind

if TYPE_CHECKING:
    from storage.cluster.log_replay import LogReplay


class Coordinator(LogOnMemory):
    """Writes what a coordinator would."""

    def commit(self, offset: int | None, group: str = "g", producer_id: int | None = None, epoch: int = 1) -> None:
        key = offsets.encode_key(1, {"group": group, "topic": "orders", "partition": 0})
        value = None if offset is None else offsets.encode_value(1, 3, {"offset": offset, "metadata": "m" * 90})
        self.write(key, value, producer_id, epoch)

    def write(self, key: bytes | None, value: bytes | None, producer_id: int | None = None, epoch: int = 1) -> None:
        form = BatchForm(codec=Codec.LZ4)
        if producer_id is not None:
            form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=True)
        (batch,) = batches_of_rows([(NOW_MS, key, value, ())], base_offset=None, form=form)
        self.log.append_as_leader(batch, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR)

    def end(self, producer_id: int, *, committed: bool) -> None:
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
        data = marker_batch(marker, offset=0, timestamp_ms=NOW_MS, producer_id=producer_id, producer_epoch=0)
        self.log.append_as_leader(data, leader_epoch=1, origin=AppendOrigin.COORDINATOR)

    def follow(self) -> FollowedLog:
        config = TopicConfig.resolve({})
        return FollowedLog(self.clock, self.files.directory(DIRECTORY), config, producer_expiration_ms=1)


def known(replay: LogReplay) -> dict[str, dict[str, int]]:
    assert isinstance(replay, OffsetsLog)
    replay.advance()
    return {
        group_id: {topic: committed.offset for (topic, _), committed in group.offsets.items()}
        for group_id, group in replay.image.groups.items()
    }


@pytest.mark.parametrize("is_followed", [False, True])
def test_only_what_is_new_is_read(is_followed: bool) -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    replay = OffsetsLog(coordinator.follow() if is_followed else coordinator.log)
    assert known(replay) == {"g": {"orders": 1}}
    image = replay.image
    coordinator.commit(2)
    coordinator.commit(3, group="other")
    coordinator.log.roll()
    coordinator.commit(None, group="g")
    assert known(replay) == {"other": {"orders": 3}}
    assert replay.image is image
    assert (replay.is_complete, image.end_offset) == (True, 4)


def test_commits_in_transactions_count_with_their_marker() -> None:
    coordinator = Coordinator()
    replay = OffsetsLog(coordinator.log)
    coordinator.commit(1, producer_id=7)
    coordinator.commit(2, group="aborted", producer_id=8)
    assert known(replay) == {"g": {}, "aborted": {}}
    coordinator.end(8, committed=False)
    coordinator.end(7, committed=True)
    assert known(replay) == {"g": {"orders": 1}}


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_truncated_log_is_read_again(is_followed: bool) -> None:
    coordinator = Coordinator()
    for offset in range(1, 6):
        coordinator.commit(offset)
    replay = OffsetsLog(coordinator.follow() if is_followed else coordinator.log)
    assert known(replay) == {"g": {"orders": 5}}
    coordinator.log.truncate_to(3)
    assert known(replay) == {"g": {"orders": 3}}
    coordinator.log.truncate_to(2)
    for number in range(4):  # further than it was
        coordinator.commit(100, group=f"new-{number}", epoch=2)
    assert known(replay)["g"] == {"orders": 2}
    assert len(known(replay)) == 5


def test_a_log_that_lost_its_start_is_read_again() -> None:
    coordinator = Coordinator()
    coordinator.commit(1, group="old")
    coordinator.commit(2)
    replay = OffsetsLog(coordinator.log)
    assert set(known(replay)) == {"old", "g"}
    coordinator.log.advance_start(1)
    assert set(known(replay)) == {"g"}


def test_another_log_under_the_same_name_is_read_from_its_start() -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    follower = coordinator.follow()
    replay = OffsetsLog(follower)
    assert known(replay) == {"g": {"orders": 1}}
    coordinator.log.close()
    for name in list(coordinator.files.names(DIRECTORY)):
        coordinator.files.remove(f"{DIRECTORY}/{name}")
    coordinator.open()
    for number in range(3):
        coordinator.commit(7, group=f"new-{number}")
    assert known(replay) == {f"new-{number}": {"orders": 7} for number in range(3)}


def test_damage_is_passed_over_and_counted() -> None:
    coordinator = Coordinator()
    for number in range(3):
        coordinator.commit(number, group=f"g{number}")
    path = f"{DIRECTORY}/{0:020}.log"
    view = coordinator.log.view
    second = view.find(1)
    assert second is not None
    coordinator.log.close()
    data = bytearray(coordinator.files.read(path))
    data[second.position + 70] ^= 1
    with coordinator.files.open_writing(path) as file:
        file.write_at(0, [bytes(data)])
    follower = coordinator.follow()
    topic = OffsetsTopic()
    topic.look({4: follower})
    replay = topic.partitions[4]
    assert set(known(replay)) == {"g0", "g2"}
    assert (replay.damage_count, replay.is_complete, topic.is_complete) == (1, False, False)
    [said] = topic.shortcomings
    assert path in said
    assert f"position {second.position}" in said
    assert follower.view.segments[0].name(Kind.LOG) in said


def test_what_cannot_be_read_is_counted() -> None:
    coordinator = Coordinator()
    coordinator.commit(1)
    coordinator.write(None, b"x")
    coordinator.write(b"\0\x63k", b"v")
    coordinator.write(offsets.encode_key(1, {"group": "g", "topic": "t", "partition": 0}), b"\0\x63v")
    topic = OffsetsTopic()
    topic.look({0: coordinator.log})
    assert topic.partitions[0].unread == 3
    assert topic.shortcomings == ["3 records of partition 0 are of a kind that is not known here"]
    assert [group.group_id for group in topic.groups()] == ["g"]


def test_partitions_come_and_go() -> None:
    first, second = Coordinator(), Coordinator()
    first.commit(1, group="first")
    second.commit(1, group="second")
    topic = OffsetsTopic()
    topic.look({0: first.log, 1: second.log})
    assert {group.group_id for group in topic.groups()} == {"first", "second"}
    topic.look({1: second.log})
    assert {group.group_id for group in topic.groups()} == {"second"}
    follower = first.follow()
    topic.look({0: follower})
    assert {group.group_id for group in topic.groups()} == {"first"}
    follower.part()
    with pytest.raises(UnknownPartitionError):
        _ = follower.view
    topic.look({0: follower})
    assert (list(topic.groups()), topic.is_complete) == ([], True)


@pytest.mark.parametrize("seed", range(20))
def test_after_any_change_it_is_as_read_at_once(seed: int) -> None:
    chance = random.Random(seed)
    coordinator = Coordinator()
    replays = [OffsetsLog(coordinator.log), OffsetsLog(coordinator.follow())]
    epoch = 1
    for step in range(60):
        group = f"g{chance.randrange(4)}"
        match chance.randrange(12):
            case 0:
                coordinator.log.roll()
            case 1:
                epoch += 1
                coordinator.log.truncate_to(chance.randint(coordinator.log.view.start_offset, step))
            case 2 if coordinator.log.view.end_offset:
                view = coordinator.log.view
                coordinator.log.advance_start(chance.randint(view.start_offset, view.end_offset))
            case 3:
                coordinator.commit(None, group=group, epoch=epoch)
            case _:
                coordinator.commit(step, group=group, epoch=epoch)
        if chance.random() < 0.3:
            expected = known(OffsetsLog(coordinator.log))
            assert known(replays[0]) == expected
            if coordinator.log.view.start_offset == 0:  # a follower learns of that from a checkpoint
                assert known(replays[1]) == expected
