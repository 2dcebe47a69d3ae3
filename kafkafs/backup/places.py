"""The directory of backups: who may use it, its runs by their names, and which of them is the newest.

    DEST/kafkafs-backups.json              whose backups these are
    DEST/runs/20261124T115335.123Z         a complete run, named by the time at which it began, in UTC
    DEST/runs/20261124T…Z.unfinished       one that is being made, or that was interrupted
    DEST/latest -> runs/…                  the newest complete run

Names ascend with time, and a run gets its name once all of it is on disk.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from kafkafs.backup.errors import BackupError, DamagedRunError
from kafkafs.backup.manifest import Manifest
from storage.errors import NotAStoreError, StoreLockedError
from storage.files import PROPERTIES_BYTES_MAX, TEMPORARY_SUFFIX
from storage.log_dir import BACKUPS_NAME, LOCK_NAME, LOST_AND_FOUND, RUN_MANIFEST_NAME, Doomed, home_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from storage.clock import Clock
    from storage.files import Directory, FileLock, Files
    from storage.log_dir import LogDir, MetaProperties

LATEST_NAME: Final = "latest"
RUNS_NAME: Final = "runs"

_VERSION: Final = 1
_UNFINISHED: Final = ".unfinished"
_RUN: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{3}Z")
_RUN_FORMAT: Final = "%Y%m%dT%H%M%S.%f"
_VACANT: Final = frozenset({LOCK_NAME, LOST_AND_FOUND, RUNS_NAME, f"{BACKUPS_NAME}{TEMPORARY_SUFFIX}"})
_NOT_EMPTY: Final = "the directory is not empty, and has no backups in it; name another"
_STEP_BACK_MAX: Final = timedelta(minutes=1)
"""By how much a clock that is set back is put up with: then names go on from the newest run's."""


