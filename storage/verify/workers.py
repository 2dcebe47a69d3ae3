"""Work done in several processes.

Processes, because most of the work on small batches holds the interpreter's lock; spawned and never forked, because
the caller may have threads. A worker ends with the process that started it, also if that is killed.
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from storage.clock import Clock
from storage.errors import ObjectStoreError, StorageError
from storage.throttle import Throttle

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

_PROGRESS_BYTES: Final = 4 * 1024 * 1024
_PATIENCE_S: Final = 5.0
_ENDED: Final = "a process that was looking through partitions has ended"


class Work(Protocol):
    """Something to do in another process, to which it is sent."""

    def verify(self, advance: Callable[[int], None]) -> object:
        """Return the result, which is sent back; call `advance` with the bytes of logs read since the last call."""


def do_nothing() -> None:
    """Do nothing."""


class Crew(NamedTuple):
    """So many processes, which together read `bytes_per_second_max`. Each calls `prepare` before it does anything."""

    jobs: int
    bytes_per_second_max: float
    prepare: Callable[[], None] = do_nothing


class _Done(NamedTuple):
    """The result of a piece of work."""

    result: Any


def spread(waiting: deque[Work], crew: Crew, *, advance: Callable[[int], None]) -> Iterator[tuple[Work, Any]]:
    """Yield each piece of work and its result, as they come. The first ones are begun first.

    The caller may add work whenever it has received a result. Raises `StorageError` if a worker ends before its work is
    done, and the `ObjectStoreError` that one meets.
    """
    jobs = min(crew.jobs, len(waiting))
    share = crew._replace(jobs=1, bytes_per_second_max=crew.bytes_per_second_max / jobs)
    context = get_context("spawn")
    busy: dict[Connection, Work] = {}
    idle: list[Connection] = []
    with ExitStack() as stopping:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs, share), daemon=True)
            worker.start()
            theirs.close()
            stopping.callback(worker.join, _PATIENCE_S)
            stopping.callback(worker.terminate)
            idle.append(stopping.enter_context(closing(ours)))
        while True:
            _hand_out(idle, waiting, busy)
            if not busy:
                return
            ready = wait(list(busy))
            for connection in [each for each in busy if each in ready]:
                try:
                    said = connection.recv()
                except (EOFError, OSError):
                    raise StorageError(_ENDED) from None
                if isinstance(said, _Done):
                    idle.append(connection)
                    yield busy.pop(connection), said.result
                elif isinstance(said, ObjectStoreError):
                    raise said
                else:
                    advance(said)


def _hand_out(idle: list[Connection], waiting: deque[Work], busy: dict[Connection, Work]) -> None:
    """Send what waits to the workers that have nothing to do."""
    while idle and waiting:
        connection, work = idle.pop(), waiting.popleft()
        try:
            connection.send(work)
        except OSError:
            raise StorageError(_ENDED) from None
        busy[connection] = work


def _work(connection: Connection, crew: Crew) -> None:
    """Do what comes through the connection until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that started this one reports an interrupt
    crew.prepare()
    throttle = Throttle(Clock(), crew.bytes_per_second_max, time.sleep)
    with suppress(EOFError, OSError), closing(connection):
        while True:
            work: Work = connection.recv()
            progress = _Progress(connection, throttle)
            try:
                done: _Done | ObjectStoreError = _Done(work.verify(progress.advance))
                progress.flush()
            except ObjectStoreError as error:
                done = error
            connection.send(done)


class _Progress:
    """Sends how many bytes were read, not too often, and waits where they were read too fast."""

    def __init__(self, connection: Connection, throttle: Throttle) -> None:
        self._connection = connection
        self._throttle = throttle
        self._pending_bytes = 0

    def advance(self, more_bytes: int) -> None:
        """Add bytes that were read; none is a sign of life."""
        self._pending_bytes += more_bytes
        if self._pending_bytes >= _PROGRESS_BYTES or not more_bytes:
            self.flush()

    def flush(self) -> None:
        """Send the bytes that were not sent yet, and wait until they may have been read."""
        self._connection.send(self._pending_bytes)
        self._throttle.took(self._pending_bytes)
        self._pending_bytes = 0
