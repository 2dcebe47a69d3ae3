"""Recovering every log of a store at once, and a commit that was interrupted, or saying what that would do.

What a broker recovers when it starts is recovered: the partitions, copies on their way from another log directory, and
strays. A log that cannot be recovered does not keep the others from it; then its log directory is not marked as closed
properly. A plan and the recovery name the same steps, and each file that changes is in one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import StorageError, SymbolicLinkError
from storage.files import OverlayFiles
from storage.log.followed_log import UncommittedRange
from storage.log.index_cache import IndexCache
from storage.log.recover.recovery import refuse_links
from storage.log.recover.report import RecoveryReport
from storage.log.view import LogView, StableState
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.directory_names import DirectoryName, DirectoryState
from storage.log_dir.recognition import has_segment
from storage.segment.names import FileSuffix, Kind, parse_name
from storage.segment.segment import Segment
from storage.store.metadata_guard import recover_guarded
from storage.store.recovered_log_dir import RecoveredLogDir, StoreBefore, recovered_log_dir
from storage.store.recovering_commit import RecoveredCommit, pending_commit, planned_commit, recovered_commit
from storage.store.store import Mode, Store
from storage.topics.open_logs import LogRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory, Files
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.topics.open_logs import PartitionLog

    Announce: TypeAlias = Callable[[str, int, int], None]
    Tell: TypeAlias = Callable[["Recovered | RecoveredCommit | RecoveredLogDir"], None]


class Recovered(NamedTuple):
    """What became of a partition's log: a report, or the error that kept it from being recovered.

    Everything before the high watermark was replicated once, as far as the last checkpoint knew.
    """

    topic: str
    partition: int
    directory: Path
    high_watermark: int
    report: RecoveryReport | None
    error: StorageError | OSError | None


@dataclass
class RecoveredLog:
    """A log that was recovered and is not opened: what checkpoints say of it."""

    config: TopicConfig
    view: LogView
    recovery_point: int
    is_poisoned: bool = False

    def close(self) -> None:
        """Nothing: no file is open."""


@dataclass(frozen=True)
class RecoveryOptions:
    """What recovering a store is to do besides.

    `ignores_marker` ignores the marker and the recovery points, and reads all logs from their first segment on.
    `cuts_metadata` cuts the cluster's metadata log where it is damaged. `withdraws_commit` takes an interrupted commit
    back if it cannot be completed. The settings are the broker's.
    """

    ignores_marker: bool = False
    cuts_metadata: bool = False
    withdraws_commit: bool = False
    broker_settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


_NOTHING_ELSE = RecoveryOptions()


def recover_store(
    paths: Sequence[str | os.PathLike[str]],
    *,
    files: Files,
    clock: Clock,
    announce: Announce,
    tell: Tell,
    options: RecoveryOptions = _NOTHING_ELSE,
) -> None:
    """Recover each log of a store that nobody has open, and leave the store as if it had been closed properly.

    Each is announced, with its number and how many there are, and then its outcome is told; after the logs those of the
    log directories are, and of a commit that was interrupted. Raises what `Store.open` raises, before anything is
    changed.
    """
    settings = options.broker_settings
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=settings) as looked_at:
        before = StoreBefore.of(looked_at)
    reports: dict[Directory, RecoveryReport] = {}

    def open_log(request: LogRequest) -> RecoveredLog:
        return recover_requested_log(request, files, options, reports)

    opened = Store.open(
        paths, mode=Mode.READ_WRITE, files=files, clock=clock, open_log=open_log, broker_settings=settings
    )
    with opened as store:
        run = _Run(store, clock, options, announce, tell, reports)
        run.recover(lambda request: store.log(request.topic, request.partition), open_log)
        log_dirs = run.log_dirs(before)
    for log_dir in log_dirs:
        tell(log_dir)
    pending = pending_commit(paths, files)
    if pending is not None:
        with Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock, broker_settings=settings) as store:
            tell(recovered_commit(store, pending, withdraws=options.withdraws_commit))


def plan_recovery(
    paths: Sequence[str | os.PathLike[str]],
    *,
    files: Files,
    clock: Clock,
    announce: Announce,
    tell: Tell,
    options: RecoveryOptions = _NOTHING_ELSE,
) -> None:
    """Tell what `recover_store` would do, without changing a byte or keeping anybody out."""
    reports: dict[Directory, RecoveryReport] = {}

    def plan_log(request: LogRequest) -> RecoveredLog:
        return recover_requested_log(request, OverlayFiles(files), options, reports)

    opened = Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=options.broker_settings)
    with opened as store:
        run = _Run(store, clock, options, announce, tell, reports)
        run.recover(plan_log, plan_log)
        for log_dir in run.log_dirs(StoreBefore.of(store)):
            tell(log_dir)
        pending = pending_commit(paths, files)
        if pending is not None:
            tell(planned_commit(store, pending, withdraws=options.withdraws_commit))


class _Run:
    """One recovery, or the plan of one, in a store that is open for it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        options: RecoveryOptions,
        announce: Announce,
        tell: Tell,
        reports: dict[Directory, RecoveryReport],
    ) -> None:
        self._store = store
        self._clock = clock
        self._options = options
        self._announce = announce
        self._tell = tell
        self._reports = reports
        self._logs: dict[Partition, PartitionLog] = {}
        self._failed: set[Partition] = set()
        self._changed: set[LogDir] = set()
        self._believed: Counter[LogDir] = Counter()

    def recover(
        self, current: Callable[[LogRequest], PartitionLog], beside: Callable[[LogRequest], PartitionLog]
    ) -> None:
        """Recover each log, those of partitions with the one and the others with the other."""
        places, inventory = list(self._places()), self._store.topics.inventory
        for number, (log_dir, name) in enumerate(places, start=1):
            directory, partition = log_dir.directory.at(str(name)), (name.topic, name.partition)
            is_link = (log_dir, name) in inventory.links
            self._announce(str(name), number, len(places))
            watermark = log_dir.offsets(OffsetCheckpoint.HIGH_WATERMARK).get(partition, 0)
            try:
                if is_link:
                    raise SymbolicLinkError(directory.path)
                if name.state is DirectoryState.CURRENT:
                    self._logs[partition] = current(self._store.request(*partition))
                else:
                    log = beside(request_beside(self._store, self._clock, log_dir, name))
                    self._store.beside.note(directory, log)
            except (StorageError, OSError) as error:
                self._note_failure(log_dir, name, is_link=is_link)
                self._tell(Recovered(*partition, Path(directory), watermark, None, error))
                continue
            report = self._reports.pop(directory)
            self._believed[log_dir] += report.trusted_segments
            if report.steps:
                self._changed.add(log_dir)
            self._tell(Recovered(*partition, Path(directory), watermark, report, None))

    def _note_failure(self, log_dir: LogDir, name: DirectoryName, *, is_link: bool) -> None:
        self._changed.add(log_dir)
        if name.state is DirectoryState.CURRENT and not is_link:
            self._failed.add((name.topic, name.partition))
        else:
            self._store.beside.note(log_dir.directory.at(str(name)), None)

    def _places(self) -> Iterator[tuple[LogDir, DirectoryName]]:
        """The directories to be recovered."""
        inventory = self._store.topics.inventory
        for topic, partition in sorted(inventory.partitions()):
            yield self._store.topics.place(topic, partition)[1], DirectoryName(topic, partition)
        yield from inventory.recovered_beside
        yield from inventory.links

    def log_dirs(self, before: StoreBefore) -> list[RecoveredLogDir]:
        """What becomes of the log directories themselves, once the store is closed."""
        found = []
        for log_dir in self._store.log_dirs:
            offsets = self._store.checkpoints_to_write(log_dir, self._logs)
            is_closed = self._store.was_closed_properly(log_dir, self._logs, self._failed)
            told = recovered_log_dir(
                log_dir,
                before,
                offsets=offsets,
                is_closed=is_closed,
                has_marker=self._store.has_marker(log_dir),
                is_changed=log_dir in self._changed,
                trusts_marker=self._store.was_clean(log_dir) and not self._options.ignores_marker,
                trusted_segments=self._believed[log_dir],
            )
            if told.is_unchanged:
                self._store.unchanged.add(log_dir)
            found.append(told)
        return found


