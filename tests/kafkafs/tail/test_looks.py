"""What is followed is printed once, in order, through all that happens to logs; and what cannot be is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kafkafs
from kafkafs.find.matching import Matching
from kafkafs.find.query import Query
from kafkafs.library.context import Context
from kafkafs.tail.beginnings import From, Last
from kafkafs.tail.tail import Tail
from kafkafs.tail.targets import parse_target
from storage.clock import Clock
from storage.files import Files
from storage.log import Isolation
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkafs.tail.beginnings import Beginning
    from kafkafs.tail.targets import Followed
    from storage.record import Record

SMALL = {"segment.bytes": "400"}


def line(followed: Followed) -> Callable[[Record], bytes]:
    return lambda record: b"%s-%d %d" % (followed.topic.encode(), followed.partition, record.offset)


class Looks:
    """A tail of a store, and what it has told."""

    def __init__(self, store: Store, *paths: str, beginning: Beginning, query: Query | None = None) -> None:
        self.told: list[Exception] = []
        self.tail = Tail(
            Context(store, store.files, Clock(), Isolation.UNCOMMITTED),
            [parse_target(path, store.topics.inventory.topics) for path in paths],
            line,
            beginning,
            None if query is None else Matching(query),
            self.told.append,
        )

    def new(self) -> list[str]:
        return [text.decode() for lines in self.tail.look() for text in lines]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[kafkafs.Store]:
    with kafkafs.open(tmp_path / "store", write=True) as store:
        store.create("orders", 2, SMALL)
        yield store


@pytest.fixture
def beside(writer: kafkafs.Store) -> Iterator[Store]:
    with Store.open(writer.paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        yield store


def lines(name: str, *offsets: int) -> list[str]:
    return [f"{name} {offset}" for offset in offsets]


def test_rolls_and_partitions_that_come(writer: kafkafs.Store, beside: Store) -> None:
    writer["orders"][0].append_many([b"old"] * 9)
    looks = Looks(beside, "ord*/*/values", "orders/1", beginning=Last(2))
    assert looks.new() == lines("orders-0", 7, 8)
    for number in range(30):
        writer["orders"][0].append(b"%d" % number)
        assert looks.new() == lines("orders-0", 9 + number)
    assert len(list((writer.paths[0] / "orders-0").glob("*.log"))) > 3
    writer._context.store.topics.add_partition("orders")
    writer.create("ordinary")[0].append_many([b"new"] * 3)
    writer.create("others")[0].append(b"elsewhere")
    writer["orders"][2].append(b"new")
    writer["orders"][1].append(b"new")
    assert looks.new() == [
        *lines("orders-1", 0),  # by the pattern
        *lines("orders-1", 0),  # by its name, in another form
        *lines("orders-2", 0),
        *lines("ordinary-0", 0, 1, 2),
    ]
    assert looks.new() == []
    assert looks.told == []


def test_what_was_deleted_or_cut_off_is_told_and_the_rest_printed(
    writer: kafkafs.Store, beside: Store, caplog: pytest.LogCaptureFixture
) -> None:
    log = writer._context.store.log_to_write("orders", 0)
    writer["orders"][0].append_many([b"old"] * 50)
    looks = Looks(beside, "orders", beginning=Last(1))
    assert looks.new() == lines("orders-0", 49)
    log.advance_start(20)
    writer._context.store.write_checkpoints()
    assert looks.new() == []
    writer["orders"][0].append_many([b"unread"] * 15)
    writer["orders"][0].append_many([b"cut off"] * 5)
    log.advance_start(60)
    writer._context.store.write_checkpoints()
    assert looks.new() == lines("orders-0", *range(60, 70))
    assert caplog.messages == ["orders-0: records were deleted unread: offsets 50 to 59"]
    log.truncate_to(65)
    writer["orders"][0].append_many([b"of another leader"] * 10)
    assert looks.new() == lines("orders-0", *range(65, 75))
    assert caplog.messages[1:] == ["orders-0: the log was cut at offset 65 after it was read further"]
    assert looks.told == []


def test_a_topic_that_is_made_again_is_printed_from_its_start(writer: kafkafs.Store, beside: Store) -> None:
    writer["orders"][0].append_many([b"old"] * 5)
    looks = Looks(beside, "orders/0/keys", beginning=Last(10))
    assert looks.new() == lines("orders-0", 0, 1, 2, 3, 4)
    writer._context.store.topics.delete("orders")
    assert looks.new() == []
    assert not looks.tail.is_over
    writer.create("orders")[0].append_many([b"new"] * 3)
    assert looks.new() == lines("orders-0", 0, 1, 2)


def test_a_log_that_cannot_be_read_is_left_and_the_others_are_followed(writer: kafkafs.Store, beside: Store) -> None:
    for partition in (0, 1):
        writer["orders"][partition].append_many([b"sound"] * 2)
        writer["orders"][partition].append_many([b"damaged"] * 2)
    looks = Looks(beside, "orders", beginning=From(2))
    (file,) = (writer.paths[0] / "orders-0").glob("*.log")
    file.write_bytes(file.read_bytes().replace(b"damaged", b"Damaged"))
    assert looks.new() == [*lines("orders-0", 1), *lines("orders-1", 1, 2, 3)]
    assert [type(each).__name__ for each in looks.told] == ["ChecksumError"]
    writer["orders"][1].append(b"more")
    assert looks.new() == lines("orders-1", 4)
    assert (looks.tail.failures, looks.tail.records, looks.tail.is_over) == (1, 5, False)
    alone = Looks(beside, "orders/0", beginning=Last(3))
    assert alone.new() == []
    assert alone.tail.is_over
    assert Looks(beside, "orders/0", beginning=Last(0)).new() == [], "which lies after the damage"


def test_only_what_matches_counts(writer: kafkafs.Store, beside: Store) -> None:
    def append(numbers: range) -> None:
        writer["orders"][0].append_many({"key": b"k%d" % (number % 3), "value": b"v"} for number in numbers)

    append(range(30))
    query = Query(key=(b"k1",))
    assert Looks(beside, "orders", beginning=Last(4), query=query).new() == lines("orders-0", 19, 22, 25, 28)
    looks = Looks(beside, "orders", beginning=From(9), query=query)
    assert looks.new() == lines("orders-0", 25, 28)
    append(range(30, 36))
    assert looks.new() == lines("orders-0", 31, 34)
    none = Looks(beside, "orders", beginning=From(14), query=query)
    assert none.new() == []
    append(range(36, 42))
    assert none.new() == lines("orders-0", 40)
