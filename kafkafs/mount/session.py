"""A mount from its beginning to its end: served until it is unmounted or a signal comes, and then ended cleanly.

Memory that a burst of requests leaves behind is given back once the mount is quiet.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import sys
from contextlib import closing, suppress
from functools import partial
from threading import Timer
from time import process_time
from typing import TYPE_CHECKING, Final

import pyfuse3
import trio

from kafkafs.allocation import give_back_beyond, give_back_freed_memory, give_back_large_blocks, seldom_look_for_cycles
from kafkafs.mount.dispatch import in_thread, spare_threads
from kafkafs.mount.long_requests import LongRequests
from kafkafs.mount.mountpoints.kernel_mount import mounted, read_ahead
from kafkafs.mount.process import EndingSignal
from kafkafs.mount.pyfuse3_internals import OptionText
from storage.budget import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkafs.mount.handlers import TreeOperations
    from kafkafs.mount.options import MountOptions

log: Final = logging.getLogger("kafkafs.mount")

LOOK_S: Final = 2.0
CACHE_LOOKS: Final = 15
BUSY_S: Final = 0.1
"""A process that used more processor time than this since the last look was busy."""
TASKS_MAX: Final = 10_000
"""How many requests may wait at a time; no other is answered meanwhile. Each takes a few kilobytes."""
GRACE_S: Final = 0.5
END_S: Final = 4.0
"""How long requests in flight keep the process from ending."""
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SWITCH_INTERVAL_S: Final = 0.001
"""How long a decoding thread may delay the event loop; Python's default is five times that."""


class Quiet:
    """Calls `give_back` when a busy time has ended, and `give_back_caches` when none has followed for half a minute.

    `used_s` is the processor time that the process has used so far.
    """

    def __init__(
        self,
        give_back: Callable[[], None],
        give_back_caches: Callable[[], None],
        used_s: Callable[[], float] = process_time,
    ) -> None:
        self._calls = {1: give_back, CACHE_LOOKS: give_back_caches}
        self._used_s = used_s
        self._seen_s = used_s()
        self._quiet_looks = CACHE_LOOKS  # since a busy one

    async def run(self) -> None:
        """Look now and then until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Give memory back if the process was busy, and has not been since for as many looks as that takes."""
        used_s = self._used_s()
        is_busy = used_s - self._seen_s > BUSY_S
        self._seen_s = used_s
        self._quiet_looks = 0 if is_busy else self._quiet_looks + 1
        call = self._calls.get(self._quiet_looks)
        if call is not None:
            await in_thread(call)


def kernel_options(options: MountOptions, source: str, *, is_read_only: bool) -> set[str]:
    """Return libfuse's options. A read-only mount is one for the kernel too, which then refuses writes by itself.

    The source is the text of a path or paths, which may have any bytes.
    """
    # Commas and backslashes would end the option.
    escaped = re.sub(r"([,\\])", r"\\\1", source)
    told: set[str] = {OptionText(f"fsname={escaped}"), "subtype=kafkafs", "default_permissions"}
    if is_read_only:
        told.add("ro")
    if options.allows_others:
        told.add("allow_other")
    if options.unmounts_itself:
        told.add("auto_unmount")
    return told


class Deadline:
    """Ends the process if requests that are in flight have not ended in time, once the mount is ending."""

    def __init__(self, path: Path, *, seconds: float = END_S, end: Callable[[int], object] = os._exit) -> None:
        self._path = path
        self._end = end
        self._timer = Timer(seconds, self._pass)
        self._timer.daemon = True

    def begin(self) -> None:
        """Begin to count the time, unless it is counted already."""
        if self._timer.ident is None:
            self._timer.start()

    def close(self) -> None:
        """End: the requests have ended."""
        self._timer.cancel()

    def _pass(self) -> None:
        log.error(
            "%s: requests have not ended in %s seconds, so kafkafs ends without them: the store is not closed properly",
            self._path,
            END_S,
        )
        logging.shutdown()
        self._end(1)


class Session:
    """One mount of one tree. When `run` returns it is unmounted, and no request uses the tree any more.

    `beside_s` is the processor time that work beside the requests has taken. A mount is quiet while only that goes on.
    """

    def __init__(
        self,
        operations: TreeOperations,
        path: Path,
        options: set[str],
        *,
        beside_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._operations = operations
        self._beside_s = beside_s
        self._path = path
        self._options = options
        self._deadline = Deadline(path)

    def run(self, *, ready: Callable[[], None], ending: Callable[[], None] = lambda: None) -> None:
        """Serve until it is unmounted or SIGTERM, SIGINT or SIGHUP comes; raises `MountError` if it cannot begin.

        `ready` is called once the mount answers, and `ending` when a signal ends it. Requests in flight have a moment
        to finish, and writes `END_S`: after that the process ends without them, as if it had been killed.
        """
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        seldom_look_for_cycles()
        give_back_large_blocks()
        with (
            mounted(self._operations, self._path, self._options),
            self._operations.requests.installed(),
            closing(self._deadline),
        ):
            trio.run(self._serve, ready, ending)
        gc.freeze()  # the process ends, and would look for cycles in all that it knows, several times

    async def _serve(self, ready: Callable[[], None], ending: Callable[[], None]) -> None:
        async with trio.open_nursery() as nursery:
            token = trio.lowlevel.current_trio_token()
            MEMORY.share(spare_threads(token), make_room=partial(give_back_beyond, MEMORY.limit_bytes))
            MEMORY.never_lease_here()
            await nursery.start(self._end_on_signal, nursery.cancel_scope, ending)
            nursery.start_soon(self._operations.watcher.run)
            nursery.start_soon(self._operations.waits.run)
            nursery.start_soon(LongRequests(self._operations).run)
            nursery.start_soon(Quiet(self._give_back, self._give_back_caches, self._used_s).run)
            nursery.start_soon(self._say_when_it_answers, ready)
            await pyfuse3.main(max_tasks=TASKS_MAX)
            self._deadline.begin()
            nursery.cancel_scope.cancel()
        log.info("%s is no longer mounted", self._path)

    def _used_s(self) -> float:
        return process_time() - self._beside_s()

    def _give_back(self) -> None:
        self._operations.inodes.drop_large()
        give_back_freed_memory()

    def _give_back_caches(self) -> None:
        MEMORY.shrink_caches()
        give_back_freed_memory()

    async def _say_when_it_answers(self, ready: Callable[[], None]) -> None:
        # The mount's own process may look into it only from a thread.
        await trio.to_thread.run_sync(os.stat, self._path, abandon_on_cancel=True)
        read_ahead(self._path)
        ready()

    async def _end_on_signal(
        self,
        scope: trio.CancelScope,
        ending: Callable[[], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        # A signal that comes at the very end is delivered once more where trio leaves the block.
        with suppress(EndingSignal), trio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                log.info("%s ends the mount", signal.Signals(number).name)
                ending()
                self._deadline.begin()
                pyfuse3.terminate()
                await trio.sleep(GRACE_S)
                scope.cancel()
