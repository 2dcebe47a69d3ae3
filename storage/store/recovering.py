"""Recovering every log of a store at once, or saying what that would do.

A log that cannot be recovered keeps nobody from the others; then its log directory is not marked as closed properly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import StorageError
from storage.overlay_files import OverlayFiles
from storage.partition.recent_segments import RecentSegments
from storage.partition.view import Decided, LogView
from storage.segment.names import Kind, State, parse_name
from storage.segment.segment import Segment
from storage.store.checkpoints import OffsetCheckpoint
from storage.store.ledger import Ledger
from storage.store.opening import recover_requested
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.partition.recovery_report import RecoveryReport
    from storage.store.open_logs import LogRequest

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
    paths: Sequence[str | os.PathLike[str]], *, files: Files, clock: Clock, announce: Announce
) -> Iterator[Recovered]:
    """Recover each log of a store that nobody has open, and leave the store as if it had been closed properly.

    Each is announced, with its number and how many there are. Raises what `Store.open` raises, before anything is
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
    if Ledger(files, [Path(path) for path in paths]).current.pending is not None:
        Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock).close()  # which completes the commit


def plan_recovery(
    paths: Sequence[str | os.PathLike[str]], *, files: Files, clock: Clock, announce: Announce
) -> Iterator[Recovered]:
    """What `recover_store` would do, without changing a byte or keeping anybody out."""
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock) as store:
        for topic, partition, place in _announced(store, announce):
            try:
                report = recover_requested(store.request(topic, partition), OverlayFiles(files))
            except (StorageError, OSError) as error:
                yield Recovered(topic, partition, *place, None, error)
            else:
                yield Recovered(topic, partition, *place, report, None)


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
