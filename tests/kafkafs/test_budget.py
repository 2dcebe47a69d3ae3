"""Work and caches share a number of bytes; caches give way to work."""

from __future__ import annotations

import gc
from threading import Thread
from weakref import WeakSet

from kafkafs.budget import LIMIT_BYTES_MAX, MEMORY, Account, Budget

DEADLINE_S = 10


class Cache:
    """Keeps numbers, a byte each."""

    def __init__(self, budget: Budget) -> None:
        self.account: Account = budget.account(self.shrink)
        self.kept = 0

    def keep(self, size_bytes: int) -> bool:
        if not self.account.keep(size_bytes):
            return False
        self.kept += size_bytes
        return True

    def shrink(self, size_bytes: int) -> None:
        dropped = min(size_bytes, self.kept)
        self.kept -= dropped
        self.account.give(dropped)


def test_work_and_caches_take_no_more_than_there_is() -> None:
    budget = Budget(10)
    cache = Cache(budget)
    assert [budget.take(6), cache.keep(5), cache.keep(4), budget.left_bytes] == [True, False, True, 0]
    budget.give(6)
    assert [cache.keep(7), cache.keep(6), budget.left_bytes] == [False, True, 0]


def test_caches_give_way_to_work_and_not_to_each_other() -> None:
    budget = Budget(10)
    caches = [Cache(budget), Cache(budget)]
    assert [cache.keep(5) for cache in caches] == [True, True]
    assert not caches[0].keep(1)
    assert budget.take(8)
    assert sum(cache.kept for cache in caches) <= 2
    assert not budget.take(3)
    budget.give(8)
    assert budget.left_bytes == 10 - sum(cache.kept for cache in caches)


def test_a_cache_that_is_gone_has_nothing() -> None:
    budget = Budget(10)
    cache = Cache(budget)
    assert cache.keep(10)
    del cache
    assert budget.left_bytes == 10
    assert budget.take(10)


class Collecting(WeakSet):  # type: ignore[type-arg]
    """Lets cycles be collected in the middle."""

    def add(self, item: object) -> None:
        gc.collect()
        super().add(item)


def test_a_cache_may_be_collected_while_another_is_added() -> None:
    budget = Budget(10)
    budget._accounts = Collecting()
    cache = Cache(budget)
    cache.keep(10)
    cache.itself = cache  # type: ignore[attr-defined]
    del cache
    thread = Thread(target=Cache, args=[budget], daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert budget.left_bytes == 10


def test_a_process_has_a_budget() -> None:
    assert 0 < MEMORY.left_bytes <= LIMIT_BYTES_MAX
