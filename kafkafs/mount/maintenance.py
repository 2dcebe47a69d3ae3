"""Recovery and maintenance beside a mount: each in a thread of its own, maintenance counted in its metrics."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from storage.files import taking_turns
from storage.store import Maintenance, Mode, recover_unclosed_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.mount.metrics import Metrics
    from kafkafs.mount.options import MountOptions
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
    thread = Thread(target=_recover, args=(store, clock, stopped), name="kafkafs-recovery")
    try:
        yield thread.start
    finally:
        stopped.set()
        if thread.ident is not None:
            thread.join()


def _recover(store: Store, clock: Clock, stopped: Event) -> None:
    try:
        with taking_turns():
            rest = recover_unclosed_logs(store, clock, is_stopped=stopped.is_set)
    except Exception:
        log.exception("recovering the logs ended with an error that kafkafs does not handle: this is a bug")
        return
    for failure in rest.failures:
        log.warning("%s; its log directory still counts as not closed properly", failure)
    if rest.recovered or rest.failures:
        number = f"{rest.recovered} {'log was' if rest.recovered == 1 else 'logs were'} recovered"
        log.info("%s%s", number, ", the others at the next mount" if rest.is_given_up else "")


@contextmanager
def maintained(store: Store, options: MountOptions, metrics: Metrics, clock: Clock) -> Iterator[None]:
    """Maintain the store in the block, if it is open for writing and kafkafs made it, or if the options say so.

    Maintenance has ended when the block has. An unfinished compaction is given up.
    """
    if not is_maintained(store, options):
        yield
        return
    stopped = Event()
    maintenance = Maintenance(store, clock, stopped)
    _show(maintenance, metrics)
    thread = Thread(target=_maintain, args=(maintenance,), name="kafkafs-maintenance")
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def is_maintained(store: Store, options: MountOptions) -> bool:
    """True if a mount of the store with these options maintains it."""
    wanted = store.is_made_here if options.has_maintenance is None else options.has_maintenance
    return store.mode is Mode.READ_WRITE and wanted


def _maintain(maintenance: Maintenance) -> None:
    try:
        with taking_turns():
            maintenance.run()
    except Exception:
        log.exception("maintenance ended with an error that kafkafs does not handle: this is a bug")


def _show(maintenance: Maintenance, metrics: Metrics) -> None:
    jobs, totals = maintenance.jobs, maintenance.totals
    metrics.by_label(
        "kafkafs_maintenance_runs_total",
        "How often a job was done.",
        "job",
        lambda: {job.name: job.runs for job in jobs},
    )
    metrics.by_label(
        "kafkafs_maintenance_failures_total",
        "How often a job failed, as a whole or for one log.",
        "job",
        lambda: {job.name: job.failures for job in jobs},
    )
    metrics.by_label(
        "kafkafs_maintenance_seconds_total",
        "How long a job has worked.",
        "job",
        lambda: {job.name: job.busy_s for job in jobs},
    )
    metrics.gauge("kafkafs_uncleanable_logs", "Logs that could not be compacted.", lambda: len(maintenance.uncleanable))
    for name, help_text, value in (
        ("retention_deleted_segments", "Segments that retention deleted.", lambda: totals.deleted_segments),
        ("retention_deleted_bytes", "Bytes of the segments that retention deleted.", lambda: totals.deleted_bytes),
        ("compactions", "Logs that were compacted.", lambda: totals.compactions),
        ("compaction_read_bytes", "Bytes of the segments that were compacted.", lambda: totals.compacted_bytes),
        ("compaction_freed_bytes", "Bytes that compaction made free.", lambda: totals.freed_bytes),
    ):
        metrics.counter(f"kafkafs_{name}_total", help_text, value)