class BackupPlace:
    """A directory of backups, locked against other backups until `close`.

    `open` makes it where it is missing or empty. Raises `BackupError` if it holds something else, or the backups of
    another broker, and `StoreLockedError` while another process makes a backup there.
    """

    def __init__(self, files: Files, path: Path, lock: FileLock) -> None:
        self.directory = files.directory(path)
        self._files = files
        self._runs = self.directory.at(RUNS_NAME)
        self._lock = lock

    @classmethod
    def open(cls, files: Files, path: Path, owner: MetaProperties | None) -> Self:
        """Open it for the backups of this broker."""
        directory = files.directory(path)
        if _names(directory) is None:
            parent = files.directory(path.parent)
            if parent.own_status() is None:
                raise NotAStoreError(f"its parent {parent} does not exist; make that first", path=path)
            if parent.status(path.name) is not None:
                raise BackupError("it is a link that leads nowhere: make the directory that it leads to", path=path)
            directory.make()
            parent.sync()
        known = _known_owner(directory)
        if known is None and not _VACANT.issuperset(directory.names()):
            raise BackupError(_NOT_EMPTY, path=path)
        try:
            lock = directory.lock(LOCK_NAME)
        except BlockingIOError:
            raise StoreLockedError("another process makes a backup here; wait until it ends", path=path) from None
        try:
            _settle_owner(directory, known, owner)
            place = cls(files, path, lock)
            if place._runs.own_status() is None:
                place._runs.make()
                directory.sync()
        except BaseException:
            lock.release()
            raise
        return place

    @classmethod
    def look(cls, files: Files, path: Path, owner: MetaProperties | None) -> list[Manifest]:
        """Return what `usable` would, without making or locking anything; raises `BackupError`."""
        directory = files.directory(path)
        names = _names(directory)
        if names is None:
            return []
        known = _known_owner(directory)
        if known is None and not _VACANT.issuperset(names):
            raise BackupError(_NOT_EMPTY, path=path)
        if known is not None:
            _check_owner(directory, known, owner)
        _check_latest(directory)
        return [] if RUNS_NAME not in names else _usable(files, directory.at(RUNS_NAME))

    def runs(self) -> list[str]:
        """Return the names of the runs that have a name, in the order of their times."""
        return _runs_in(self._runs)

    def unfinished(self) -> list[str]:
        """Return the names of the runs that were interrupted, the newest first."""
        return _unfinished_in(self._runs)

    def run(self, name: str) -> Directory:
        """Return the directory of a run."""
        return self._files.directory(Path(self._runs.path) / name)

    def remove_incomplete(self) -> None:
        """Remove what interrupted runs had not completed, or a later one has too: it would fill the disk in vain."""
        known: set[str] = set()
        for name in self.unfinished():
            run = self.run(name)
            try:
                complete = Manifest.read(run).names() - known
            except (DamagedRunError, FileNotFoundError):
                complete = set()
            known |= complete
            for each in set(run.names()) - complete - {RUN_MANIFEST_NAME}:
                Doomed(run, each).remove()
            if not complete:
                Doomed(self._runs, name).remove()

    def usable(self) -> list[Manifest]:
        """Return the manifests of the runs whose files a new run may share: interrupted ones, and the newest one.

        A run whose manifest cannot be read is passed over.
        """
        return _usable(self._files, self._runs)

    def begin(self, clock: Clock, bits: int) -> tuple[str, Directory]:
        """Make the directory of a new run, and return its name, and the directory that gets the name in the end.

        What is made in it has no permission bits but some of these.
        """
        name = self.next_name(clock)
        directory = self.run(f"{name}{_UNFINISHED}").limited(bits)
        directory.make()
        self._runs.sync()
        return name, directory

    def next_name(self, clock: Clock) -> str:
        """Return the name of a run that begins now. Raises `BackupError` if a run is of a time that is to come."""
        now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        known = max((_time_of(name) for name in [*self.runs(), *self.unfinished()]), default=None)
        if known is not None and known >= now:
            if known - now > _STEP_BACK_MAX:
                raise BackupError(
                    f"the run {_name_of(known)} is of a time that is to come by this machine's clock: set the clock, "
                    "or remove that run",
                    path=self._runs.path,
                )
            now = known + timedelta(milliseconds=1)
        return _name_of(now)

    def complete(self, name: str, *, is_latest: bool) -> Directory:
        """Give a run that is on disk its name, let `latest` point to it, and return where it is."""
        self._runs.rename(f"{name}{_UNFINISHED}", name)
        self._runs.sync()
        if is_latest:
            self.directory.point(LATEST_NAME, f"{RUNS_NAME}/{name}")
        return self.run(name)

    def settle(self) -> None:
        """Let `latest` point to the newest complete run, if a crash came between the two steps of `complete`."""
        name = _newest_complete(self._files, self._runs)
        if name is not None:
            with suppress(OSError):
                self._point_to(name)

    def _point_to(self, name: str) -> None:
        target = f"{RUNS_NAME}/{name}"
        found = self.directory.status(LATEST_NAME)
        if found is None or not found.is_link or self.directory.link_target(LATEST_NAME) != target:
            self.directory.point(LATEST_NAME, target)

    def remove_unfinished(self, but: str = "") -> None:
        """Remove the runs that were interrupted, except the one that is to be called so."""
        for name in self.unfinished():
            if name != f"{but}{_UNFINISHED}":
                Doomed(self._runs, name).remove()
        self._runs.sync()

    def close(self) -> None:
        """Let other backups be made."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def is_backup_place(directory: Directory) -> bool:
    """True if backups have been made in the directory."""
    return directory.status(BACKUPS_NAME) is not None


def newest_complete(files: Files, path: Path) -> Path | None:
    """Return the newest run in a directory of backups that lacks nothing, None if it has none."""
    runs = path / RUNS_NAME
    name = _newest_complete(files, files.directory(runs)) if files.directory(runs).own_status() is not None else None
    return None if name is None else runs / name


def _newest_complete(files: Files, runs: Directory) -> str | None:
    for name in reversed(_runs_in(runs)):
        with suppress(DamagedRunError, OSError):
            tail = Manifest.read(files.directory(Path(runs.path) / name)).tail
            if tail is not None and not tail.get("failures"):
                return name
    return None


def check_latest_leads_to_a_run(files: Files, path: Path) -> None:
    """Raise `NotAStoreError` if the path is the `latest` of some backups and leads nowhere; it names the newest run."""
    if path.name != LATEST_NAME or files.directory(path).own_status() is not None:
        return
    dest = files.directory(path.parent)
    found = dest.status(LATEST_NAME) if dest.own_status() is not None else None
    if found is None or not found.is_link or not is_backup_place(dest):
        return
    run = newest_complete(files, path.parent)
    newest = "no complete run is left" if run is None else f"the newest complete run is {run}"
    target = dest.link_target(LATEST_NAME)
    raise NotAStoreError(f"it is a link that leads nowhere, to {target}, which was removed; {newest}", path=path)


def check_apart(files: Files, log_dirs: Sequence[LogDir], dest: Path) -> None:
    """Raise `BackupError` if the directory of backups lies in the store, or the store in it, by whichever path."""
    homes = {log_dir.identity: log_dir for log_dir in log_dirs}
    home = home_of(files, dest, homes)
    if home is not None:
        raise BackupError(f"the backups would lie in the store itself, {home.path}", path=dest)
    own = files.directory(dest).own_status()
    for log_dir in log_dirs:
        if own is not None and home_of(files, log_dir.path, {own.identity: dest}) is not None:
            raise BackupError(f"the store {log_dir.path} lies in the directory of the backups", path=dest)


def _names(directory: Directory) -> list[str] | None:
    try:
        return directory.names()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise BackupError("the backups go into a directory, and this is a file", path=directory.path) from None


def _known_owner(directory: Directory) -> dict[str, object] | None:
    try:
        said: object = json.loads(directory.read_small(BACKUPS_NAME, BackupError, PROPERTIES_BYTES_MAX))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("version") != _VERSION:
        raise BackupError("the file is not what kafkafs writes", path=directory.path_of(BACKUPS_NAME))
    return said


def _check_latest(directory: Directory) -> None:
    """Raise `BackupError` if what is called latest is no link, as where the backups were copied with links followed."""
    found = directory.status(LATEST_NAME)
    if found is not None and not found.is_link:
        raise BackupError(
            "it is no symbolic link, so that no run can become the latest: move it away",
            path=directory.path_of(LATEST_NAME),
        )


def _settle_owner(directory: Directory, known: dict[str, object] | None, owner: MetaProperties | None) -> None:
    cluster_id, node_id = (None, None) if owner is None else (owner.cluster_id, owner.node_id)
    if known is None:
        said = {"version": _VERSION, "clusterId": cluster_id, "nodeId": node_id}
        directory.replace(BACKUPS_NAME, json.dumps(said).encode() + b"\n")
    else:
        _check_owner(directory, known, owner)


def _check_owner(directory: Directory, known: dict[str, object], owner: MetaProperties | None) -> None:
    cluster_id, node_id = (None, None) if owner is None else (owner.cluster_id, owner.node_id)
    for key, what, ours in (("clusterId", "cluster", cluster_id), ("nodeId", "node", node_id)):
        theirs = known.get(key)
        if None not in (theirs, ours) and theirs != ours:
            reason = (
                f"these are the backups of {what} {theirs}, and the store is of {ours}: give each its own directory"
            )
            raise BackupError(reason, path=directory.path)


def _usable(files: Files, runs: Directory) -> list[Manifest]:
    found = []
    for name in [*_unfinished_in(runs), *reversed(_runs_in(runs))]:
        with suppress(DamagedRunError, OSError):
            found.append(Manifest.read(files.directory(Path(runs.path) / name)))
            if not _is_unfinished(name):
                break
    return found


def _runs_in(runs: Directory) -> list[str]:
    return sorted(name for name in runs.names() if _RUN.fullmatch(name))


def _unfinished_in(runs: Directory) -> list[str]:
    return sorted((name for name in runs.names() if _is_unfinished(name)), reverse=True)


def _is_unfinished(name: str) -> bool:
    return name.endswith(_UNFINISHED) and _RUN.fullmatch(name.removesuffix(_UNFINISHED)) is not None


def _name_of(time: datetime) -> str:
    return f"{time.strftime(_RUN_FORMAT)[:-3]}Z"


def _time_of(name: str) -> datetime:
    return datetime.strptime(name.removesuffix(_UNFINISHED).removesuffix("Z"), _RUN_FORMAT).replace(tzinfo=UTC)
