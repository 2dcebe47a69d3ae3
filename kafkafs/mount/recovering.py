"""Recovery beside a mount, of the logs that no request has opened yet."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from storage.store import recover_unclosed_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.clock import Clock
    from storage.store import Store

log: Final = logging.getLogger("kafkafs.mount")


@contextmanager
def recovered_beside(store: Store, clock: Clock) -> Iterator[Callable[[], None]]:
    """Recover the logs of log directories that were not closed properly, in a thread of its own.

    A log that a request opens first is recovered for that request. At the end of the block the current log is finished,
    and no other is begun.
    """
    stopped = Event()
    thread = Thread(target=_run, args=(store, clock, stopped), name="kafkafs-recovery")
    try:
        yield thread.start
    finally:
        stopped.set()
        if thread.ident is not None:
            thread.join()


def _run(store: Store, clock: Clock, stopped: Event) -> None:
    try:
        rest = recover_unclosed_logs(store, clock, is_stopped=stopped.is_set)
    except Exception:
        log.exception("recovering the logs ended with an error that kafkafs does not handle: this is a bug")
        return
    for failure in rest.failures:
        log.warning("%s; its log directory still counts as not closed properly", failure)
    if rest.recovered or rest.failures:
        number = f"{rest.recovered} {'log was' if rest.recovered == 1 else 'logs were'} recovered"
        log.info("%s%s", number, ", the others at the next mount" if rest.is_given_up else "")
