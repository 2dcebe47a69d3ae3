"""Partitions verified in several processes.

Processes, because most of the work on small batches holds the interpreter's lock; spawned and never forked, because
the caller may have threads. A worker ends with the process that started it, also if that is killed.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack, closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Final

from storage.errors import ObjectStoreError, StorageError
from storage.verify.partition import PartitionResult, verify_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from storage.verify.context import PartitionExpectation

_PROGRESS_BYTES: Final = 4 * 1024 * 1024
_PATIENCE_S: Final = 5.0
_ENDED: Final = "a process that was looking through partitions has ended"


def spread(
    partitions: Sequence[PartitionExpectation], jobs: int, *, advance: Callable[[int], None]
) -> Iterator[tuple[int, PartitionResult]]:
    """Yield each partition's number in the sequence and its result, as they come. The first ones are begun first.

    Raises `StorageError` if a worker ends before its work is done, and the `ObjectStoreError` that one meets.
    """
    context = get_context("spawn")
    waiting = iter(enumerate(partitions))
    busy: dict[Connection, int] = {}
    with ExitStack() as stopping:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs,), daemon=True)
            worker.start()
            theirs.close()
            stopping.callback(worker.join, _PATIENCE_S)
            stopping.callback(worker.terminate)
            stopping.enter_context(closing(ours))
            _hand_out(ours, waiting, busy)
        while busy:
            ready = wait(list(busy))
            for connection in [each for each in busy if each in ready]:
                try:
                    said = connection.recv()
                except (EOFError, OSError):
                    raise StorageError(_ENDED) from None
                if isinstance(said, PartitionResult):
                    number = busy.pop(connection)
                    _hand_out(connection, waiting, busy)
                    yield number, said
                elif isinstance(said, ObjectStoreError):
                    raise said
                else:
                    advance(said)


def _hand_out(
    connection: Connection, waiting: Iterator[tuple[int, PartitionExpectation]], busy: dict[Connection, int]
) -> None:
    """Send the next partition, if there is one, to a worker that waits."""
    following = next(waiting, None)
    if following is not None:
        number, expected = following
        try:
            connection.send(expected)
        except OSError:
            raise StorageError(_ENDED) from None
        busy[connection] = number


def _work(connection: Connection) -> None:
    """Verify partitions until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the process that started this one reports an interrupt
    with suppress(EOFError, OSError), closing(connection):
        while True:
            expected = connection.recv()
            progress = _Progress(connection)
            try:
                result: PartitionResult | ObjectStoreError = verify_partition(expected, advance=progress.advance)
                progress.flush()
            except ObjectStoreError as error:
                result = error
            connection.send(result)


class _Progress:
    """Sends how many bytes were read, not too often."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pending_bytes = 0

    def advance(self, more_bytes: int) -> None:
        """Add bytes that were read."""
        self._pending_bytes += more_bytes
        if self._pending_bytes >= _PROGRESS_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the bytes that were not sent yet."""
        self._connection.send(self._pending_bytes)
        self._pending_bytes = 0