def recover_requested_log(
    request: LogRequest, files: Files, options: RecoveryOptions, reports: dict[Directory, RecoveryReport]
) -> RecoveredLog:
    """Recover what is in a directory; one without any segment is left as it is."""
    if options.ignores_marker:
        request = replace(request, is_clean=False, recovery_point=0)
    if has_segment(request.directory):
        report = recover_guarded(request, files, cuts_metadata=options.cuts_metadata)
    else:
        refuse_links(files, request.directory)
        report = RecoveryReport()
        report.start_offset = report.end_offset = request.start_offset
    reports[request.directory] = report
    return RecoveredLog(request.config, _view(request, files, report), report.end_offset)


def request_beside(store: Store, clock: Clock, log_dir: LogDir, name: DirectoryName) -> LogRequest:
    """What there is to know of a copy or a stray.

    Checkpoints speak of it unless the partition of the same name is in the same log directory.
    """
    topic, partition = name.topic, name.partition
    inventory = store.topics.inventory
    is_spoken_of = inventory.log_dir(topic, partition) is not log_dir

    def known(checkpoint: OffsetCheckpoint) -> int:
        return log_dir.offsets(checkpoint).get((topic, partition), 0) if is_spoken_of else 0

    return LogRequest(
        store.files,
        clock,
        log_dir.directory.at(str(name)),
        topic,
        partition,
        store.topics.config(topic) if topic in inventory.topics else store.config.topic({}),
        store.config,
        is_writable=store.mode is Mode.READ_WRITE,
        is_clean=store.was_clean(log_dir),
        recovery_point=known(OffsetCheckpoint.RECOVERY_POINT),
        start_offset=known(OffsetCheckpoint.LOG_START),
        allows_offset_gaps=True,
        lower_checkpoints=lambda _: None,
        checkpoint_start=lambda _: None,
        withheld=UncommittedRange,
        look_again=lambda: None,
    )


def _view(request: LogRequest, files: Files, report: RecoveryReport) -> LogView:
    names = map(parse_name, files.names(request.directory))
    bases = sorted(name.offset for name in names if name and name.kind is Kind.LOG and name.suffix is FileSuffix.LIVE)
    segments = tuple(Segment(request.files, request.directory, base) for base in bases)
    end_offset = report.end_offset
    return LogView(segments, report.start_offset, end_offset, 0, lambda: StableState(end_offset), IndexCache())
