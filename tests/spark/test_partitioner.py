"""Keys go where Kafka's producers send them."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")
murmur2 = pytest.importorskip("kafka.partitioner.default").murmur2

from kafkafs.spark.partitioner import Sticky, key_hashes  # noqa: E402


def test_hashes_are_those_of_another_client() -> None:
    keys = [None, b"", *(bytes((7 * length + place) % 256 for place in range(length)) for length in range(40))]
    array = pa.array(keys, pa.binary())
    expected = [0 if key is None else murmur2(key) & 0x7FFFFFFF for key in keys]
    hashes = key_hashes(array).tolist()
    assert hashes[1:] == expected[1:]
    assert key_hashes(array.slice(5, 9)).tolist() == expected[5:14]
    assert key_hashes(pa.array([], pa.binary())).tolist() == []
    assert len(key_hashes(pa.array([None, None], pa.binary()))) == 2


def test_without_a_key_a_partition_is_filled_before_the_next() -> None:
    sticky = Sticky(draw=lambda partitions: partitions - 1)
    places = [sticky.partition("t", 3, 8192) for _ in range(8)]
    assert places == [2, 2, 0, 0, 1, 1, 2, 2]
    assert sticky.partition("other", 2, 1) == 1
