"""Opening the logs of a store to write them, which recovers first what a crash left."""

from __future__ import annotations

import logging
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from storage.errors import MetadataLossError
from storage.files import OverlayDirectory
from storage.log.awake_logs import AwakeLogs, awake_logs_max
from storage.log.flushing import Durability
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.recover.recovery import recover_log
from storage.log.recover.report import Repair
from storage.log_dir.names import CLUSTER_METADATA
from storage.record.layout import LOG_OVERHEAD_BYTES
from storage.segment.index.zero_tail import is_zero
from storage.segment.names import parse_name
from storage.segment.sound_batch_search import find_sound_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TypeAlias

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.recover.report import RecoveryReport, Step
    from storage.log_dir.checkpoints import Partition
    from storage.topics.checkpointing import PartitionCheckpoints

_OFFSET_BYTES: Final = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogRequest:
    """All that recovery has to know of a log.

    If it `is_clean`, everything in it is on disk in the form that a closed log has; otherwise everything below
    `recovery_point` is on disk. It begins at `start_offset` or later, and `allows_offset_gaps` if a broker had it.
    `done` are the steps of recovery so far, also of one that failed.
    """

    clock: Clock
    directory: Directory
    partition: Partition
    config: TopicConfig
    producer_expiration_ms: int
    is_clean: bool
    recovery_point: int
    start_offset: int
    allows_offset_gaps: bool
    done: list[Step] = field(default_factory=list)

    def in_overlay(self) -> Self:
        """Return the same log without changes on disk: recovery's writes are kept in memory."""
        return replace(self, directory=OverlayDirectory(self.directory), done=[])


if TYPE_CHECKING:
    OpenLog: TypeAlias = Callable[[LogRequest, PartitionCheckpoints], Log]


class LogOpener:
    """The usual `open_log` of a `Store`; `reports` are what recovery had to do, by partition.

    Appends are as durable as `durability` says. `in_background` runs what brings a rolled segment to disk. So many of
    the logs hold descriptors at once as the process's limit allows. Any thread may call it.
    """

    def __init__(
        self,
        *,
        durability: Durability = Durability.BUFFERED,
        in_background: Callable[[Callable[[], None]], None] = lambda task: task(),
        rng: random.Random | None = None,
    ) -> None:
        self.reports: dict[Partition, RecoveryReport] = {}
        self._durability = durability
        self._in_background = in_background
        self._awake = AwakeLogs(awake_logs_max())
        self._rng = random.Random() if rng is None else rng  # noqa: S311 -- jitter is no secret

    def __call__(self, request: LogRequest, checkpoints: PartitionCheckpoints) -> Log:
        """Recover the log and open it. Before it is truncated, or its start moves, its checkpoints say so."""
        report = recover_requested(request)
        self.reports[request.partition] = report
        if report.lost_bytes:
            logger.warning("%s was recovered: %s", request.directory.name, report.summary())
        elif report.steps or (not request.is_clean and report.scanned_segments):
            logger.info("%s was recovered: %s", request.directory.name, report.summary())
        parts = open_sound_log(
            request.clock,
            request.directory,
            request.config,
            rng=self._rng,
            start_offset=request.start_offset,
            producer_expiration_ms=request.producer_expiration_ms,
            found=report.found,
        )
        return Log(
            request.clock,
            request.directory,
            request.config,
            parts,
            rng=self._rng,
            durability=self._durability,
            in_background=self._in_background,
            lower_checkpoints=checkpoints.lower,
            checkpoint_start=checkpoints.move_start,
            awake=self._awake,
        )


def recover_requested(request: LogRequest) -> RecoveryReport:
    """Recover a log as the request says."""
    return recover_log(
        request.clock,
        request.directory,
        request.config,
        is_clean=request.is_clean,
        recovery_point=request.recovery_point,
        start_offset=request.start_offset,
        allows_offset_gaps=request.allows_offset_gaps,
        producer_expiration_ms=request.producer_expiration_ms,
        done=request.done,
    )


def recover_guarded(request: LogRequest, *, cuts_metadata: bool) -> RecoveryReport:
    """Recover a log; raises `MetadataLossError`, having done nothing, where that needs `cuts_metadata`.

    A broker that starts on the cluster's metadata log without its last records takes the topics that are made in them
    for unknown, and renames each of their partitions to `-stray`. So recovery cuts by itself only what was never
    acknowledged: the first part of a batch at the end of the file, or zeros. Other logs are cut where they have to be.

    A broker reads this log whole at each start, and believes neither the clean-shutdown marker nor the recovery point.
    So neither is believed here if the log is damaged.
    """
    if request.partition[0] == CLUSTER_METADATA:
        whole = replace(request, is_clean=False, recovery_point=0)
        plan = recover_requested(whole.in_overlay())
        request = whole if plan.lost_bytes else request
        for step in () if cuts_metadata else plan.steps:
            if step.lost_bytes and not (step.repair is Repair.CUT and _was_never_acknowledged(request, step)):
                raise MetadataLossError(
                    f"{plan.lost_bytes} bytes of the cluster's metadata log would be cut, {step.reason}; a broker that "
                    "starts without them renames the partitions of all topics made in them to -stray; copy the "
                    "directory from another controller, or cut it with --cut-metadata",
                    path=request.directory.path_of(step.name),
                    position=step.position,
                    offset=step.offset,
                )
    return recover_requested(request)


def _was_never_acknowledged(request: LogRequest, step: Step) -> bool:
    """True if what would be cut is the beginning of a batch, with nothing after it, or unused space."""
    name = parse_name(step.name)
    assert name is not None
    assert step.position is not None
    assert step.offset is not None
    start = step.position
    with request.directory.open_reading(step.name) as file:
        end = file.size_bytes()
        if is_zero(file, start, end):
            return True
        header = file.read_at(start, LOG_OVERHEAD_BYTES)
        length = int.from_bytes(header[_OFFSET_BYTES:], "big", signed=True)
        is_incomplete = len(header) < LOG_OVERHEAD_BYTES or start + LOG_OVERHEAD_BYTES + length > end
        found = find_sound_batch(file, start, end, base_offset=name.offset, next_offset=step.offset)
    return is_incomplete and found is None


class FlushThread:
    """A thread that runs what it is given, one thing after another; it comes with the first, and goes at the end."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "kafkafs-flush")

    def __call__(self, task: Callable[[], None]) -> None:
        """Run it later."""
        self._executor.submit(task)
