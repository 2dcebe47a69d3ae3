"""Recovering the top of a log directory: checkpoints, the marker, directories half made.

It is found by comparing what will be written with what is there, so that a plan and the recovery say the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.log.recover.report import Repair, Step
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.log_dir import clean_marker
from storage.log_dir.recognition import CLEAN_MARKER_NAME
from storage.log_dir.settings_file import SETTINGS_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.log_dir import LogDir
    from storage.store.store import Store
    from storage.topics.bare_log_dirs import BareLogDir


# What it means for the logs that a checkpoint could not be read.
_LOST: Final = {
    OffsetCheckpoint.RECOVERY_POINT: "the recovery points in it are lost: it is written from the logs",
    OffsetCheckpoint.LOG_START: "the log starts in it are lost: each log begins with its first segment",
    OffsetCheckpoint.HIGH_WATERMARK: "the high watermarks in it are lost",
    OffsetCheckpoint.FIRST_DIRTY: "how far logs are compacted is lost: each counts as one that may lack offsets",
}


class RecoveredLogDir(NamedTuple):
    """The outcome for a log directory, apart from the directories of partitions in it.

    If recovery `trusts_marker`, it looked at the ends of the logs only. Otherwise it did not read `trusted_segments`,
    which lie before the recovery points of their logs. One that is not `is_closed` has a log that was not recovered,
    and no marker. `damaged_checkpoints` of the steps are about checkpoints that could not be read. A `bare` one is left
    as it is.
    """

    path: Path
    steps: list[Step]
    trusts_marker: bool
    is_closed: bool
    is_unchanged: bool
    trusted_segments: int = 0
    damaged_checkpoints: int = 0
    bare: BareLogDir | None = None

    @classmethod
    def untouched(cls, bare: BareLogDir) -> Self:
        """The outcome for a directory that is no log directory yet, or not now: nothing is written to it."""
        path = Path(bare.directory)
        return cls(path, [], trusts_marker=False, is_closed=False, is_unchanged=True, bare=bare)


class StoreBefore:
    """The log directories before the store is opened for writing, which removes markers and what was half made."""

    def __init__(
        self,
        markers: dict[Path, bytes | None],
        flaws: dict[Path, dict[OffsetCheckpoint, str]],
        interrupted: dict[Path, list[str]],
        settings: Path,
    ) -> None:
        self._markers = markers
        self._flaws = flaws
        self._interrupted = interrupted
        self._settings = settings

    @classmethod
    def of(cls, store: Store) -> Self:
        """As they are in a store that is open for reading."""
        interrupted: dict[Path, list[str]] = {}
        for log_dir, name in store.topics.interrupted():
            interrupted.setdefault(log_dir.path, []).append(str(name))
        markers = {log_dir.path: log_dir.read_clean_marker() for log_dir in store.log_dirs}
        flaws = {log_dir.path: log_dir.flaws() for log_dir in store.log_dirs}
        return cls(markers, flaws, interrupted, Path(store.topics.settings_file.directory))

    def marker(self, log_dir: LogDir) -> bytes | None:
        """Return the marker's contents."""
        return self._markers[log_dir.path]

    def flaws(self, log_dir: LogDir) -> dict[OffsetCheckpoint, str]:
        """Return what was wrong with each checkpoint of the directory that could not be read."""
        return self._flaws[log_dir.path]

    def steps(self, log_dir: LogDir) -> list[Step]:
        """Return the steps in the directory that finish topics which were being made or deleted."""
        reason = "its topic was being made or deleted; it is to be removed"
        steps = [Step(Repair.RENAMED, name, reason) for name in sorted(self._interrupted.get(log_dir.path, ()))]
        if self._interrupted and log_dir.path == self._settings:
            steps.append(Step(Repair.REBUILT, SETTINGS_NAME, "a topic was being made or deleted"))
        return steps


def recovered_log_dir(
    log_dir: LogDir,
    before: StoreBefore,
    *,
    offsets: Mapping[OffsetCheckpoint, Mapping[Partition, int]],
    is_closed: bool,
    has_marker: bool,
    is_changed: bool,
    trusts_marker: bool,
    trusted_segments: int,
) -> RecoveredLogDir:
    """Return the outcome for a log directory whose checkpoints are to say this, and in which logs changed or not.

    Unless it `has_marker`, it is to have none even though it is closed properly.
    """
    steps = before.steps(log_dir)
    damaged = before.flaws(log_dir)
    for checkpoint, wanted in offsets.items():
        if checkpoint in damaged:
            steps.append(Step(Repair.REBUILT, checkpoint.value, f"{damaged[checkpoint]}; {_LOST[checkpoint]}"))
        elif wanted != log_dir.offsets(checkpoint):
            steps.append(Step(Repair.REBUILT, checkpoint.value, "it does not say what the logs say"))
    marker = before.marker(log_dir)
    is_unchanged = not steps and not is_changed
    if not is_closed:
        if marker is not None:
            steps.append(Step(Repair.REMOVED, CLEAN_MARKER_NAME, "not every log in the directory is recovered"))
    elif not has_marker:
        if marker is not None:
            reason = "brokers write none beside nothing but the cluster's metadata log, and remove none"
            steps.append(Step(Repair.REMOVED, CLEAN_MARKER_NAME, reason))
    elif marker is None:
        from_points = " from its recovery point on" if trusted_segments else ""
        steps.append(Step(Repair.ADDED, CLEAN_MARKER_NAME, f"every log in the directory is recovered{from_points}"))
    elif not is_unchanged and marker != clean_marker():
        steps.append(Step(Repair.REBUILT, CLEAN_MARKER_NAME, "the directory changed since a broker wrote it"))
    repaired = len(damaged.keys() & offsets.keys())
    return RecoveredLogDir(log_dir.path, steps, trusts_marker, is_closed, is_unchanged, trusted_segments, repaired)
