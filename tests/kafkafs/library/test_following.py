"""Followers get every committed record once, through all changes of the log, and an error for lost ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import kafkafs
from kafkafs.library.following import Follower
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = {"segment.bytes": "400"}


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[kafkafs.Store]:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        store.create("orders", 2, SMALL)
        yield store


@pytest.fixture
def reader(writer: kafkafs.Store) -> Iterator[kafkafs.Store]:
    with kafkafs.open(writer.paths) as store:
        yield store


def test_what_is_appended_comes_across_rolls(writer: kafkafs.Store, reader: kafkafs.Store) -> None:
    written = writer["orders"][0]
    written.append(b"before")
    following = reader["orders"][0].follow()
    for number in range(100):
        written.append(b"%d" % number)
        record = next(following)
        assert (record.offset, record.value) == (number + 1, b"%d" % number)
    assert len(list((writer.paths[0] / "orders-0").glob("*.log"))) > 10


def test_where_it_begins_is_settled_by_the_call(writer: kafkafs.Store, reader: kafkafs.Store) -> None:
    written = writer["orders"][0]
    written.append_many(b"%d" % number for number in range(10))
    partition = reader["orders"][0]
    followers = [partition.follow(*start, timeout=0) for start in ((), (7,), ("last-2",), ("earliest",))]
    topics = [reader["orders"].follow(offsets, timeout=0) for offsets in (None, {0: 9}, {})]
    written.append(b"10")
    writer["orders"][1].append(b"other")
    assert [[each.offset for each in follower] for follower in followers] == [
        [10],
        [7, 8, 9, 10],
        [8, 9, 10],
        list(range(11)),
    ]
    assert [sum(1 for _ in follower) for follower in topics] == [2, 3, 12]


def test_partitions_that_come_are_read_from_their_start(tmp_path: Path) -> None:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        store.create("orders")
        followed = store["orders"].follow(timeout=0)
        with pytest.raises(kafkafs.UnknownPartitionError, match="the topic orders has no partition 1"):
            store["orders"][1]
    with Store.open([tmp_path / "store"], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as below:
        below.topics.add_partition("orders")
    assert list(followed) == []  # its store is closed
    with kafkafs.open(tmp_path / "store", write=True) as store, kafkafs.open(tmp_path / "store") as beside:
        followed = beside["orders"].follow(timeout=0)
        store.create("others")[0].append(b"elsewhere")
        store["orders"][1].append(b"new")
        assert [(each.partition, each.value) for each in followed] == [(1, b"new")]


def test_closing_the_store_ends_a_follower_that_waits(reader: kafkafs.Store) -> None:
    found: list[kafkafs.Record] = []
    following = reader["orders"].follow()
    thread = threading.Thread(target=lambda: found.extend(following))
    thread.start()
    reader.close()
    thread.join(30)
    assert not thread.is_alive()
    assert found == []


def test_what_is_deleted_unread_is_told(writer: kafkafs.Store, reader: kafkafs.Store, caplog) -> None:
    writer["orders"][0].append_many(b"%d" % number for number in range(100))
    strict = reader["orders"][0].follow(3, timeout=0)
    lenient = reader["orders"][0].follow(3, timeout=0, fail_on_data_loss=False)
    assert (next(strict).offset, next(lenient).offset) == (3, 3)
    strict.close()
    strict = reader["orders"][0].follow(4, timeout=0)
    writer._context.store.log("orders", 0).advance_start(50)
    writer._context.store.write_checkpoints()
    with pytest.raises(kafkafs.RecordsGoneError, match="orders-0: records were deleted unread: offsets 4 to 49"):
        next(strict)
    assert [each.offset for each in reader["orders"][0].follow(4, timeout=0, fail_on_data_loss=False)] == list(
        range(50, 100)
    )
    assert "were deleted unread" in caplog.text


def test_another_topic_of_the_name_is_told_and_read_from_its_start(
    writer: kafkafs.Store, reader: kafkafs.Store, caplog
) -> None:
    writer["orders"][0].append_many(b"%d" % number for number in range(10))
    strict, lenient = (Follower(reader["orders"][0].reader, 8, fails=fails) for fails in (True, False))
    for follower in (strict, lenient):
        assert [each.offset for records in follower.poll() for each in records] == [8, 9]
    topics = writer._context.store.topics
    topics.delete("orders")
    for follower in (strict, lenient):
        with pytest.raises(kafkafs.UnknownPartitionError):
            list(follower.poll())
    writer.create("orders", 1, SMALL)[0].append_many([b"new"] * 20)
    with pytest.raises(kafkafs.RecordsGoneError, match="orders-0: another topic has this name now"):
        list(strict.poll())
    assert [each.offset for records in lenient.poll() for each in records] == list(range(20))
    assert "another topic has this name now" in caplog.text


def test_a_partition_that_was_away_goes_on_where_it_was(writer: kafkafs.Store, reader: kafkafs.Store) -> None:
    writer["orders"][0].append_many(b"%d" % number for number in range(10))
    writer.close()
    follower = Follower(reader["orders"][0].reader, 8, fails=True)
    assert sum(len(records) for records in follower.poll()) == 2
    (directory,) = (path / "orders-0" for path in reader.paths)
    elsewhere = directory.rename(directory.parent.parent / "elsewhere")
    with pytest.raises(kafkafs.UnknownPartitionError):
        list(follower.poll())
    elsewhere.rename(directory)
    assert list(follower.poll()) == []
    with kafkafs.open(reader.paths, write=True) as again:
        again["orders"][0].append(b"more")
    assert [each.value for records in follower.poll() for each in records] == [b"more"]


def test_what_is_not_decided_waits(tmp_path: Path, produced: Callable[..., None]) -> None:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        store.create("orders")
    reader = kafkafs.open(tmp_path / "store")
    following = reader["orders"][0].follow(0, timeout=0)
    produced(tmp_path / "store", [(b"plain", None, None), (b"aborted", 7, False), (b"committed", 8, True)])
    produced(tmp_path / "store", [(b"open", 9, None), (b"behind", None, None)])
    assert [each.value for each in following] == [b"plain", b"committed"]
    reader.close()
