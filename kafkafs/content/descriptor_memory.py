"""The memory of open descriptors, in one account for all of them: there may be any number, and each keeps something.

What can be made again is kept as long as there is room, and what was used longest ago is dropped first. What cannot, as
the beginning of a line that a writer has not ended, is held until its descriptor lets go: much of it is taken from the
memory budget, and is refused where others have that.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final, Protocol
from weakref import ReferenceType, ref

from storage.budget import MEMORY, SHARES
from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from storage.budget import Budget

KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
"""How much is kept beside the budget; more, up to a share of the budget, while nothing else needs that."""
HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""How much is held beside the budget, by those that hold little each."""
LITTLE_BYTES: Final = 64 * 1024
"""How much one descriptor holds beside the budget."""
_STEP_BYTES: Final = 1024 * 1024


class Keeper(Protocol):
    """What keeps bytes that it can make again."""

    def drop_kept(self) -> None:
        """Drop them, unless they are in use: then `keep` is called again at the end of that. Never waits."""


class KeptMemory:
    """What descriptors keep and can make again, the one used last at the end. Any thread may use this.

    It has a number of bytes, and further ones of the budget that neither work nor another cache has.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES_MAX, *, budget: Budget = MEMORY) -> None:
        self._limit_bytes = limit_bytes
        self._budget = budget
        self._lock = Lock()
        self._sizes: OrderedDict[ReferenceType[Keeper], int] = OrderedDict()
        self._gone: deque[ReferenceType[Keeper]] = deque()  # without a lock: any thread may collect them anywhere
        self._kept_bytes = 0
        self._taken_bytes = 0  # of the budget
        self._account = budget.account(self._shrink)

    @property
    def kept_bytes(self) -> int:
        """Return how many bytes are kept in all."""
        with self._lock:
            self._forget_gone()
            return self._kept_bytes

    def keep(self, keeper: Keeper, size_bytes: int) -> None:
        """Note that the keeper has so many bytes, which it used just now; others drop theirs if these are too many."""
        with self._lock:
            self._forget_gone()
            self._forget(ref(keeper))
            if size_bytes:
                self._sizes[ref(keeper, self._gone.append)] = size_bytes
                self._kept_bytes += size_bytes
            self._take_what_is_needed()
            surplus = self._surplus(keeper) if size_bytes else []
        for each in surplus:
            each.drop_kept()

    def used(self, keeper: Keeper) -> None:
        """Note that the keeper used its bytes."""
        with self._lock:
            known = ref(keeper)
            if known in self._sizes:
                self._sizes.move_to_end(known)

    def _forget(self, known: ReferenceType[Keeper]) -> None:
        self._kept_bytes -= self._sizes.pop(known, 0)

    def _forget_gone(self) -> None:
        while self._gone:
            self._forget(self._gone.popleft())

    def _take_what_is_needed(self) -> None:
        """Take from the budget what is kept above the limit, as far as it has that, and give back what is not."""
        over_bytes = max(self._kept_bytes - self._limit_bytes, 0)
        wanted_bytes = min(-(-over_bytes // _STEP_BYTES) * _STEP_BYTES, self._budget.share_bytes)
        if wanted_bytes < self._taken_bytes:
            self._account.give(self._taken_bytes - wanted_bytes)
            self._taken_bytes = wanted_bytes
        elif wanted_bytes > self._taken_bytes and self._account.keep(wanted_bytes - self._taken_bytes):
            self._taken_bytes = wanted_bytes

    def _surplus(self, keeper: Keeper | None) -> list[Keeper]:
        """Return those that are to drop their bytes, which count no more: never the keeper."""
        found: list[Keeper] = []
        while self._kept_bytes > self._limit_bytes + self._taken_bytes:
            known = next(iter(self._sizes))
            oldest = known()
            if oldest is not None and oldest is keeper:
                break
            self._forget(known)
            if oldest is not None:
                found.append(oldest)
        return found

    def _shrink(self, _: int) -> None:
        """Give the budget back what was taken of it."""
        with self._lock:
            self._account.give(self._taken_bytes)
            self._taken_bytes = 0
            surplus = self._surplus(None)
        for each in surplus:
            each.drop_kept()


class HeldMemory:
    """What descriptors hold and cannot make again. Any thread may use this.

    Those that hold little share a number of bytes. All others take theirs from the budget, of which a share is left for
    work in any case.
    """

    def __init__(self, limit_bytes: int = HELD_BYTES_MAX, *, budget: Budget = MEMORY) -> None:
        self._limit_bytes = limit_bytes
        self._budget = budget
        self._lock = RLock()  # a descriptor may be collected while its thread is in here
        self._held_bytes = 0  # beside the budget
        self._taken_bytes = 0  # of the budget

    def hold(self, size_bytes: int, what: str) -> Held:
        """Hold so many bytes; raises `MemoryBudgetError`, which names `what` they are for, if others have them."""
        held = Held(self, what)
        held.resize(size_bytes)
        return held

    def exchange(self, old: tuple[int, int], size_bytes: int, what: str) -> tuple[int, int]:
        """Hold so many bytes in place of the old ones: return how many are beside the budget, and how many of it."""
        old_held, old_taken = old
        with self._lock:
            is_little = size_bytes <= LITTLE_BYTES and self._held_bytes - old_held + size_bytes <= self._limit_bytes
            held, taken = (size_bytes, 0) if is_little else (0, -(-size_bytes // LITTLE_BYTES) * LITTLE_BYTES)
            more_bytes = taken - old_taken
            limit_bytes = self._budget.limit_bytes
            is_left = more_bytes <= 0 or self._taken_bytes + more_bytes <= limit_bytes - limit_bytes // SHARES
            if is_left:
                self._held_bytes += held - old_held
                self._taken_bytes += more_bytes
        if more_bytes < 0:
            self._budget.give(-more_bytes)
        elif more_bytes and not (is_left and self._budget.take(more_bytes)):
            if is_left:
                with self._lock:
                    self._held_bytes -= held - old_held
                    self._taken_bytes -= more_bytes
            raise MemoryBudgetError(
                f"{what} take more memory than is left of the budget of {limit_bytes} bytes: close files that are "
                "open, or mount with a larger -o memory="
            )
        return held, taken


class Held:
    """The bytes that one descriptor holds, until `resize` to 0, or until nothing refers to this."""

    def __init__(self, memory: HeldMemory, what: str) -> None:
        self._memory = memory
        self._what = what
        self._bytes = (0, 0)  # beside the budget and of it

    def __del__(self) -> None:
        self.resize(0)

    def resize(self, size_bytes: int) -> None:
        """Hold so many bytes from now on; raises `MemoryBudgetError` if others have them, and holds what it did."""
        if size_bytes or any(self._bytes):
            self._bytes = self._memory.exchange(self._bytes, size_bytes, self._what)


KEPT: Final = KeptMemory()
"""That of this process."""
HELD: Final = HeldMemory()
"""That of this process."""
