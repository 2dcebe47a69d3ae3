"""Recovering every log of a store at once, and a commit that was interrupted, or saying what that would do.

What a broker recovers when it starts is recovered: the partitions, copies on their way from another log directory, and
strays. A log that cannot be recovered does not keep the others from it; then its log directory is not marked as closed
properly. A plan and the recovery name the same steps, and each file that changes is in one of them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import MetadataLossError, StorageError, SymbolicLinkError, is_full_disk
from storage.log.recover.recovery import refuse_strangers
from storage.log.recover.report import RecoveryReport
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.names import DirectoryName, DirectoryState
from storage.log_dir.recognition import check_stores, has_segment
from storage.segment.names import Kind, live_offsets
from storage.store.commit_recovery import RecoveredCommit, pending_commit, planned_commit, recovered_commit
from storage.store.log_dirs_kept import kept_open
from storage.store.log_opener import LogRequest, recover_guarded
from storage.store.recovered_log_dir import RecoveredLogDir, StoreBefore, recovered_log_dir
from storage.store.store import Mode, Store
from storage.topics.bare_log_dirs import bare_directories, described
from storage.topics.checkpointing import LogOffsets

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.files import Directory, Files
    from storage.log.recover.report import Step
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir

    Announce: TypeAlias = Callable[[str, int, int], None]
    Tell: TypeAlias = Callable[["Recovered | RecoveredCommit | RecoveredLogDir"], None]


class Recovered(NamedTuple):
    """The outcome for a partition's log: a report, or the error that kept it from being recovered.

    Everything before the high watermark was once in all replicas that were in sync, as far as the last checkpoint knew.
    `replicas` are the brokers that the cluster's metadata log gives the partition; none where that is not known. `done`
    are the steps that were taken before the error.
    """

    topic: str
    partition: int
    directory: Path
    high_watermark: int
    report: RecoveryReport | None
    error: StorageError | OSError | None
    replicas: tuple[int, ...] = ()
    done: tuple[Step, ...] = ()


@dataclass(frozen=True)
class RecoveryOptions:
    """The options of recovering a store.

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
    """Recover each log of a store that no process has open, and leave the store as if it had been closed properly.

    Each is announced, with its number and how many there are, and then its outcome is told; after the logs those of the
    log directories are, and of a commit that was interrupted. Nothing is written to a bare directory. Logs for which
    the disk had no room are tried once more at the end, as the recovery of others may have made some. Raises what
    `Store.open` raises, before anything is changed.
    """
    directories = [files.add_root(Path(path)) for path in paths]
    with kept_open(directories):  # so that all of it is done in the same directories
        _recover_kept(paths, files=files, clock=clock, announce=announce, tell=tell, options=options)


def _recover_kept(
    paths: Sequence[str | os.PathLike[str]],
    *,
    files: Files,
    clock: Clock,
    announce: Announce,
    tell: Tell,
    options: RecoveryOptions,
) -> None:
    settings = options.broker_settings
    paths, bare = _without_bare(paths, files)
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=settings) as looked_at:
        before = StoreBefore.of(looked_at)
        untouched = _untouched(bare, looked_at)
    with Store.open(
        paths, mode=Mode.READ_WRITE, completes_commit=False, files=files, clock=clock, broker_settings=settings
    ) as store:
        run = _Run(store, clock, options, announce, tell)
        run.recover()
        log_dirs = run.log_dirs(before)
    for log_dir in (*log_dirs, *untouched):
        tell(log_dir)
    pending = pending_commit([log_dir.directory for log_dir in store.log_dirs])
    if isinstance(pending, RecoveredCommit):
        tell(pending)
    elif pending is not None:
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
    paths, bare = _without_bare(paths, files)
    opened = Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=options.broker_settings)
    with opened as store:
        run = _Run(store, clock, options, announce, tell)
        run.recover()
        for log_dir in (*run.log_dirs(StoreBefore.of(store)), *_untouched(bare, store)):
            tell(log_dir)
        pending = pending_commit([log_dir.directory for log_dir in store.log_dirs])
        if isinstance(pending, RecoveredCommit):
            tell(pending)
        elif pending is not None:
            tell(planned_commit(store, pending, withdraws=options.withdraws_commit))


