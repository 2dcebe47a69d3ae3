"""Recovering the logs that a store was left with, while it is open: those that no caller has asked for yet.

A log directory counts as closed properly only if each of its logs was recovered or opened since it was not. A broker
recovers all of them when it starts. A store that opens a log when it is first asked for does the rest here, so that one
unclean end does not leave it unclean for ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from storage.errors import StorageError, UnknownPartitionError, in_words, is_full_disk
from storage.log_dir.names import DirectoryName, DirectoryState
from storage.store.store import Mode
from storage.store.store_recovery import RecoveryOptions, offsets_after, recover_requested_log, request_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.files import Directory
    from storage.log.recover.report import RecoveryReport, Step
    from storage.log_dir.log_dir import LogDir
    from storage.store.log_opener import LogRequest
    from storage.store.store import Store
    from storage.topics.checkpointing import LogOffsets

    _Recover: TypeAlias = Callable[[], RecoveryReport | None]

logger = logging.getLogger(__name__)

_AS_RECOVER_DOES = RecoveryOptions()


@dataclass
class RecoveredRest:
    """The outcome for these logs: how many were recovered, and why others were not."""

    recovered: int = 0
    failures: list[str] = field(default_factory=list)
    is_given_up: bool = False


def recover_unclosed_logs(store: Store, clock: Clock, *, is_stopped: Callable[[], bool]) -> RecoveredRest:
    """Recover what is left of the log directories that were not closed properly, one log after another.

    A caller that asks for a log meanwhile waits for that log only. A log that is open, or failed before, is left alone.
    No log stays open, and one that lost bytes is named in a warning. Logs for which the disk had no room are tried once
    more at the end, as the recovery of others may have made some. Between two logs `is_stopped` is asked whether to
    give up.
    """
    return _Run(store, clock).run(is_stopped)


class _Run:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rest = RecoveredRest()
        self._done: dict[Directory, list[Step]] = {}  # the steps for each log, of all attempts

    def run(self, is_stopped: Callable[[], bool]) -> RecoveredRest:
        store, rest = self._store, self._rest
        if store.mode is Mode.READ_ONLY:
            return rest
        logs: list[tuple[str, _Recover]] = [
            (f"{topic}-{partition}", partial(self._recover_partition, topic, partition))
            for topic, partition in store.partitions_to_recover()
        ]
        logs += [(str(name), partial(self._recover_beside, log_dir, name)) for log_dir, name in self._beside()]
        for _ in range(2):
            left, logs = logs, []
            for name, recover in left:
                if is_stopped():
                    rest.is_given_up = True
                    return rest
                if not self._has_room(name, recover):
                    logs.append((name, recover))
        if logs:
            more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
            rest.failures.append(f"{logs[0][0]}{more} could not be recovered, because the disk is full")
        return rest

    def _beside(self) -> Iterator[tuple[LogDir, DirectoryName]]:
        """Copies and strays, which a broker recovers as well."""
        for log_dir, name in self._store.topics.inventory.recovered_beside:
            if not self._store.shutdown.was_clean(log_dir) and not self._store.shutdown.is_noted(
                log_dir.directory.at(str(name))
            ):
                yield log_dir, name

    def _has_room(self, name: str, recover: _Recover) -> bool:
        """Recover a log, and count the outcome; False, and nothing is counted, if the disk is full."""
        rest = self._rest
        try:
            report = recover()
        except UnknownPartitionError:
            return True  # it was deleted meanwhile
        except (StorageError, OSError) as error:
            if is_full_disk(error):
                return False
            rest.failures.append(f"{name} could not be recovered: {in_words(error)}")
            return True
        if report is not None:
            say = logger.warning if report.lost_bytes else logger.info
            say("%s was recovered: %s", name, report.summary())
            rest.recovered += 1
        return True

    def _recover_partition(self, topic: str, partition: int) -> RecoveryReport | None:
        reports: list[RecoveryReport] = []

        def recover(request: LogRequest) -> LogOffsets:
            reports.append(self._recovered(request))
            return offsets_after(request, reports[0])

        self._store.recover_unopened(topic, partition, recover)
        return reports[0] if reports else None

    def _recover_beside(self, log_dir: LogDir, name: DirectoryName) -> RecoveryReport:
        assert name.state is not DirectoryState.CURRENT
        request = request_beside(self._store, self._clock, log_dir, name)
        self._store.shutdown.note(request.directory, None)
        report = self._recovered(request)
        self._store.shutdown.note(request.directory, offsets_after(request, report))
        return report

    def _recovered(self, request: LogRequest) -> RecoveryReport:
        done = self._done.setdefault(request.directory, [])
        try:
            report = recover_requested_log(request, _AS_RECOVER_DOES)
        finally:
            done += request.done
        report.steps = done
        return report
