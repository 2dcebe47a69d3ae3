"""Brokers' records are read as a consumer gets them, in both isolation levels, for every range."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from consuming import consumed

import kafkafs
from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHOLE = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-killed/kafka-3.9-killed",
)
KINDS = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}


def plain(records) -> list[tuple[object, ...]]:
    return [tuple(record[2:]) for record in records]


@pytest.mark.golden
@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", WHOLE)
def test_records_are_those_that_a_consumer_is_given(
    name: str, isolation: Isolation, datasets: Callable[[str], Path]
) -> None:
    data_set, _, rest = name.partition("/")
    path = sorted({each.parents[1] for each in (datasets(data_set) / rest).rglob("*.log")})
    draw = random.Random(name)
    total = 0
    with (
        kafkafs.open(path, isolation=isolation.value) as store,
        Store.open(path, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as below,
    ):
        for topic in store.values():
            for number, partition in topic.items():
                expected = [
                    (each.offset, each.timestamp, KINDS[each.timestamp_type], each.key, each.value, each.headers)
                    for each in consumed(below.log(topic.name, number), isolation)
                ]
                assert plain(partition.records()) == expected
                assert all(each[:2] == (topic.name, number) for each in partition.records())
                start, end = sorted(draw.randint(partition.start_offset, partition.end_offset) for _ in range(2))
                some = [each for each in expected if start <= each[0] < end]
                assert plain(partition.records(offsets=range(start, end))) == some
                count = draw.randint(1, 200)
                assert plain(partition.records(offsets=f"last-{count}..")) == expected[-count:]
                columns = partition.to_arrow(columns=["offset", "key", "value"])
                assert [tuple(row.values()) for row in columns.to_pylist()] == [
                    (each[0], each[3], each[4]) for each in expected
                ]
                for each in draw.sample(expected, min(len(expected), 3)):
                    assert plain([partition.record(each[0])]) == [each]
                total += len(expected)
    assert total > 100
