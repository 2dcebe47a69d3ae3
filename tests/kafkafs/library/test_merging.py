"""A topic merged by time: each record once, in the order of its log, in memory that does not grow with the topic."""

from __future__ import annotations

import os
import tracemalloc
from typing import TYPE_CHECKING

import pytest

import kafkafs

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 160
ROWS = 60
VALUE_BYTES = 16 * 1024
TOPIC_BYTES = PARTITIONS * ROWS * VALUE_BYTES
NOW_MS = 1_700_000_000_000
HELD_BYTES_MAX = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a topic of partitions whose records are due in turn; each has one batch of a megabyte, compressed."""
    path = tmp_path_factory.mktemp("wide") / "store"
    with kafkafs.open(path, write=True) as store:
        topic = store.create("wide", PARTITIONS, {"compression.type": "lz4"})
        for number, partition in topic.items():
            partition.append_many(
                {"value": b"%0*d" % (VALUE_BYTES, row), "timestamp": NOW_MS + row * PARTITIONS + number}
                for row in range(ROWS)
            )
    return path


def test_memory_is_bounded_however_many_partitions_are_merged(wide: Path) -> None:
    assert TOPIC_BYTES > 1.4 * HELD_BYTES_MAX
    with kafkafs.open(wide) as store:
        tracemalloc.start()
        try:
            places = [(each.timestamp - NOW_MS, int(each.value[-4:])) for each in store["wide"].records(order="time")]
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert places == [(at, at // PARTITIONS) for at in range(PARTITIONS * ROWS)]
    assert peak_bytes < HELD_BYTES_MAX


def test_no_file_stays_open_between_records(wide: Path) -> None:
    with kafkafs.open(wide) as store:
        records = store["wide"].records(order="time")
        assert next(records).offset == 0
        opened = [os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]  # noqa: PTH208
        assert not [each for each in opened if each.startswith(str(wide)) and each.endswith(".log")]


def test_ranges_are_those_of_each_partition(wide: Path) -> None:
    with kafkafs.open(wide) as store:
        places = [(each.offset, each.partition) for each in store["wide"].records(offsets="7..9", order="time")]
        assert places == [(offset, number) for offset in (7, 8) for number in range(PARTITIONS)]
        times = (NOW_MS + 10, NOW_MS + 20)
        assert [each.partition for each in store["wide"].records(times=times, order="time")] == list(range(10, 20))
        assert list(store["wide"].records(offsets="9..7", order="time")) == []


def test_what_is_due_before_damage_comes_first(made: Path) -> None:
    damaged = sorted((made / "orders-1").glob("*.log"))[2]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    found = []
    with kafkafs.open(made) as store, pytest.raises(kafkafs.CorruptBatchError) as caught:
        found.extend(int(each.value) for each in store["orders"].records(order="time"))
    assert caught.value.path == str(damaged)
    last = caught.value.offset * 2 - 1  # the record before the damaged one, which all that was due had come before
    assert found == list(range(last + 1))


def test_what_is_deleted_while_it_is_merged_is_told(made: Path) -> None:
    with kafkafs.open(made, write=True) as store, kafkafs.open(made) as reader:
        records = reader["orders"].records(order="time")
        for number in (0, 1):
            store._context.store.log("orders", number).advance_start(50)
        store._context.store.write_checkpoints()
        with pytest.raises(kafkafs.RecordsGoneError):
            next(records)
