"""Open files: what is read, short reads at once and long ones in a thread, and what is written, in its order.

No reply waits for data that is yet to come: a reader that waits in the kernel cannot be killed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafkafs.content.patience import READ_S
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.mount.dispatch import Turn, in_thread
from kafkafs.mount.readers import Program, ReaderPatience, process_of
from kafkafs.tree.node import WritableFile
from kafkafs.tree.rendered_run import RunReading
from kafkafs.tree.stream_file import StreamReading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from typing_extensions import Buffer

    from kafkafs.mount.dispatch import Pace, RequestLoop
    from kafkafs.mount.inodes import Inode
    from kafkafs.mount.readers import Waits
    from kafkafs.tree.node import NodeTree, Reading, Writing

Result = TypeVar("Result")

SHORT_BYTES_MAX: Final = 128 * 1024
"""A larger write is long work, which leaves the event loop while another request waits for its answer."""
_TAILS: Final = frozenset({b"tail\n", b"tac\n"})
PIECE_BYTES_MIN: Final = 1024 * 1024 - 4095
"""A smaller write is at most the last piece of a longer one: the kernel splits writes at full pages."""


class OpenFile(Protocol):
    """A descriptor, or several that stem from one `open`."""

    inode: Inode

    async def read(self, position: int, size_bytes: int) -> Buffer:
        """Return the bytes from the position."""

    async def write(self, data: bytes) -> None:
        """Take all of it, or raise an error."""

    async def flush(self) -> bool:
        """Handle the closing of one descriptor; True if that may have added records."""

    async def sync(self) -> None:
        """Return when what was written is on disk."""

    def reached(self) -> int | None:
        """Return the offset up to which a read has come, None where that is unknown."""

    def close(self) -> None:
        """Handle the closing of the last descriptor."""


class FileForReading:
    """A file open for reading, by a thread of this number. An immutable one is opened when it is first read."""

    def __init__(
        self,
        inode: Inode,
        reading: Reading | None,
        open_now: Callable[[], Awaitable[Reading]],
        sync: Callable[[], None],
        waits: Waits,
        *,
        thread: int,
        is_direct: bool = False,
    ) -> None:
        self.inode = inode
        self._waits = waits
        self._thread = thread
        self._process = process_of(thread) if isinstance(reading, RunReading) else 0
        self._limit_s = READ_S if is_direct else inf  # a short read is the file's end to the kernel where it has pages
        self._reading = reading
        self._open_now = open_now
        self._opening = Turn()
        self._sync = sync
        if reading is not None:
            inode.readings.append(reading)

    async def _opened(self) -> Reading:
        async with self._opening:
            if self._reading is None:
                self._reading = await self._open_now()
                self.inode.readings.append(self._reading)
        return self._reading

    async def read(self, position: int, size_bytes: int) -> Buffer:
        """The bytes there, short only at the end."""
        reading, tail = self._reading or await self._opened(), self.inode.tail
        if tail is None:
            return await self._read(reading, position, size_bytes)
        tail.read_begins()
        try:
            return await self._read(reading, position, size_bytes)
        finally:
            tail.read_ends()

    async def _read(self, reading: Reading, position: int, size_bytes: int) -> Buffer:
        data = reading.read_soon(position, size_bytes)
        if data is None:
            patience = self._patience()
            work = partial(reading.read, position, size_bytes)
            if isinstance(reading, RunReading):
                work = partial(reading.read, position, size_bytes, patience)
            program = Program(self._process or self._thread, patience.signals, is_catching=True)
            data = await self.inode.share.run(work, wait=partial(self._waits.of, program), may_abandon=True)
        return data

    def _patience(self) -> ReaderPatience:
        """Return the patience of a read. Where the kernel takes pages from it, a short one is the file's end.

        It has pages of a file of known size, and a process may map one whose size it was told after it was opened.
        """
        limit_s = self._limit_s if self.inode.attributes.size_bytes is None else inf
        return ReaderPatience(self._process, limit_s, may_be_mapped=limit_s == inf)

    async def write(self, data: bytes) -> None:
        """Never called: the kernel does not write here."""
        raise OSError(9, f"{self.inode.path} is not open for writing ({len(data)} bytes)")

    async def flush(self) -> bool:
        """Do nothing: no bytes are held back."""
        return False

    async def sync(self) -> None:
        """Return when the log that is read is on disk, as far as it is written through this mount."""
        await in_thread(self._sync)

    def reached(self) -> int | None:
        """Return the offset that a read of records has come to."""
        return self._reading.reached() if isinstance(self._reading, RunReading) else None

    def close(self) -> None:
        """Close it."""
        if self._reading is not None:
            release(self.inode, self._reading)


def release(inode: Inode, reading: Reading) -> None:
    """Close a reading, unless another descriptor shares it."""
    inode.readings.remove(reading)
    if reading not in inode.readings:
        reading.close()


def expect_seek(readings: Sequence[Reading], process: int) -> None:
    """Tell an open stream of unknown size if the process that asks for it reads nothing of a file but its end."""
    for reading in readings[:1]:
        if isinstance(reading, StreamReading) and not reading.is_size_told:
            with suppress(OSError):
                reading.is_about_to_seek = Path(f"/proc/{process}/comm").read_bytes() in _TAILS


def sync_log(tree: NodeTree, inode: Inode) -> None:
    """Sync the log that a file shows, if the mount writes it."""
    path = inode.path if inode.log is None else PartitionFilePath(inode.log, View.APPEND)
    node = tree.node(path)
    if isinstance(node, WritableFile) and node.attributes().is_writable:
        writing = node.open_writing()
        try:
            writing.sync()
        finally:
            writing.close()


class FileForWriting:
    """A file open for writing; reading it returns its writer's receipts. Each call waits for those before.

    A writer always gets the error of a refusal. The kernel splits a long write, and if a later piece is refused it
    reports only a short write; the writer then goes on with that piece. So the write after an unreported refusal is
    refused as well.
    """

    def __init__(self, inode: Inode, writing: Writing, pace: Pace, requests: RequestLoop, *, is_durable: bool) -> None:
        self.inode = inode
        self._writing = writing
        self._requests = requests
        self._pace = pace
        self._is_durable = is_durable
        self._is_slow = inode.path.view is View.APPEND_BATCH  # a small batch may hold very much
        self._turn = Turn()
        self._is_unsynced = False
        self._follows_piece = False
        self._unheard: Exception | None = None

    async def read(self, _: int, size_bytes: int) -> bytes:
        """Return receipts, oldest first; the position is ignored."""
        return await self._in_turn(lambda: self._writing.read(size_bytes))

    async def write(self, data: bytes) -> None:
        """Take all of it, or raise and take none; sync it if each write is to be durable."""
        self._is_unsynced = True
        follows_piece, self._follows_piece = self._follows_piece, len(data) >= PIECE_BYTES_MIN
        self._tell_unheard()
        try:
            is_long = self._is_slow or len(data) > SHORT_BYTES_MAX
            await self._in_turn(lambda: self._writing.write(data), is_long=is_long)
        except Exception as error:
            self._unheard = error if follows_piece else None
            raise

    async def flush(self) -> bool:
        """Take what this close completes."""
        await self._in_turn(self._writing.flush)
        self._tell_unheard()
        return True

    def _tell_unheard(self) -> None:
        error, self._unheard = self._unheard, None
        if error is not None:
            raise error

    async def sync(self) -> None:
        """Take what this completes, and return when all is on disk."""
        async with self._turn:
            await self._pace.run_in_thread(self._flush_and_sync)

    def reached(self) -> None:
        """Return None: receipts take no time."""

    def close(self) -> None:
        """Close it. Errors are dropped."""
        self._writing.close()

    async def _in_turn(self, work: Callable[[], Result], *, is_long: bool = False) -> Result:
        if not self._turn.take_at_once():
            await self._turn.take()
        try:
            if self._is_durable and self._is_unsynced:
                return await self._pace.run_in_thread(lambda: self._synced(work))
            if is_long and (self._is_slow or self._requests.is_awaited):
                return await self._pace.run_in_thread(work, is_long=True)
            return await self._pace.run(work, is_long=is_long)
        finally:
            self._turn.release()

    def _synced(self, work: Callable[[], Result]) -> Result:
        result = work()
        self._writing.sync()
        self._is_unsynced = False
        return result

    def _flush_and_sync(self) -> None:
        self._writing.flush()
        self._writing.sync()
        self._is_unsynced = False
