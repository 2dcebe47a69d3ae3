"""Work and caches share a number of bytes; caches give way to work."""

from __future__ import annotations

import gc
from threading import Barrier, Thread
from typing import TYPE_CHECKING
from weakref import WeakSet

import pytest
from waiting import until

from storage.budget import LIMIT_BYTES_MAX, MEMORY, WORKS_MAX, Account, Budget, MustWaitError
from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.budget import Lease

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


# Leases


def waiting(budget: Budget, size_bytes: int, leases: list[Lease]) -> Thread:
    """Take a lease in a thread of its own, and return when it waits."""
    budget.share()
    thread = Thread(target=lambda: leases.append(budget.lease(size_bytes)), daemon=True)
    thread.start()
    until(lambda: any(budget._waiting), "the lease waits")
    return thread


def test_a_lease_ends_with_its_object_and_may_be_reduced() -> None:
    budget = Budget(100)
    lease = budget.lease(60)
    lease.reduce_to(20)
    assert budget.left_bytes == 80
    del lease
    assert budget.left_bytes == 100
    lease = budget.lease(60)
    lease.end()
    lease.end()
    assert budget.left_bytes == 100


def test_a_lease_takes_what_caches_keep() -> None:
    budget = Budget(100)
    cache = Cache(budget)
    assert cache.keep(90)
    lease = budget.lease(60)
    assert (cache.kept <= 40, budget.left_bytes >= 0) == (True, True)
    lease.end()


def test_without_other_readers_a_lease_never_waits() -> None:
    budget = Budget(100)
    leases = [budget.lease(80), budget.lease(80)]
    assert budget.left_bytes == -60
    del leases
    assert budget.left_bytes == 100


def test_in_a_shared_budget_a_lease_waits_its_turn() -> None:
    budget = Budget(100)
    leases: list[Lease] = []
    first = budget.lease(80)
    thread = waiting(budget, 50, leases)
    assert not budget.take(5), "work that goes ahead comes after what waits"
    assert not Cache(budget).keep(5)
    first.end()
    thread.join(DEADLINE_S)
    assert budget.left_bytes == 50
    leases.clear()
    assert budget.left_bytes == 100


def test_work_that_has_a_lease_goes_on_where_no_other_could_end() -> None:
    budget = Budget(100, stuck_s=0)
    budget.share()
    leases = [budget.lease(60), budget.lease(60)]
    assert budget.left_bytes == -20
    del leases


def in_threads(budget: Budget, *sizes_bytes: int) -> list[Lease]:
    """Take each lease in a thread of its own, one after another."""
    leases: list[Lease] = []
    for size_bytes in sizes_bytes:
        thread = Thread(target=lambda: leases.append(budget.lease(size_bytes)))  # noqa: B023 -- it is joined
        thread.start()
        thread.join(DEADLINE_S)
    return leases


def test_few_pieces_of_work_have_large_leases_at_a_time() -> None:
    budget = Budget(1000)
    budget.share()
    leases: list[Lease] = []
    mine = budget.lease(100)
    others = in_threads(budget, *[100] * (WORKS_MAX - 1))
    thread = waiting(budget, 100, leases)
    second = budget.lease(100)
    small = in_threads(budget, 1)
    assert budget.left_bytes == 1000 - 100 * WORKS_MAX - 100 - 1
    second.end()
    assert not leases
    mine.end()
    thread.join(DEADLINE_S)
    assert len(leases) == 1
    assert len(others) + len(small) == WORKS_MAX


def test_a_small_lease_waits_for_no_large_one() -> None:
    budget = Budget(1000, stuck_s=DEADLINE_S)
    budget.share()
    others = in_threads(budget, 350)
    waited: list[Lease] = []

    def work() -> None:
        with budget.work():
            first = budget.lease(100)
            waited.append(budget.lease(400))
            first.end()

    thread = Thread(target=work)
    thread.start()
    until(lambda: any(budget._waiting), "work that has a lease waits for another")
    small = in_threads(budget, 10)
    assert (len(small), waited) == (1, [])
    others.clear()
    thread.join(DEADLINE_S)
    assert len(waited) == 1


def test_results_that_outlive_their_work_keep_their_leases_and_no_others_from_beginning() -> None:
    budget = Budget(1000, wait_s=0)
    budget.share()
    kept = []
    for _ in range(WORKS_MAX + 1):
        with budget.work():
            kept.append(budget.lease(100))
    assert budget.left_bytes == 1000 - 100 * len(kept)
    kept.clear()
    assert budget.left_bytes == 1000


def test_readers_that_wait_for_each_other_go_on() -> None:
    budget = Budget(140, stuck_s=0)
    budget.share()
    begun = Barrier(2)
    leases: list[Lease] = []

    def work() -> None:
        with budget.work():
            first = budget.lease(50)
            begun.wait(DEADLINE_S)
            leases.append(budget.lease(50))
            first.end()

    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(leases) == 2
    leases.clear()
    assert budget.left_bytes == 140


def test_large_leases_leave_a_part_to_what_is_not_leased() -> None:
    budget = Budget(800, wait_s=0)
    budget.share()
    leases = in_threads(budget, 550)
    with pytest.raises(MemoryBudgetError):
        budget.lease(51)
    leases += in_threads(budget, 50)
    assert budget.left_bytes == 200


def test_room_is_made_for_large_leases() -> None:
    budget = Budget(1000)
    asked: list[int] = []
    budget.share(make_room=asked.append)
    leases = [budget.lease(100), budget.lease(1)]
    assert asked == [100]
    del leases


def test_a_lease_grows() -> None:
    budget = Budget(100)
    lease = budget.lease(10)
    lease.grow_to(60)
    assert budget.left_bytes == 40
    lease.end()
    assert budget.left_bytes == 100


def test_a_lease_that_others_never_leave_room_for_is_an_error() -> None:
    budget = Budget(100, wait_s=0)
    failures: list[Exception] = []
    first = budget.lease(80)
    budget.share()

    def lease() -> None:
        try:
            budget.lease(50)
        except MemoryBudgetError as error:
            failures.append(error)

    thread = Thread(target=lease)
    thread.start()
    thread.join(DEADLINE_S)
    assert "the memory budget of 100 bytes" in str(failures[0])
    first.end()
    assert (budget.left_bytes, any(budget._waiting)) == (100, False)


def test_some_threads_never_wait_and_some_never_lease() -> None:
    budget = Budget(100)
    raised: list[str] = []
    budget.share()
    first = budget.lease(60)

    def attempt(forbid: Callable[[], None], size_bytes: int, name: str) -> None:
        forbid()
        try:
            budget.lease(size_bytes).end()
        except MustWaitError:
            raised.append(name)

    for forbid, size_bytes, name in (
        (budget.never_wait_here, 50, "to wait"),
        (budget.never_wait_here, 10, "not to wait"),
        (budget.never_lease_here, 10, "to lease"),
    ):
        thread = Thread(target=attempt, args=[forbid, size_bytes, name])
        thread.start()
        thread.join(DEADLINE_S)
    assert raised == ["to wait", "to lease"]
    first.end()
