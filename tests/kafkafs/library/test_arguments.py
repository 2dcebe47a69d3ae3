"""What cannot be meant is refused with a sentence, and changes nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kafkafs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFUSED_READING: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda topic: topic[0].record(1.0), TypeError, "an offset is an int, or a text such as 'latest', not float"),
    (lambda topic: topic[0].record(None), TypeError, "not NoneType"),
    (lambda topic: topic[0].records(offsets=(5, 6)), TypeError, "offsets are a range or a text .* not tuple"),
    (lambda topic: topic[0].records(times=[None, "now"]), TypeError, "times are a tuple of two, or a text .* not list"),
    (lambda topic: topic[0].records(times=("-2h", "-1h", "now")), ValueError, "a beginning and an end, and this has 3"),
    (lambda topic: topic[0].follow(1.5), TypeError, "an offset is an int"),
    (lambda topic: topic[0].to_batches(columns="key"), TypeError, r"columns are a list of names: \['key'\]"),
    (lambda topic: topic.to_batches(columns=["x"]), ValueError, "no column 'x': choose from topic, partition, offset,"),
    (lambda topic: topic.follow({"0": 42}), TypeError, "a partition is an int, not '0', so its offset"),
    (lambda topic: topic.follow({0: "42"}), TypeError, "an offset is an int"),
    (lambda topic: topic.follow({0: -1}), ValueError, "-1 is no offset"),
    (lambda topic: topic.follow(42), TypeError, "a mapping of partitions to offsets, not int"),
]
REFUSED_ROWS: list[tuple[object, type[Exception], str]] = [
    (5, kafkafs.InvalidRecordError, "a row is bytes, None, a mapping or a Record, not int"),
    ((b"key", b"value"), kafkafs.InvalidRecordError, "not tuple"),
    ({"value": 5}, kafkafs.InvalidRecordError, "the value must be bytes or None, not int"),
    ({"timestamp": 1.5}, TypeError, "an int of milliseconds or an aware datetime, not float"),
    ({"timestamp": "now"}, TypeError, "an int of milliseconds or an aware datetime, not str"),
]


@pytest.mark.parametrize(("ask", "kind", "reason"), REFUSED_READING)
def test_arguments_of_the_wrong_type_are_refused(
    made: Path, ask: Callable[[kafkafs.Topic], object], kind: type[Exception], reason: str
) -> None:
    with kafkafs.open(made) as store, pytest.raises(kind, match=reason):
        ask(store["orders"])


def test_rows_of_the_wrong_type_are_refused(made: Path) -> None:
    with kafkafs.open(made, write=True) as store:
        partition = store["orders"][0]
        end = partition.end_offset
        for row, kind, reason in REFUSED_ROWS:
            with pytest.raises(kind, match=reason):
                partition.append_many([b"before", row])  # type: ignore[list-item]
        assert partition.end_offset == end
        with pytest.raises(TypeError, match=r"a setting is a text, and retention.ms is 5: write '5'"):
            store.create("others", 1, {"retention.ms": 5})  # type: ignore[dict-item]
        with pytest.raises(TypeError, match="partitions are a number, not '3'"):
            store.create("others", "3")  # type: ignore[arg-type]
        assert list(store) == ["orders"]


def test_integers_of_other_libraries_are_offsets(made: Path) -> None:
    with kafkafs.open(made) as store:
        topic = store["orders"]
        record = topic[np.int64(1)].record(np.int64(7))
        assert record is not None
        assert (record.partition, type(record.partition), record.offset) == (1, int, 7)
        assert next(topic.follow({np.int64(0): np.int64(99)}, timeout=0)).offset == 99


def test_a_store_that_is_not_opened_stays_free(made: Path) -> None:
    with pytest.raises(ValueError, match="isolation is 'read_committed' or 'read_uncommitted', not 'committed'"):
        kafkafs.open(made, write=True, isolation="committed")  # type: ignore[arg-type]
    with kafkafs.open(made, write=True) as store:
        store["orders"][0].append(b"")


def test_a_closed_store_takes_nothing(made: Path) -> None:
    with kafkafs.open(made, write=True) as store:
        partition = store["orders"][0]
    for change in (lambda: store.create("others"), lambda: partition.append(b""), partition.flush):
        with pytest.raises(kafkafs.StorageError, match="the store is closed"):
            change()
    assert not (made / "others-0").exists()


def test_rows_that_append_to_their_own_partition_are_refused(made: Path) -> None:
    with kafkafs.open(made, write=True) as store:
        partition, other = store["orders"].values()

        def rows(to: kafkafs.Partition) -> Iterator[bytes]:
            to.append(b"inner")
            yield b"outer"

        assert len(partition.append_many(rows(other))) == 1
        refused: list[str] = []

        def append() -> None:
            with pytest.raises(RuntimeError) as caught:
                partition.append_many(rows(partition))
            refused.append(str(caught.value))

        thread = threading.Thread(target=append, daemon=True)
        thread.start()
        thread.join(30)
        assert refused == ["rows that are being appended to a partition cannot append to it themselves"]
        partition.append(b"after")


def test_an_interrupted_call_says_what_it_has_stored(made: Path) -> None:
    def rows() -> Iterator[bytes]:
        yield from [b"x"] * 25_000
        raise KeyboardInterrupt

    with kafkafs.open(made, write=True) as store:
        partition = store["orders"][0]
        start = partition.end_offset
        with pytest.raises(KeyboardInterrupt) as caught:
            partition.append_many(rows())
        end = partition.end_offset
        assert end > start
        assert caught.value.__notes__ == [f"{end - start} records were stored before it (offsets {start} to {end - 1})"]


def test_following_from_beyond_the_end_is_told(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    with kafkafs.open(made, write=True) as store:
        topic = store["orders"]
        for offset in (101, "101"):
            with pytest.raises(kafkafs.RecordsGoneError, match="orders-0: the log ends at offset 100, before 101"):
                next(topic[0].follow(offset, timeout=0))
        with pytest.raises(kafkafs.RecordsGoneError):
            next(topic.follow({0: 101, 1: 100}, timeout=0))
        assert list(topic[0].follow(100, timeout=0)) == []
        lenient = topic[0].follow(101, timeout=0, fail_on_data_loss=False)
        topic[0].append(b"new")
        assert [each.offset for each in lenient] == []
        topic[0].append_many([b"new"] * 2)
        lenient = topic[0].follow(200, timeout=0.01, fail_on_data_loss=False)
        assert list(lenient) == []
        assert "where reading was to go on" in caplog.text


def test_a_partition_that_comes_later_is_read_from_where_it_is_named(made: Path) -> None:
    away = made / "away"
    (made / "orders-1").rename(away)
    with kafkafs.open(made) as store:
        following = store["orders"].follow({0: 100, 1: 98}, timeout=0)
        away.rename(made / "orders-1")
        assert [(each.partition, each.offset) for each in following] == [(1, 98), (1, 99)]
