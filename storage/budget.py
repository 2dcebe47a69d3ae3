"""The memory that a process gives to decoded records, in one account.

Caches keep what work leaves, and give it back when work asks. Work that goes ahead of its readers takes memory if there
is some, and goes without otherwise. Work that needs much memory leases it, for as long as its results live.

A process that serves many readers shares its budget among them: a lease waits its turn there. Few pieces of work have
large leases at a time, and one that has comes first with its next, so that it can end. In any other process a lease is
granted at once, as waiting for itself would never end.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition, RLock, local
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakMethod, WeakSet

from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from threading import Lock
    from typing import TypeAlias

    Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]

LIMIT_BYTES_MAX: Final = 1024 * 1024 * 1024
LIMIT_BYTES_MIN: Final = 64 * 1024 * 1024
SHARES: Final = 4
"""No piece of work is given more than this part of a budget."""
STUCK_S: Final = 1.0
"""How long small leases may take to end, and caches to give way, before a lease overdraws the budget."""
WAIT_S_MAX: Final = 10.0
"""How long a lease waits for others to end."""
SMALL_LEASES: Final = 64
"""So many small leases come to as much as the budget."""
WORKS_MAX: Final = 2
"""How many pieces of work have large leases at a time."""
_LEFT_PART: Final = 4
"""Large leases leave this part of the budget to what is not leased: each reader has something."""
LOOK_S: Final = 0.25
"""How often caches are asked again for what they keep."""

# The ranks of leases: of work that has large ones, small ones, and of work that begins.
_ENDS: Final = 0
_SMALL: Final = 1
_BEGINS: Final = 2
_BEFORE: Final = ((_ENDS,), (_SMALL,), (_ENDS, _SMALL, _BEGINS))
"""After which ranks each rank is served, its own among them. Small leases have a part of the budget to themselves."""


class MustWaitError(Exception):
    """The thread is one in which work may not lease memory, or not wait for it. The caller tries another thread."""


class Budget:
    """A number of bytes that work and caches share. Any thread may use it.

    A lease fails after `wait_s`. Where each piece of work that has large leases waits for another, the first of them
    overdraws the budget after `stuck_s`, so that it can end.
    """

    def __init__(self, limit_bytes: int, *, stuck_s: float = STUCK_S, wait_s: float = WAIT_S_MAX) -> None:
        self._stuck_s = stuck_s
        self._wait_s = wait_s
        self._lock = RLock()  # an account may be collected, and give back, while its thread is in here
        self._given_back = Condition(self._lock)
        self._waiting: tuple[deque[object], ...] = deque(), deque(), deque()  # by their rank
        self._begun: set[_Work] = set()
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes
        self._accounts: WeakSet[Account] = WeakSet()
        self._while_waiting: Waiting | None = None
        self._make_room: Callable[[int], object] = lambda _: None
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
        return self._take(size_bytes, _BEGINS, None)

    def take_unused(self, size_bytes: int) -> bool:
        """Take bytes that neither work nor a cache has; False if there are fewer, or work waits for them."""
        return self._take_unused(size_bytes, _BEGINS, None)

    def give(self, size_bytes: int) -> None:
        """Give back bytes that were taken."""
        with self._lock:
            self._left_bytes += size_bytes
            if any(self._waiting):
                self._given_back.notify_all()

    def shrink_caches(self) -> None:
        """Let the caches drop everything."""
        with self._lock:
            accounts = list(self._accounts)
        for account in accounts:
            account.shrink(self._limit_bytes)

    # Leases

    def share(
        self, while_waiting: Waiting = nullcontext, *, make_room: Callable[[int], object] = lambda _: None
    ) -> None:
        """Let leases wait their turn from now on, each within the block that `while_waiting` makes.

        `make_room` is called with the size of each large lease before the bytes are used.
        """
        self._while_waiting = while_waiting
        self._make_room = make_room

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
        return Lease(self, size_bytes, None)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Do a piece of work in the block, in this thread. Results that outlive it keep their leases."""
        work = self._threads.work = _Work()
        try:
            yield
        finally:
            self._threads.work = _Work()
            if work.leases:
                with self._given_back:
                    self._begun.discard(work)
                    self._given_back.notify_all()

    def lease(self, size_bytes: int) -> Lease:
        """Take bytes until the lease ends, at the expense of caches, and wait for them where the budget is shared.

        Raises `MustWaitError` in a thread that may not lease or not wait, and `MemoryBudgetError` if others keep the
        bytes for long.
        """
        self.check_lease()
        work = None if size_bytes * SMALL_LEASES <= self._limit_bytes else self._threads.work
        rank = _SMALL if work is None else _ENDS if work in self._begun else _BEGINS
        if self._while_waiting is None:
            if not self.take(size_bytes):
                with self._lock:
                    self._left_bytes -= size_bytes
            work = None
        elif not self._take(size_bytes, rank, work):
            self._wait_for(size_bytes, rank, work, self._while_waiting)
        lease = Lease(self, size_bytes, work)
        if work is not None:
            self._make_room(size_bytes)
        return lease

    def give_leased(self, size_bytes: int, work: _Work | None, *, is_end: bool) -> None:
        """Give back bytes of a lease that the work had; `Lease` calls it."""
        if work is not None:
            with self._lock:
                work.leases -= is_end
                if not work.leases:
                    self._begun.discard(work)
        self.give(size_bytes)

    # Each of these takes bytes for work that is given if it is a large lease.

    def _take(self, size_bytes: int, rank: int, work: _Work | None) -> bool:
        """Take bytes at the expense of caches; False if there are fewer, or others that come first wait."""
        if self._take_unused(size_bytes, rank, work):
            return True
        with self._lock:
            accounts = [] if self._comes_after_others(rank) else list(self._accounts)
        return any(account.shrink(size_bytes) and self._take_unused(size_bytes, rank, work) for account in accounts)

    def _take_unused(self, size_bytes: int, rank: int, work: _Work | None) -> bool:
        with self._lock:
            has_room = self._has_room(size_bytes, rank, work) and not self._comes_after_others(rank)
            if has_room:
                self._grant(size_bytes, work)
            return has_room

    def _wait_for(self, size_bytes: int, rank: int, work: _Work | None, while_waiting: Waiting) -> None:
        if self._threads.never_waits:
            raise MustWaitError
        turn = object()
        begun_s = monotonic()
        with self._lock:
            self._waiting[rank].append(turn)  # from here on no cache takes more
        try:
            with while_waiting():
                while not self._take_in_turn(turn, size_bytes, rank, work, begun_s):
                    self.shrink_caches()  # files that were being read may have become idle
        finally:
            with self._given_back:
                self._waiting[rank].remove(turn)
                self._given_back.notify_all()

    def _take_in_turn(self, turn: object, size_bytes: int, rank: int, work: _Work | None, begun_s: float) -> bool:
        """Wait a moment, and return True if the bytes could be taken."""
        waited_s = monotonic() - begun_s

        def may_go_on() -> bool:
            if self._waiting[rank][0] is not turn or self._comes_after_others(rank, but=rank):
                return False
            is_stuck = rank == _ENDS and waited_s >= self._stuck_s and len(self._waiting[_ENDS]) >= len(self._begun)
            return is_stuck or self._has_room(size_bytes, rank, work)

        with self._given_back:
            has_room = self._given_back.wait_for(may_go_on, LOOK_S)
            if has_room:
                self._grant(size_bytes, work)
            elif waited_s > self._wait_s:
                raise MemoryBudgetError(
                    f"other readers have kept the memory budget of {self._limit_bytes} bytes for {self._wait_s:.0f} "
                    f"seconds, and this needs {size_bytes} bytes of it: close files that are open, or mount with a "
                    "larger -o memory="
                )
        return has_room

    def _comes_after_others(self, rank: int, *, but: int | None = None) -> bool:
        """Return True if leases wait that come before those of the rank; `but` names a rank that does not count."""
        return any(self._waiting[each] for each in _BEFORE[rank] if each != but)

    def _has_room(self, size_bytes: int, rank: int, work: _Work | None) -> bool:
        may_begin = rank != _BEGINS or work is None or len(self._begun) < WORKS_MAX
        left_bytes = self._left_bytes - (0 if work is None else self._limit_bytes // _LEFT_PART)
        return may_begin and size_bytes <= left_bytes

    def _grant(self, size_bytes: int, work: _Work | None) -> None:
        self._left_bytes -= size_bytes
        if work is not None:
            self._begun.add(work)
            work.leases += 1


class _Work:
    """A piece of work, which has begun once it has a large lease."""

    __slots__ = ("leases",)

    def __init__(self) -> None:
        self.leases = 0  # large ones that have not ended


class _Thread(local):
    """The facts of each thread."""

    def __init__(self) -> None:
        self.never_waits = False
        self.never_leases = False
        self.work = _Work()


class Lease:
    """Bytes of a budget that one piece of work has until `end`, or until nothing refers to the lease."""

    def __init__(self, budget: Budget, size_bytes: int, work: _Work | None) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._work = work

    def __del__(self) -> None:
        self.end()

    def reduce_to(self, size_bytes: int) -> None:
        """Give back the bytes above this number."""
        spare_bytes = max(self._size_bytes - size_bytes, 0)
        self._size_bytes -= spare_bytes
        self._budget.give_leased(spare_bytes, self._work, is_end=False)

    def grow_to(self, size_bytes: int) -> None:
        """Take bytes up to this number, as `Budget.lease` does."""
        self._budget.lease(size_bytes - self._size_bytes).add_to(self)

    def add_to(self, lease: Lease) -> None:
        """Give the bytes to a smaller lease, and end."""
        lease._size_bytes += self._size_bytes
        self._size_bytes = 0
        if lease._work is None:
            lease._work, self._work = self._work, None
        self.end()

    def end(self) -> None:
        """Give all bytes back."""
        size_bytes, self._size_bytes = self._size_bytes, -1
        if size_bytes >= 0:
            self._budget.give_leased(size_bytes, self._work, is_end=True)


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