def _without_bare(
    paths: Sequence[str | os.PathLike[str]], files: Files
) -> tuple[Sequence[str | os.PathLike[str]], list[Directory]]:
    """Return the log directories without the bare ones, and those. Raises `NotAStoreError` where no store is."""
    directories = [files.add_root(Path(path)) for path in paths]
    check_stores(directories)
    bare = bare_directories(directories)
    return [path for path, each in zip(paths, directories, strict=True) if each not in bare], bare


def _untouched(bare: Sequence[Directory], store: Store) -> list[RecoveredLogDir]:
    """Return the outcome for the bare directories of a store that is open without them."""
    return [RecoveredLogDir.untouched(each) for each in described(bare, store.topics.surroundings())]


class _Run:
    """One recovery, or the plan of one, in a store that is open for it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        options: RecoveryOptions,
        announce: Announce,
        tell: Tell,
    ) -> None:
        self._store = store
        self._clock = clock
        self._options = options
        self._announce = announce
        self._tell = tell
        self._logs: dict[Partition, LogOffsets] = {}
        self._failed: set[Partition] = set()
        self._changed: set[LogDir] = set()
        self._trusted: Counter[LogDir] = Counter()
        self._replicas = _replicas_in(store)  # before the metadata log is recovered, so that a plan says the same
        self._done: dict[tuple[LogDir, DirectoryName], list[Step]] = {}  # the steps for each log, of all attempts

    def recover(self) -> None:
        """Recover each log, or plan it in a store that is open for reading."""
        places = list(self._logs_to_recover())
        without_room = [each for each in self._numbered(places) if not self._recover_and_tell(*each, is_last=False)]
        for log_dir, name in self._numbered(without_room):
            self._recover_and_tell(log_dir, name, is_last=True)

    def _numbered(self, places: Sequence[tuple[LogDir, DirectoryName]]) -> Iterator[tuple[LogDir, DirectoryName]]:
        for number, (log_dir, name) in enumerate(places, start=1):
            self._announce(str(name), number, len(places))
            yield log_dir, name

    def _recover_and_tell(self, log_dir: LogDir, name: DirectoryName, *, is_last: bool) -> bool:
        """Recover a log and tell the outcome; False, and nothing told, if the disk is full before the last attempt."""
        directory, partition = log_dir.directory.at(str(name)), (name.topic, name.partition)
        is_link = (log_dir, name) in self._store.topics.inventory.links
        watermark = log_dir.offsets(OffsetCheckpoint.HIGH_WATERMARK).get(partition, 0)
        done = self._done.setdefault((log_dir, name), [])
        try:
            if is_link:
                raise SymbolicLinkError(directory.path)
            report = self._recover(log_dir, name)
        except (StorageError, OSError) as error:
            if is_full_disk(error) and not is_last:
                return False
            if done or not isinstance(error, MetadataLossError):  # which comes before any change
                self._changed.add(log_dir)
            self._note_failure(log_dir, name, is_link=is_link)
            stays = tuple(done) if self._store.mode is Mode.READ_WRITE else ()  # a plan's steps are in memory
            self._tell(Recovered(*partition, Path(directory), watermark, None, error, done=stays))
            return True
        report.steps = done
        self._trusted[log_dir] += report.trusted_segments
        if report.steps:
            self._changed.add(log_dir)
        replicas = self._replicas.get(partition, ()) if name.state is DirectoryState.CURRENT else ()
        self._tell(Recovered(*partition, Path(directory), watermark, report, None, replicas))
        return True

    def _recover(self, log_dir: LogDir, name: DirectoryName) -> RecoveryReport:
        store, partition = self._store, (name.topic, name.partition)
        reports: list[RecoveryReport] = []

        def recovered(request: LogRequest) -> LogOffsets:
            try:
                reports.append(recover_requested_log(request, self._options))
            finally:
                self._done[log_dir, name] += request.done
            return offsets_after(request, reports[0])

        if name.state is not DirectoryState.CURRENT:
            request = request_beside(store, self._clock, log_dir, name)
            store.shutdown.note(
                request.directory, recovered(request if store.mode is Mode.READ_WRITE else request.in_overlay())
            )
        elif store.mode is Mode.READ_WRITE:
            offsets = store.recover_unopened(*partition, recovered)
            assert offsets is not None  # no log of the store is open
            self._logs[partition] = offsets
        else:
            self._logs[partition] = recovered(store.request(*partition).in_overlay())
        return reports[0]

    def _note_failure(self, log_dir: LogDir, name: DirectoryName, *, is_link: bool) -> None:
        if name.state is DirectoryState.CURRENT and not is_link:
            self._failed.add((name.topic, name.partition))
        else:
            self._store.shutdown.note(log_dir.directory.at(str(name)), None)

    def _logs_to_recover(self) -> Iterator[tuple[LogDir, DirectoryName]]:
        """The directories to be recovered."""
        inventory = self._store.topics.inventory
        for topic, partition in inventory.in_order():
            yield self._store.topics.location(topic, partition)[1], DirectoryName(topic, partition)
        yield from inventory.recovered_beside
        yield from inventory.links

    def log_dirs(self, before: StoreBefore) -> list[RecoveredLogDir]:
        """Return the outcome for the log directories themselves, once the store is closed."""
        found, shutdown = [], self._store.shutdown
        for log_dir in self._store.log_dirs:
            offsets = shutdown.checkpoints_to_write(log_dir, self._logs)
            is_closed = shutdown.is_closed(log_dir, self._logs, self._failed)
            told = recovered_log_dir(
                log_dir,
                before,
                offsets=offsets,
                is_closed=is_closed,
                has_marker=shutdown.has_marker(log_dir),
                is_changed=log_dir in self._changed,
                trusts_marker=shutdown.was_clean(log_dir) and not self._options.ignores_marker,
                trusted_segments=self._trusted[log_dir],
            )
            if told.is_unchanged:
                shutdown.unchanged.add(log_dir)
            found.append(told)
        return found


def _replicas_in(store: Store) -> Mapping[Partition, tuple[int, ...]]:
    """Return the brokers of each partition by the metadata log; nothing of a log that is damaged."""
    with suppress(StorageError, OSError):  # which the recovery of that log says
        log = store.cluster.log()
        found = {} if log is None else log.ask(lambda image: image.replicas())
        if log is not None and log.damage is None:
            return found
    return {}


def recover_requested_log(request: LogRequest, options: RecoveryOptions) -> RecoveryReport:
    """Recover what is in a directory; one without any segment is left as it is."""
    if options.ignores_marker:
        request = replace(request, is_clean=False, recovery_point=0)
    if has_segment(request.directory):
        return recover_guarded(request, cuts_metadata=options.cuts_metadata)
    refuse_strangers(request.directory)
    report = RecoveryReport()
    report.start_offset = report.end_offset = request.start_offset
    return report


def offsets_after(request: LogRequest, report: RecoveryReport) -> LogOffsets:
    """Return the checkpointed offsets of a log that was recovered, and not opened."""
    bases = live_offsets(request.directory.names(), Kind.LOG)
    return LogOffsets(report.end_offset, min(bases, default=0), report.start_offset, report.end_offset)


def request_beside(store: Store, clock: Clock, log_dir: LogDir, name: DirectoryName) -> LogRequest:
    """The knowledge about a copy or a stray.

    Checkpoints speak of it unless the partition of the same name is in the same log directory.
    """
    topic, partition = name.topic, name.partition
    inventory = store.topics.inventory
    is_spoken_of = inventory.log_dir(topic, partition) is not log_dir

    def known(checkpoint: OffsetCheckpoint) -> int:
        return log_dir.offsets(checkpoint).get((topic, partition), 0) if is_spoken_of else 0

    return LogRequest(
        clock,
        log_dir.directory.at(str(name)),
        (topic, partition),
        store.topics.config(topic) if topic in inventory.topics else store.config.topic({}),
        store.config.producer_id_expiration_ms,
        is_clean=store.shutdown.was_clean(log_dir),
        recovery_point=known(OffsetCheckpoint.RECOVERY_POINT),
        start_offset=known(OffsetCheckpoint.LOG_START),
        allows_offset_gaps=True,
    )
