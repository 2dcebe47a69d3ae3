"""What all descriptors keep and hold together is bounded, however many there are."""

from __future__ import annotations

import pytest

from kafkafs.content.descriptor_memory import LITTLE_BYTES, HeldMemory, KeptMemory
from storage.budget import Budget
from storage.errors import MemoryBudgetError

MB = 1024 * 1024


class Reader:
    """Keeps bytes in a memory until it has to drop them."""

    def __init__(self, memory: KeptMemory, size_bytes: int) -> None:
        self.memory = memory
        self.has_bytes = True
        self.is_used = False
        memory.keep(self, size_bytes)

    def drop_kept(self) -> None:
        if not self.is_used:
            self.has_bytes = False
            self.memory.keep(self, 0)


def full(budget: Budget) -> None:
    assert budget.take(budget.left_bytes)


def test_those_used_longest_ago_drop_their_bytes() -> None:
    budget = Budget(64 * MB)
    full(budget)
    memory = KeptMemory(4 * MB, budget=budget)
    readers = [Reader(memory, MB) for _ in range(4)]
    memory.used(readers[0])
    newest = Reader(memory, 2 * MB)
    assert [each.has_bytes for each in (*readers, newest)] == [True, False, False, True, True]
    assert memory.kept_bytes == 4 * MB
    memory.keep(newest, 9 * MB)
    assert newest.has_bytes, "its own are in use"
    assert not any(each.has_bytes for each in readers)
    memory.keep(newest, 0)
    assert memory.kept_bytes == 0


def test_one_that_is_used_tells_what_it_keeps_afterwards() -> None:
    budget = Budget(64 * MB)
    full(budget)
    memory = KeptMemory(MB, budget=budget)
    used = Reader(memory, MB)
    used.is_used = True
    other = Reader(memory, MB)
    assert used.has_bytes
    memory.keep(used, MB)
    assert (used.has_bytes, other.has_bytes, memory.kept_bytes) == (True, False, MB)


def test_what_is_gone_counts_no_more() -> None:
    memory = KeptMemory(4 * MB, budget=Budget(64 * MB))
    reader = Reader(memory, MB)
    assert memory.kept_bytes == MB
    del reader
    assert memory.kept_bytes == 0


def test_more_is_kept_of_the_budget_while_nothing_needs_that() -> None:
    budget = Budget(64 * MB)
    memory = KeptMemory(4 * MB, budget=budget)
    readers = [Reader(memory, MB) for _ in range(30)]
    assert sum(each.has_bytes for each in readers) == 4 + 16, "a share of the budget"
    assert budget.left_bytes == 48 * MB
    assert budget.take(60 * MB)
    assert sum(each.has_bytes for each in readers) == 4
    assert budget.left_bytes == 4 * MB
    budget.give(60 * MB)
    for each in readers:
        memory.keep(each, 0)
    assert (memory.kept_bytes, budget.left_bytes) == (0, 64 * MB)


def test_little_is_held_beside_the_budget_and_much_is_taken_from_it() -> None:
    budget = Budget(64 * MB)
    memory = HeldMemory(MB, budget=budget)
    little = [memory.hold(LITTLE_BYTES, "these") for _ in range(16)]
    assert budget.left_bytes == 64 * MB
    more = memory.hold(1, "these")
    assert budget.left_bytes == 64 * MB - LITTLE_BYTES, "nothing is left beside the budget"
    more.resize(5 * MB)
    assert budget.left_bytes == 59 * MB
    little.pop()
    more.resize(1000)
    assert budget.left_bytes == 64 * MB
    more.resize(0)
    del little, more
    assert budget.left_bytes == 64 * MB


def test_a_share_of_the_budget_is_never_held() -> None:
    budget = Budget(64 * MB)
    memory = HeldMemory(MB, budget=budget)
    held = [memory.hold(MB, "these bytes") for _ in range(48)]
    with pytest.raises(MemoryBudgetError, match="these bytes take more memory than is left of the budget"):
        memory.hold(MB, "these bytes")
    with pytest.raises(MemoryBudgetError):
        held[0].resize(2 * MB)
    assert budget.left_bytes == 16 * MB
    held.pop()
    held[0].resize(2 * MB)
    held.clear()
    assert budget.left_bytes == 64 * MB


def test_what_work_has_cannot_be_held() -> None:
    budget = Budget(64 * MB)
    memory = HeldMemory(MB, budget=budget)
    full(budget)
    with pytest.raises(MemoryBudgetError):
        memory.hold(MB, "these bytes")
    small = memory.hold(1000, "these bytes")
    budget.give(64 * MB)
    small.resize(48 * MB)
    assert budget.left_bytes == 16 * MB
