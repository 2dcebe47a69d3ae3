"""The memory that a process gives to decoded records, in one account.

Caches keep what work leaves, and give it back when work asks. Work that goes ahead of its readers takes memory if there
is some, and goes without otherwise. Work that needs much memory leases it, for as long as its results live.

A process that serves many readers shares its budget among them: a lease waits its turn there. In any other process a
lease is granted at once, as waiting for itself would never end.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from threading import Condition, RLock, local
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakMethod, WeakSet

from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Lock
    from typing import TypeAlias

    Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]

LIMIT_BYTES_MAX: Final = 1024 * 1024 * 1024
LIMIT_BYTES_MIN: Final = 64 * 1024 * 1024
SHARES: Final = 4
"""No piece of work is given more than this part of a budget."""
WAIT_S_MAX: Final = 10.0
"""How long a lease waits for others to end."""
OVERDRAW_S: Final = 1.0
"""How long a lease waits before it may overdraw the budget by half."""
LOOK_S: Final = 0.25
"""How often caches are asked again for what they keep."""


class MustWaitError(Exception):
    """The thread is one in which work may not lease memory, or not wait for it. The caller tries another thread."""


class Budget:
    """A number of bytes that work and caches share. Any thread may use it.

    A lease that waits may overdraw it by half after `overdraw_s`, and fails after `wait_s`.
    """

    def __init__(self, limit_bytes: int, *, overdraw_s: float = OVERDRAW_S, wait_s: float = WAIT_S_MAX) -> None:
        self._overdraw_s = overdraw_s
        self._wait_s = wait_s
        self._lock = RLock()  # an account may be collected, and give back, while its thread is in here
        self._given_back = Condition(self._lock)
        self._waiting: deque[object] = deque()
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes
        self._accounts: WeakSet[Account] = WeakSet()
        self._while_waiting: Waiting | None = None
        self._threads = _Thread()

    @property
    def left_bytes(self) -> int:
        """Return how many bytes neither work nor a cache has. Below 0, leases overdraw the budget."""
        return self._left_bytes

    @property
    def limit_bytes(self) -> int:
        """Return how many bytes there are in all."""
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        with self._lock:
            self._left_bytes += limit_bytes - self._limit_bytes
            self._limit_bytes = limit_bytes

    @property
    def share_bytes(self) -> int:
        """Return how many bytes one piece of work may have."""
        return self._limit_bytes // SHARES

    def account(self, shrink: Callable[[int], object]) -> Account:
        """Return the account of a cache, which keeps it. `shrink`, a method, drops that many bytes or all there are."""
        account = Account(self, shrink)
        with self._lock:
            self._accounts.add(account)
        return account

    def take(self, size_bytes: int) -> bool:
        """Take bytes for work, at the expense of caches; False if other work has them, or waits for them."""
        if self.take_unused(size_bytes):
            return True
        with self._lock:
            accounts = [] if self._waiting else list(self._accounts)
        return any(account.shrink(size_bytes) and self.take_unused(size_bytes) for account in accounts)

    def take_unused(self, size_bytes: int) -> bool:
        """Take bytes that neither work nor a cache has; False if there are fewer, or work waits for them."""
        with self._lock:
            has_room = size_bytes <= self._left_bytes and not self._waiting
            if has_room:
                self._left_bytes -= size_bytes
            return has_room

    def give(self, size_bytes: int) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            self._left_bytes += size_bytes
            if self._waiting:
                self._given_back.notify_all()

    def shrink_caches(self) -> None:
        """Let the caches drop everything."""
        with self._lock:
            accounts = list(self._accounts)
        for account in accounts:
            account.shrink(self._limit_bytes)

    # Leases

    def share(self, while_waiting: Waiting = nullcontext) -> None:
        """Let leases wait their turn from now on, each within the block that `while_waiting` makes."""
        self._while_waiting = while_waiting

    def never_wait_here(self) -> None:
        """Let no lease wait in this thread, which others need: it raises `MustWaitError` instead."""
        self._threads.never_waits = True

    def never_lease_here(self) -> None:
        """Let no lease be taken in this thread at all, since what needs one takes long."""
        self._threads.never_leases = True

    def check_lease(self) -> None:
        """Raise `MustWaitError` in a thread that may not lease."""
        if self._threads.never_leases:
            raise MustWaitError

    def acquire(self, lock: Lock) -> None:
        """Acquire a lock; raises `MustWaitError` in a thread that may not lease while another holds it."""
        if not lock.acquire(blocking=False):
            self.check_lease()
            lock.acquire()

    def reserve(self, size_bytes: int, what: str) -> Lease:
        """Take bytes for what is kept, at the expense of caches, until the lease ends. Never waits.

        Raises `MemoryBudgetError`, which names `what` they are for, if others have the bytes. Any thread may reserve,
        and may wait for leases afterwards.
        """
        if not self.take(size_bytes):
            raise MemoryBudgetError(
                f"{what} take more memory than is left of the budget of {self._limit_bytes} bytes: close files that "
                "are open, or mount with a larger -o memory="
            )
        return Lease(self, size_bytes, [])

    def lease(self, size_bytes: int) -> Lease:
        """Take bytes until the lease ends, at the expense of caches, and wait for them where the budget is shared.

        Raises `MustWaitError` in a thread that may not lease or not wait, and `MemoryBudgetError` if others keep the
        bytes for long. A thread that has a lease never waits for another: what it waits for may be its own.
        """
        self.check_lease()
        if not self.take(size_bytes):
            if self._while_waiting is None or self._threads.leases:
                with self._lock:
                    self._left_bytes -= size_bytes
            else:
                self._wait_for(size_bytes, self._while_waiting)
        return Lease(self, size_bytes, self._threads.leases)

    def _wait_for(self, size_bytes: int, while_waiting: Waiting) -> None:
        if self._threads.never_waits:
            raise MustWaitError
        turn = object()
        begun_s = monotonic()
        with self._lock:
            self._waiting.append(turn)  # from here on no cache takes more
        try:
            with while_waiting():
                while not self._take_in_turn(turn, size_bytes, monotonic() - begun_s):
                    self.shrink_caches()  # files that were being read may have become idle
        finally:
            with self._given_back:
                self._waiting.remove(turn)
                self._given_back.notify_all()

    def _take_in_turn(self, turn: object, size_bytes: int, waited_s: float) -> bool:
        """Wait a moment, and return True if the bytes could be taken."""
        # Readers that wait for each other keep what they have, so one of them goes on after a while.
        spare_bytes = self._limit_bytes // 2 if waited_s > self._overdraw_s else 0
        with self._given_back:
            has_room = self._given_back.wait_for(
                lambda: self._waiting[0] is turn and size_bytes <= self._left_bytes + spare_bytes, LOOK_S
            )
            if has_room:
                self._left_bytes -= size_bytes
            elif waited_s > self._wait_s:
                raise MemoryBudgetError(
                    f"other readers have kept the memory budget of {self._limit_bytes} bytes for {self._wait_s:.0f} "
                    f"seconds, and this needs {size_bytes} bytes of it: close files that are open, or mount with a "
                    "larger -o memory="
                )
        return has_room


class _Thread(local):
    """The facts of each thread."""

    def __init__(self) -> None:
        self.never_waits = False
        self.never_leases = False
        self.leases: list[None] = []  # as many as it took that have not ended


class Lease:
    """Bytes of a budget that one piece of work has until `end`, or until nothing refers to the lease."""

    def __init__(self, budget: Budget, size_bytes: int, leases: list[None]) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._leases = leases
        leases.append(None)

    def __del__(self) -> None:
        self.end()

    def reduce_to(self, size_bytes: int) -> None:
        """Give back the bytes above this number."""
        spare_bytes = max(self._size_bytes - size_bytes, 0)
        self._size_bytes -= spare_bytes
        self._budget.give(spare_bytes)

    def end(self) -> None:
        """Give all bytes back."""
        size_bytes, self._size_bytes = self._size_bytes, -1
        if size_bytes >= 0:
            self._leases.pop()
            self._budget.give(size_bytes)


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
