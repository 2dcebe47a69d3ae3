"""Dispatch: how pyfuse3 waits for requests, and where the work for them runs.

pyfuse3 goes through trio's event loop for each request, and hands the waiting on to another worker each time, which
costs more than most requests do. Here the worker that waited answers, and waits again, without the event loop; only
when an answer has to wait for something does another worker take the turn. So other tasks are delayed for `STREAK_NS`
at most, one request and `WAIT_MS`.

Work runs inline while recent work of its kind was quick, and otherwise in a thread. A thread costs more than a small
read, and a long read in the event loop delays every request. So the first work of a kind goes to a thread, where it is
timed; so does work that comes while other work of its kind is in one, as it may have to wait. The work of one partition
has a share of the threads, so that those who read it keep no other readers waiting.
"""

from __future__ import annotations

import os
import select
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from itertools import count
from time import perf_counter_ns
from types import SimpleNamespace, coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import trio

from kafkafs.mount.pyfuse3_internals import waiting_by
from storage.budget import MEMORY, MustWaitError
from storage.files import taking_turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    Wait: TypeAlias = Callable[[], AbstractContextManager[object]]

SLOW_NS: Final = 1_500_000
SLOW_IN_WALK_NS: Final = 4_000_000
"""The same for listings in a walk, which tell the sizes of all that is listed: many of 2 ms each."""
PROBATION: Final = 8  # how many go to threads after one that was slow
STREAK_NS: Final = 3_000_000
WAIT_MS: Final = 1
SHARE_THREADS: Final = 6
"""How many threads the work of one partition has at most, of the 40 that there are."""
LOOKS: Final = 40
"""How often to poll before sleeping: waking up takes longer than most requests."""

T = TypeVar("T")
Answer = TypeVar("Answer")


class Turn:
    """A fair lock that costs nothing without contention: one task at a time, in the order in which they come."""

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None

    def take_at_once(self) -> bool:
        """Take the turn if it is free; False if it is another task's."""
        if self._is_taken:
            return False
        self._is_taken = True
        return True

    async def take(self) -> None:
        """Return once it is the caller's turn; a cancelled caller does not get it."""
        if self.take_at_once():
            return
        if self._waiting is None:
            self._waiting = trio.lowlevel.ParkingLot()
        await self._waiting.park()  # it is handed over taken

    def release(self) -> None:
        """Pass it to the task that has waited longest."""
        assert self._is_taken
        if not (self._waiting and self._waiting.unpark()):
            self._is_taken = False

    async def __aenter__(self) -> Self:
        await self.take()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()


class Share:
    """A part of the threads, for the work of one partition: with a few more partitions there are threads for each."""

    __slots__ = ("_limiter",)

    def __init__(self) -> None:
        self._limiter: trio.CapacityLimiter | None = None

    async def run(self, work: Callable[[], T], *, wait: Wait = nullcontext, may_abandon: bool = False) -> T:
        """Run it in a thread, after the work that waits for this share longer; it waits in the block of `wait`."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(SHARE_THREADS)
        try:
            self._limiter.acquire_nowait()
        except trio.WouldBlock:
            with wait():
                await self._limiter.acquire()
        try:
            return await trio.to_thread.run_sync(_run_in_turns, work, abandon_on_cancel=may_abandon)
        finally:
            self._limiter.release()


class Pace:
    """How quick recent work of one kind was; long work is timed apart from short work.

    Work is slow from `slow_ns` on, and proves to be quick in two thirds of that.
    """

    __slots__ = ("_in_thread", "_in_threads", "_slow_ns", "_to_prove")

    def __init__(self, share: Share | None = None, slow_ns: int = SLOW_NS) -> None:
        self._slow_ns = slow_ns
        self._to_prove = [1, 1]  # short and long
        self._in_threads = 0
        self._in_thread = _in_any_thread if share is None else share.run

    async def run(self, work: Callable[[], T], *, is_long: bool = False, wait: Wait = nullcontext) -> T:
        """Run it. A cancelled call finishes first. Work that needs much memory begins again in a thread.

        While its share has no thread for it, it waits in the block of `wait`.
        """
        if self._to_prove[is_long] <= 0 and not self._in_threads:
            begun_ns = perf_counter_ns()
            try:
                return work()
            except MustWaitError:
                self._to_prove[is_long] = PROBATION
            finally:
                if perf_counter_ns() - begun_ns > self._slow_ns:
                    self._to_prove[is_long] = PROBATION
        return await self.run_in_thread(work, is_long=is_long, wait=wait)

    async def run_in_thread(self, work: Callable[[], T], *, is_long: bool = False, wait: Wait = nullcontext) -> T:
        """Run it in a thread, however quick it may be."""
        taken_ns = self._slow_ns

        def timed() -> T:
            nonlocal taken_ns
            begun_ns = perf_counter_ns()
            try:
                return work()
            finally:
                taken_ns = perf_counter_ns() - begun_ns

        self._in_threads += 1
        try:
            return await self._in_thread(timed, wait=wait)
        finally:
            self._in_threads -= 1
            self._to_prove[is_long] -= taken_ns <= self._slow_ns * 2 // 3


class DirectoryPaces:
    """How quickly the directories of logs were found, opened and listed."""

    def __init__(self) -> None:
        self.lookup, self.opendir, self.readdir = Pace(), Pace(), Pace()
        self.walk = Pace(slow_ns=SLOW_IN_WALK_NS)


async def in_thread(work: Callable[[], T]) -> T:
    """Run it in a thread. A cancelled call finishes first."""
    return await trio.to_thread.run_sync(_run_in_turns, work)


async def _in_any_thread(work: Callable[[], T], *, wait: Wait) -> T:  # noqa: ARG001
    return await in_thread(work)


def _run_in_turns(work: Callable[[], T]) -> T:
    with MEMORY.work(), taking_turns():
        return work()


def spare_threads(token: trio.lowlevel.TrioToken) -> Callable[[], AbstractContextManager[None]]:
    """Return what makes a block in which a thread waits: meanwhile the others may have one thread more."""

    def add(threads: int) -> None:
        trio.to_thread.current_default_thread_limiter().total_tokens += threads

    @contextmanager
    def spare_thread() -> Iterator[None]:
        token.run_sync_soon(add, 1)
        try:
            yield
        finally:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(add, -1)

    return spare_thread


class Waiting(NamedTuple):
    """A request that waits for something: its handler's name and arguments, and when it came."""

    operation: str
    arguments: tuple[Any, ...]
    begun_ns: int


