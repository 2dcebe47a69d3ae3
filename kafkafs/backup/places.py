"""The directory of backups: who may use it, its runs by their names, and which of them is the newest.

    DEST/kafkafs-backups.json              whose backups these are
    DEST/runs/20261124T115335.123Z         a complete run, named by the time at which it began, in UTC
    DEST/runs/20261124T…Z.unfinished       one that is being made, or that was interrupted
    DEST/latest -> runs/…                  the newest complete run

Names ascend with time, and a run gets its name once all of it is on disk. What is below DEST is reached from there step
by step, and no link is followed: other users may have made it. It belongs to the user who makes the backup.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from kafkafs.backup.errors import BackupError, DamagedRunError
from kafkafs.backup.manifest import Manifest
from kafkafs.backup.manifest_lines import parse_line
from storage.errors import NotAStoreError, SpecialFileError, StoreLockedError
from storage.files import PROPERTIES_BYTES_MAX, TEMPORARY_SUFFIX, bound
from storage.log_dir import BACKUPS_NAME, LOCK_NAME, LOST_AND_FOUND, RUN_MANIFEST_NAME, Doomed, home_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
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
_EXCHANGED: Final = "the directory of the run was moved or replaced while it was made; run it again"
_NOT_EMPTY: Final = "the directory is not empty, and has no backups in it; name another"
_STEP_BACK_MAX: Final = timedelta(minutes=1)
"""By how much a clock that is set back is put up with: then names go on from the newest run's."""


class BackupPlace:
    """A directory of backups, locked against other backups until `close`.

    `open` makes it where it is missing or empty. Raises `BackupError` if it holds something else, or the backups of
    another broker, and `StoreLockedError` while another process makes a backup there.
    """

    def __init__(self, directory: Directory, runs: Directory, lock: FileLock) -> None:
        self.directory = directory
        self._runs = runs
        self._lock = lock

    @classmethod
    def open(cls, files: Files, path: Path, owner: MetaProperties | None) -> Self:
        """Open it for the backups of this broker."""
        directory = _place(files, path)
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
            runs = directory.at(RUNS_NAME)
            if runs.own_status() is None:
                runs.make()
                directory.sync()
        except BaseException:
            lock.release()
            raise
        return cls(directory, bound(runs), lock)

    @classmethod
    def look(cls, files: Files, path: Path, owner: MetaProperties | None) -> list[Manifest]:
        """Return what `usable` would, without making or locking anything; raises `BackupError`."""
        directory = _place(files, path)
        names = _names(directory)
        if names is None:
            return []
        known = _known_owner(directory)
        if known is None and not _VACANT.issuperset(names):
            raise BackupError(_NOT_EMPTY, path=path)
        if known is not None:
            _check_owner(directory, known, owner)
        _check_latest(directory)
        return [] if RUNS_NAME not in names else _usable(directory.at(RUNS_NAME))

    def runs(self) -> list[str]:
        """Return the names of the runs that have a name, in the order of their times."""
        return _runs_in(self._runs)

    def unfinished(self) -> list[str]:
        """Return the names of the runs that were interrupted, the newest first."""
        return _unfinished_in(self._runs)

    def run(self, name: str) -> Directory:
        """Return the directory of a run."""
        return self._runs.at(name)

    def remove_incomplete(self) -> None:
        """Remove what interrupted runs had not completed, or a later one has too: it would fill the disk in vain.

        What is called so and is no directory goes itself, as a link does.
        """
        known: set[str] = set()
        for name in self.unfinished():
            run = bound(self.run(name))
            if not run.exists():
                Doomed(self._runs, name).remove()
                continue
            try:
                complete = Manifest.read(run).names() - known
            except (DamagedRunError, FileNotFoundError, IsADirectoryError, SpecialFileError):
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
        return _usable(self._runs)

    def begin(self, clock: Clock, bits: int) -> tuple[str, Directory]:
        """Make the directory of a new run, and return its name, and the directory that gets the name in the end.

        What is made in it has no permission bits but some of these. If it is moved, or another one gets its path, what
        uses the directory fails.
        """
        name = self.next_name(clock)
        unbound = self.run(f"{name}{_UNFINISHED}").limited(bits)
        unbound.make()
        self._runs.sync()
        directory = bound(unbound)
        if directory.names():
            raise BackupError(_EXCHANGED, path=directory.path)
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

    def complete(self, name: str, directory: Directory, *, is_latest: bool) -> None:
        """Give a run that is on disk, in this directory, its name, and let `latest` point to it."""
        if not directory.exists():
            raise BackupError(_EXCHANGED, path=directory.path)
        self._runs.rename(f"{name}{_UNFINISHED}", name)
        self._runs.sync()
        if is_latest:
            self.directory.point(LATEST_NAME, f"{RUNS_NAME}/{name}")

    def settle(self) -> None:
        """Let `latest` point to the newest complete run, if a crash came between the two steps of `complete`."""
        name = _newest_complete(self._runs)
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
    runs = _place(files, path).at(RUNS_NAME)
    name = _newest_complete(runs) if runs.exists() else None
    return None if name is None else path / RUNS_NAME / name


