"""Decoded batches are kept within their bytes, by segment and truncation, and damage is told once."""

from __future__ import annotations

import logging
import threading

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from kafkafs.tree.batch_cache import BatchCache
from kafkafs.tree.held_batch import HeldBatch
from storage.budget import Budget
from storage.errors import ChecksumError, MalformedRecordsError
from storage.record.encoding import BatchForm, batches_of_rows
from storage.record.reading import read_batches
from storage.testing.codec import OracleRecord, encode_entry, wrapper_of

COUNT = 60


@pytest.fixture(scope="module")
def held() -> list[HeldBatch]:
    """Batches of three records, in several segments."""
    lab = LogOnMemory()
    for number in range(COUNT):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % number), (NOW_MS, b""), (NOW_MS, b"x" * 50)]))
    assert len(lab.log.view.segments) > 2
    return [
        HeldBatch(batch, segment, is_visible=True) for segment in lab.log.view.segments for batch in segment.batches()
    ]


def test_a_batch_is_found_by_every_offset_in_it_and_no_other(held):
    cache = BatchCache()
    for each in held[::2]:
        cache.put(each, 0)
    for number, each in enumerate(held):
        for offset in range(number * 3, number * 3 + 3):
            found = cache.get(each.segment, 0, offset)
            assert found is (None if number % 2 else each)
            assert each.find(offset).offset == offset
            assert cache.get(each.segment, 1, offset) is None
        assert each.find(number * 3 + 3) is None
        assert each.find(number * 3 - 1) is None


def test_what_was_not_used_for_longest_goes_first(held):
    weight = held[0].size_bytes
    cache = BatchCache(weight * 10)
    for each in held[:8]:
        cache.put(each, 0)
    assert cache.get(held[0].segment, 0, 0) is held[0]
    for each in held[8:12]:
        cache.put(each, 0)
    assert cache.size_bytes <= weight * 10
    assert cache.get(held[0].segment, 0, 0) is held[0]
    assert cache.get(held[1].segment, 0, 3) is None
    for each in held:
        cache.put(each, 0)
        cache.put(each, 0)
    assert 0 < cache.size_bytes <= weight * 10


def test_the_cache_gives_way_to_work(held):
    weight = held[0].size_bytes
    budget = Budget(weight * 10)
    cache = BatchCache(weight * 20, budget=budget)
    for each in held:
        cache.put(each, 0)
    assert weight * 9 <= cache.size_bytes <= weight * 10
    assert budget.take(weight * 9)
    assert cache.size_bytes <= weight
    cache.put(held[0], 0)
    cache.put(held[1], 0)
    assert cache.get(held[1].segment, 0, 3) is held[1]
    assert budget.take(weight)
    assert cache.size_bytes == 0
    cache.put(held[0], 0)
    assert cache.size_bytes == 0


def test_what_is_too_large_is_not_kept(held):
    cache = BatchCache(held[0].size_bytes * 4 - 1)
    cache.put(held[0], 0)
    assert cache.size_bytes == 0


def test_compressed_batches_count_with_what_they_decompress_to():
    (data,) = batches_of_rows([(NOW_MS, None, bytes(100_000), ())], form=BatchForm(codec=1))
    batch = next(read_batches(data))
    assert len(data) < 1000
    assert HeldBatch(batch, None, is_visible=True).size_bytes > 100_000
    wrapper = encode_entry(wrapper_of([OracleRecord(0, NOW_MS, None, bytes(50_000))], 1, 1))
    assert len(wrapper) < 1000
    assert HeldBatch(next(read_batches(wrapper)), None, is_visible=True).size_bytes > 50_000


def test_a_batch_that_is_not_visible_has_no_records(held):
    (data,) = batches_of_rows([(NOW_MS, None, b"", ())])
    batch = HeldBatch(next(read_batches(data)), held[0].segment, is_visible=False)
    assert batch.find(0) is None


def test_threads_share_it(held):
    cache = BatchCache(held[0].size_bytes * 20)
    failures, done = [], []

    def use(start: int) -> None:
        for turn in range(2000):
            number = (start + turn * 7) % COUNT
            each = held[number]
            found = cache.get(each.segment, 0, number * 3 + 1)
            if found is None:
                cache.put(each, 0)
            elif found is not each:
                failures.append(number)
        done.append(start)

    threads = [threading.Thread(target=use, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(done) == len(threads)
    assert cache.size_bytes <= held[0].size_bytes * 20


def test_each_place_is_told_once(caplog):
    cache = BatchCache()
    with caplog.at_level(logging.WARNING, "kafkafs"):
        for _ in range(3):
            cache.report(ChecksumError("the sum is wrong", path="/a.log", position=7))
            cache.report(MalformedRecordsError("no records", path="/a.log", position=8))
    assert [record.getMessage() for record in caplog.records] == [
        "damage in the log: the sum is wrong (/a.log, position 7)",
        "damage in the log: no records (/a.log, position 8)",
    ]
