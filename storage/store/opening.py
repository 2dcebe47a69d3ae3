"""How a store opens its logs: recovered and written, or followed without changing a byte."""

from __future__ import annotations

import logging
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from storage.log.flushing import Durability
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.recover.recovery import recover_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.files import Files
    from storage.log.awake_logs import AwakeLogs
    from storage.log.recover.report import RecoveryReport
    from storage.log_dir.checkpoints import Partition
    from storage.topics.open_logs import LogRequest, PartitionLog

logger = logging.getLogger(__name__)


class LogOpener:
    """What a `Store` takes as `open_log`; `reports` are what recovery had to do, by the partition.

    Appends are as durable as `durability` says. `in_background` runs what brings a rolled segment to disk. How many of
    the logs hold descriptors is bounded by `awake`. Any thread may call it.
    """

    def __init__(
        self,
        *,
        durability: Durability = Durability.BUFFERED,
        in_background: Callable[[Callable[[], None]], None] = lambda task: task(),
        rng: random.Random | None = None,
        awake: AwakeLogs | None = None,
    ) -> None:
        self.reports: dict[Partition, RecoveryReport] = {}
        self._durability = durability
        self._in_background = in_background
        self._awake = awake
        self._rng = random.Random() if rng is None else rng  # noqa: S311 -- jitter is no secret

    def __call__(self, request: LogRequest) -> PartitionLog:
        """Open the log: to write it, with what a crash left recovered first, or else to follow it."""
        return self._recovered(request) if request.is_writable else followed_log(request)

    def _recovered(self, request: LogRequest) -> Log:
        partition = (request.topic, request.partition)
        report = recover_requested(request, request.files)
        self.reports[partition] = report
        if report.lost_bytes:
            logger.warning("%s was recovered: %s", request.directory.name, report.summary())
        elif report.steps or (not request.is_clean and report.scanned_segments):
            logger.info("%s was recovered: %s", request.directory.name, report.summary())
        parts = open_sound_log(
            request.files,
            request.clock,
            request.directory,
            request.config,
            rng=self._rng,
            start_offset=request.start_offset,
            producer_expiration_ms=request.store_config.producer_id_expiration_ms,
        )
        return Log(
            request.files,
            request.clock,
            request.directory,
            request.config,
            parts,
            rng=self._rng,
            durability=self._durability,
            in_background=self._in_background,
            lower_checkpoints=request.lower_checkpoints,
            checkpoint_start=request.checkpoint_start,
            awake=self._awake,
        )


def recover_requested(request: LogRequest, files: Files) -> RecoveryReport:
    """Recover a log that a store asks for, in these files."""
    return recover_log(
        files,
        request.clock,
        request.directory,
        request.config,
        is_clean=request.is_clean,
        recovery_point=request.recovery_point,
        start_offset=request.start_offset,
        allows_offset_gaps=request.allows_offset_gaps,
        producer_expiration_ms=request.store_config.producer_id_expiration_ms,
    )


class FlushThread:
    """A thread that runs what it is given, one thing after another; it comes with the first, and goes at the end."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "kafkafs-flush")

    def __call__(self, task: Callable[[], None]) -> None:
        """Have it run, some time."""
        self._executor.submit(task)


def followed_log(request: LogRequest) -> FollowedLog:
    """The log as somebody else's, of which not a byte is changed."""
    return FollowedLog(
        request.files,
        request.clock,
        request.directory,
        request.config,
        start_offset=request.start_offset,
        recovery_point=request.recovery_point,
        producer_expiration_ms=request.store_config.producer_id_expiration_ms,
        withheld=request.withheld,
        look_again=request.look_again,
    )