def limited(directory: Directory, bits: int) -> Directory:
    """Return the directory of a run that is made; what is made by way of the result has but some of these bits.

    Raises `BackupError` if another directory has got its path.
    """
    found = bound(directory.limited(bits))
    now, before = found.own_status(), directory.own_status()
    if now is None or before is None or now.identity != before.identity:
        raise BackupError(_EXCHANGED, path=directory.path)
    return found


def _place(files: Files, path: Path) -> Directory:
    """Return the directory of backups, which may be a link. It is no store: no broker's user is given what is made."""
    return files.parent(path / RUNS_NAME)[0]


def _newest_complete(runs: Directory) -> str | None:
    for name in reversed(_runs_in(runs)):
        with suppress(DamagedRunError, OSError):
            tail = Manifest.read(runs.at(name)).tail
            if tail is not None and not tail.failures:
                return name
    return None


def check_latest_leads_to_a_run(files: Files, path: Path) -> None:
    """Raise `NotAStoreError` if the path is the `latest` of some backups and leads nowhere; it names the newest run."""
    if path.name != LATEST_NAME or files.directory(path).own_status() is not None:
        return
    dest = _place(files, path.parent)
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
        said = parse_line(directory.read_small(BACKUPS_NAME, BackupError, PROPERTIES_BYTES_MAX))
    except FileNotFoundError:
        return None
    except ValueError:
        said = {}
    if said.get("version") != _VERSION:
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


def _usable(runs: Directory) -> list[Manifest]:
    found = []
    for name in [*_unfinished_in(runs), *reversed(_runs_in(runs))]:
        with suppress(DamagedRunError, OSError):
            found.append(Manifest.read(runs.at(name)))
            if not _is_unfinished(name):
                break
    return found


def _runs_in(runs: Directory) -> list[str]:
    return sorted(name for name in runs.names() if _is_run(name))


def _unfinished_in(runs: Directory) -> list[str]:
    return sorted((name for name in runs.names() if _is_unfinished(name)), reverse=True)


def _is_unfinished(name: str) -> bool:
    return name.endswith(_UNFINISHED) and _is_run(name.removesuffix(_UNFINISHED))


def _is_run(name: str) -> bool:
    """True for a time; a name may also have digits that are none."""
    with suppress(ValueError):
        return _RUN.fullmatch(name) is not None and _time_of(name) is not None
    return False


def _name_of(time: datetime) -> str:
    return f"{time.strftime(_RUN_FORMAT)[:-3]}Z"


def _time_of(name: str) -> datetime:
    return datetime.strptime(name.removesuffix(_UNFINISHED).removesuffix("Z"), _RUN_FORMAT).replace(tzinfo=UTC)