class RequestLoop:
    """Replaces trio inside pyfuse3 while a mount is served; each answer that waits goes through `awaited`."""

    def __init__(self) -> None:
        self._poll: select.poll | None = None
        self._streak_begun_ns = 0  # when other tasks last ran
        self.waiting: dict[int, Waiting] = {}
        """Requests whose answers wait for something."""
        self._numbers = count()
        self._turn = Turn()  # to wait for requests
        self._is_kept = False  # by a worker that is answering in place, while no other task can run

    def installed(self) -> AbstractContextManager[None]:
        """Make pyfuse3 wait in this way in the block."""
        stand_in = SimpleNamespace(
            ClosedResourceError=trio.ClosedResourceError,
            Lock=lambda: _ReadLock(self),
            lowlevel=SimpleNamespace(
                current_task=trio.lowlevel.current_task,
                current_trio_token=trio.lowlevel.current_trio_token,
                notify_closing=trio.lowlevel.notify_closing,
                wait_readable=self._wait_readable,
            ),
            open_nursery=self._open_nursery,
        )
        return waiting_by(stand_in)

    @property
    def is_awaited(self) -> bool:
        """True while an answer waits for something, such as a thread."""
        return bool(self.waiting)

    @coroutine
    def awaited(
        self, answer: Coroutine[Any, Any, Answer], awaited: object, waiting: Waiting
    ) -> Generator[Any, Any, Answer]:
        """Run the rest of a handler that waits for something; meanwhile another worker has the turn."""
        self.hand_over()
        number = next(self._numbers)
        self.waiting[number] = waiting
        try:
            while True:
                try:
                    sent = yield awaited
                except BaseException as error:  # noqa: BLE001 -- it is the answer's to deal with
                    awaited = answer.throw(error)
                else:
                    awaited = answer.send(sent)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        finally:
            del self.waiting[number]

    async def take(self) -> None:
        """Return once the caller has the turn."""
        if self._is_kept:
            self._is_kept = False
        else:
            await self._turn.take()

    def keep(self) -> None:
        """Leave the turn with the worker that has it for as long as it does not wait for anything else."""
        self._is_kept = True

    def hand_over(self) -> None:
        """Let another worker have the turn if it was kept."""
        if self._is_kept:
            self._is_kept = False
            self.release()

    def release(self) -> None:
        """Let another worker have the turn."""
        self._turn.release()

    @asynccontextmanager
    async def _open_nursery(self) -> AsyncIterator[_Workers]:
        async with trio.open_nursery() as nursery:
            yield _Workers(self, nursery)

    async def _wait_readable(self, descriptor: int) -> None:
        """Wait until there is a request."""
        if self._poll is None:
            os.set_blocking(descriptor, False)  # the request may be gone: its process was killed
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLIN)
        if perf_counter_ns() - self._streak_begun_ns < STREAK_NS and self._is_soon(self._poll):
            return
        await trio.lowlevel.wait_readable(descriptor)
        while not self._poll.poll(0):
            await trio.lowlevel.wait_readable(descriptor)
        self._streak_begun_ns = perf_counter_ns()

    def _is_soon(self, poll: select.poll) -> bool:
        """True if a request comes within a moment."""
        for _ in range(LOOKS):
            if poll.poll(0):
                return True
        return bool(poll.poll(0 if self.waiting else WAIT_MS))


class _ReadLock:
    """The lock under which workers wait."""

    def __init__(self, loop: RequestLoop) -> None:
        self._loop = loop

    async def __aenter__(self) -> None:
        await self._loop.take()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._loop.keep()
        else:
            self._loop.release()


class _Workers:
    """The nursery in which pyfuse3 starts its workers; one that ends does not keep the turn."""

    def __init__(self, loop: RequestLoop, nursery: trio.Nursery) -> None:
        self._loop = loop
        self._nursery = nursery

    def start_soon(self, worker: Callable[..., Awaitable[None]], _: _Workers, *limits: int, name: str) -> None:
        """Start a worker, which may start others."""
        self._nursery.start_soon(self._work, worker, *limits, name=name)

    async def _work(self, worker: Callable[..., Awaitable[None]], *limits: int) -> None:
        is_at_work = True
        while is_at_work:
            try:
                with suppress(BlockingIOError):  # nothing to read after all, which ends a worker of pyfuse3
                    await worker(self, *limits)
                    is_at_work = False
            finally:
                self._loop.hand_over()
