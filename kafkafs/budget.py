"""The memory that a process gives to decoded records, in one account.

Work takes memory for what it decodes ahead of its readers, and goes without where other work has it. Caches keep what
work leaves, and give it back when work asks. What a reader has been handed is not counted any more.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Final
from weakref import WeakMethod, WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT_BYTES_MAX: Final = 1024 * 1024 * 1024


class Budget:
    """A number of bytes that work and caches share. Any thread may use it."""

    def __init__(self, limit_bytes: int) -> None:
        self._lock = RLock()  # an account may be collected, and give back, while its thread is in here
        self._left_bytes = limit_bytes
        self._accounts: WeakSet[Account] = WeakSet()

    @property
    def left_bytes(self) -> int:
        """Return how many bytes neither work nor a cache has."""
        return self._left_bytes

    def account(self, shrink: Callable[[int], object]) -> Account:
        """Return the account of a cache, which keeps it. `shrink`, a method, drops that many bytes or all there are."""
        account = Account(self, shrink)
        with self._lock:
            self._accounts.add(account)
        return account

    def take(self, size_bytes: int) -> bool:
        """Take bytes for work, at the expense of caches; False if other work has them."""
        if self.take_unused(size_bytes):
            return True
        with self._lock:
            accounts = list(self._accounts)
        return any(account.shrink(size_bytes) and self.take_unused(size_bytes) for account in accounts)

    def take_unused(self, size_bytes: int) -> bool:
        """Take bytes that neither work nor a cache has; False if there are fewer."""
        with self._lock:
            has_room = size_bytes <= self._left_bytes
            if has_room:
                self._left_bytes -= size_bytes
            return has_room

    def give(self, size_bytes: int) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            self._left_bytes += size_bytes


class Account:
    """What one cache has of a budget. The budget has it back when the cache is gone."""

    def __init__(self, budget: Budget, shrink: Callable[[int], object]) -> None:
        self._budget = budget
        self._shrink = WeakMethod(shrink)
        self._size_bytes = 0

    def __del__(self) -> None:
        self._budget.give(self._size_bytes)

    def keep(self, size_bytes: int) -> bool:
        """Take bytes for the cache; False if there is no room for them."""
        has_room = self._budget.take_unused(size_bytes)
        if has_room:
            self._size_bytes += size_bytes
        return has_room

    def give(self, size_bytes: int) -> None:
        """Give back bytes that the cache has dropped."""
        self._size_bytes -= size_bytes
        self._budget.give(size_bytes)

    def shrink(self, size_bytes: int) -> bool:
        """Let the cache drop about that many bytes; False if it is gone."""
        shrink = self._shrink()
        if shrink is not None:
            shrink(size_bytes)
        return shrink is not None


def _limit_bytes() -> int:
    """Return a quarter of the machine's memory, up to the most that is taken."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4, LIMIT_BYTES_MAX)


MEMORY: Final = Budget(_limit_bytes())
"""That of this process."""
