"""Recovering every log of a store at once, and a commit that was interrupted, or saying what that would do.

A log that cannot be recovered keeps nobody from the others; then its log directory is not marked as closed properly.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import StorageError
from storage.overlay_files import OverlayFiles
from storage.partition.followed_log import Withheld
from storage.partition.recent_segments import RecentSegments
from storage.partition.view import Decided, LogView
from storage.segment.names import Kind, State, parse_name
from storage.segment.segment import Segment
from storage.store.checkpoints import OffsetCheckpoint
from storage.store.ledger import Ledger
from storage.store.opening import followed_log, recover_requested
from storage.store.store import Mode, Store
from storage.store.withdrawal import StagedBatches, withdrawal_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.partition.recovery_report import RecoveryReport
    from storage.store.ledger import Intent
    from storage.store.open_logs import LogRequest
    from storage.store.withdrawal import Withdrawal

    Announce: TypeAlias = Callable[[str, int, int], None]


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


class RecoveredCommit(NamedTuple):
    """What became of a commit that was interrupted: completed, unless it was withdrawn or there is an error."""

    intent: Intent
    withdrawn: list[Withdrawal] | None
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


def recover_store(
    paths: Sequence[str | os.PathLike[str]],
    *,
    files: Files,
    clock: Clock,
    announce: Announce,
    withdraws_commit: bool = False,
) -> Iterator[Recovered | RecoveredCommit]:
    """Recover each log of a store that nobody has open, and leave the store as if it had been closed properly.

    Each is announced, with its number and how many there are. A commit that was interrupted is completed at the end;
    if it cannot be, and `withdraws_commit`, it is taken back. Raises what `Store.open` raises, before anything is
    changed.
    """
    reports: dict[Path, RecoveryReport] = {}

    def open_log(request: LogRequest) -> RecoveredLog:
        reports[request.directory] = report = recover_requested(request, request.files)
        return RecoveredLog(request.config, _view(request, report), report.end_offset)

    with Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock, open_log=open_log) as store:
        for topic, partition, place in _announced(store, announce):
            try:
                store.log(topic, partition)
            except (StorageError, OSError) as error:
                yield Recovered(topic, partition, *place, None, error)
            else:
                yield Recovered(topic, partition, *place, reports.pop(place.directory), None)
    pending = _pending(paths, files)
    if pending is not None:
        with Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock) as store:
            yield _recovered_commit(store, pending, withdraws=withdraws_commit)


def plan_recovery(
    paths: Sequence[str | os.PathLike[str]],
    *,
    files: Files,
    clock: Clock,
    announce: Announce,
    withdraws_commit: bool = False,
) -> Iterator[Recovered | RecoveredCommit]:
    """What `recover_store` would do, without changing a byte or keeping anybody out."""
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock) as store:
        for topic, partition, place in _announced(store, announce):
            try:
                report = recover_requested(store.request(topic, partition), OverlayFiles(files))
            except (StorageError, OSError) as error:
                yield Recovered(topic, partition, *place, None, error)
            else:
                yield Recovered(topic, partition, *place, report, None)
        pending = _pending(paths, files)
        if pending is not None:
            yield _planned_commit(store, pending, withdraws=withdraws_commit)


def _pending(paths: Sequence[str | os.PathLike[str]], files: Files) -> Intent | None:
    return Ledger(files, [Path(path) for path in paths]).current.pending


def _recovered_commit(store: Store, pending: Intent, *, withdraws: bool) -> RecoveredCommit:
    """What has become of the commit in a store that was opened, which completes it unless something is in the way."""
    return _settled(pending, store.commits.finish, store.commits.withdraw if withdraws else None)


def _planned_commit(store: Store, pending: Intent, *, withdraws: bool) -> RecoveredCommit:
    return _settled(pending, store.commits.check_pending, (lambda: _withdrawals(store, pending)) if withdraws else None)


def _settled(
    pending: Intent, complete: Callable[[], None], withdraw: Callable[[], list[Withdrawal]] | None
) -> RecoveredCommit:
    try:
        complete()
    except (StorageError, OSError) as error:
        if withdraw is None:
            return RecoveredCommit(pending, None, error)
    else:
        return RecoveredCommit(pending, None, None)
    try:
        return RecoveredCommit(pending, withdraw(), None)
    except (StorageError, OSError) as error:
        return RecoveredCommit(pending, None, error)


def _withdrawals(store: Store, pending: Intent) -> list[Withdrawal]:
    """What withdrawing the commit would take back, and what it would leave."""
    directories = [log_dir.path for log_dir in store.log_dirs]
    found = []
    for (topic, partition), extent in pending.extents.items():
        if partition not in store.topics.inventory.topics.get(topic, {}):
            continue
        staged = StagedBatches.read(store.files, directories, pending.staged, (topic, partition))
        with closing(followed_log(replace(store.request(topic, partition), withheld=Withheld))) as log:
            there = withdrawal_of((topic, partition), extent, log.view, staged)
        found += [] if there is None else [there]
    return found


class _Place(NamedTuple):
    directory: Path
    high_watermark: int


def _announced(store: Store, announce: Announce) -> Iterator[tuple[str, int, _Place]]:
    partitions = sorted(store.topics.inventory.partitions())
    for number, (topic, partition) in enumerate(partitions, start=1):
        directory = store.topics.directory(topic, partition)
        announce(directory.name, number, len(partitions))
        offsets = store.topics.partitions(topic)[partition].offsets(OffsetCheckpoint.HIGH_WATERMARK)
        yield topic, partition, _Place(directory, offsets.get((topic, partition), 0))


def _view(request: LogRequest, report: RecoveryReport) -> LogView:
    names = map(parse_name, request.files.names(request.directory))
    bases = sorted(name.offset for name in names if name and name.kind is Kind.LOG and name.state is State.LIVE)
    segments = tuple(Segment(request.files, request.directory, base) for base in bases)
    end_offset = report.end_offset
    return LogView(segments, report.start_offset, end_offset, 0, lambda: Decided(end_offset), RecentSegments())
