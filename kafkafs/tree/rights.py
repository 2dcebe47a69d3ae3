"""Who may look into the views of a tree: no user who could not read the files that a view shows.

A view has one owner, one group and three sets of bits, and shows files that may have others. So a file counts with
what it certainly grants to every user of a set: to a view's owner whose own it is not, what it grants to its group and
to all others alike.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from threading import Lock
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from storage.cluster import QUORUM_STATE_NAME, is_metadata_snapshot
from storage.errors import missing_file
from storage.files import Access, NamedFiles, access_of
from storage.log import is_of_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from storage.files import Directory, FileStatus
    from storage.log_dir import LogDir

_READ: Final = 0o444
_WRITE: Final = 0o222
_SEARCH: Final = 0o111
_USED: Final = _READ | _WRITE
_ROOT_UID: Final = 0
_KEPT_S: Final = 1.0
_KEPT_MAX_S: Final = 5.0
_SHARE: Final = 100
"""How many times as long as finding something takes it is kept, by the processor's time and within the bounds above."""

T = TypeVar("T")


_CLOSED: Final = Access(os.getuid(), os.getgid(), 0o500)
"""The access to what cannot be looked at."""


class Recent(Generic[T]):
    """A value that is found again after a second, or later if finding it takes long. Any thread may ask for it."""

    __slots__ = ("_due_s", "_find", "_found")

    def __init__(self, find: Callable[[T | None], T]) -> None:
        self._find = find  # given what was found the last time
        self._found: T | None = None
        self._due_s = 0.0

    @property
    def last(self) -> T | None:
        """What was found last, None before."""
        return self._found

    def get(self) -> T:
        """Return what was found a moment ago, or find it."""
        found = self._found
        now_s = monotonic()
        if found is None or now_s >= self._due_s:
            begun_s = thread_time()  # which readers who keep the processors busy do not make longer
            found = self._found = self._find(found)
            taken_s = thread_time() - begun_s
            self._due_s = monotonic() + max(_KEPT_S, min(_SHARE * taken_s, _KEPT_MAX_S), taken_s)
        return found


class _Common:
    """What some files and directories grant in common to the users of a view with this owner and group."""

    def __init__(self, uid: int, gid: int) -> None:
        self._owner = uid, gid
        # The groups of other users are not known: root may know them, and they may change.
        self._groups = frozenset(os.getgroups()) | {os.getegid()} if uid == os.geteuid() else None
        self._readable = _READ
        self._writable = _WRITE

    @property
    def access(self) -> Access:
        """Return what is left."""
        readable = self._readable
        return Access(*self._owner, readable | readable >> 2 | self._writable & readable >> 1)

    def add_file(self, found: Access) -> None:
        """Add a file that is shown."""
        bits = self._granted(found)
        self._readable &= bits
        self._writable &= bits

    def add_directory(self, found: Access) -> None:
        """Add a directory that is listed, and whose files are shown."""
        bits = self._granted(found)
        self._readable &= bits & (bits & _SEARCH) << 2
        self._writable &= bits

    def add_passage(self, found: Access) -> None:
        """Add a directory that is passed through."""
        self._readable &= (self._granted(found) & _SEARCH) << 2

    def _granted(self, found: Access) -> int:
        mode = found.mode
        if (found.uid, found.gid) == self._owner:
            return mode
        uid, gid = self._owner
        of_group, of_others = mode >> 3 & 0o7, mode & 0o7
        if found.uid not in (uid, _ROOT_UID):  # the file's owner may be one of them, and have fewer bits
            of_group &= mode >> 6
            of_others &= mode >> 6
        certain = of_group & of_others
        if uid == _ROOT_UID:
            of_owner = 0o7
        elif found.uid == uid:
            of_owner = mode >> 6
        elif self._groups is None:
            of_owner = certain
        else:
            of_owner = of_group if found.gid in self._groups else of_others
        if found.gid != gid:
            of_group = of_others = certain
        return of_owner << 6 | of_group << 3 | of_others


def in_common(access: Access, other: Access) -> Access:
    """Return what is left of an access for a view that also shows a file with another one."""
    common = _Common(access.uid, access.gid)
    common.add_file(other)
    return access._replace(mode=access.mode & common.access.mode)


class Rights:
    """The access to the views of a store in these log directories.

    In a tree that `is_shared` other users than this process's are let in. Then the directories above the store count
    too, and a file or a directory with an access list grants what it grants to its owner.
    """

    def __init__(self, log_dirs: Sequence[LogDir], *, is_shared: bool) -> None:
        self._log_dirs = [log_dir.directory for log_dir in log_dirs]
        self.is_shared = is_shared
        self._named = NamedFiles()
        self._ways = {each.path: Recent(partial(self._look_to, each)) for each in self._log_dirs}
        self._of_store = Recent(lambda known: self._look(known, logs=(), files=()))
        self._lock = Lock()
        self._of_all: Recent[Access] | None = None

    def of_store(self) -> Access:
        """Return the access to what shows the names in the log directories."""
        return self._of_store.get()

    def of_files(self, *files: tuple[Directory, str], logs: Iterable[Directory] = ()) -> Access:
        """Return the access to what shows files at the top of log directories, and the logs in some directories."""
        return self._look(None, logs=logs, files=files)

    def of_logs(self, logs: Callable[[], Iterable[Directory]]) -> Access:
        """Return the access to what shows all logs of the store."""
        if not self.is_shared:  # then looking at each of them keeps no user from anything
            return self.of_store()
        with self._lock:
            if self._of_all is None:
                self._of_all = Recent(lambda known: self._look(known, logs=logs(), files=()))
        return self._of_all.get()

    def of_log(self, directory: Directory, known: Access | None = None) -> Access:
        """Return the access to the views of a log; what was `known` of it if it is gone."""
        try:
            found = directory.own_status()
            if found is None:
                return known or _CLOSED
            common = _Common(found.uid, found.gid)
            self._add_log(common, directory, found)
        except OSError:
            return known or _CLOSED
        return common.access

    def of_file(self, access: Access, directory: Directory, name: str, found: FileStatus) -> Access:
        """Return the access to a view of one file, where the access to its directory's log is this."""
        return in_common(access, self._told(directory, name, found))

    def forget_all(self) -> None:
        """Look at all logs again when the access to what shows them is next asked for."""
        with self._lock:
            self._of_all = None

    def narrowed(
        self, access: Access, files: Iterable[tuple[Directory, str]], logs: Iterable[Directory] = ()
    ) -> Access:
        """Return what is left of an access for a view that shows these files of log directories and these logs too."""
        if not self.is_shared:
            return access
        common = _Common(access.uid, access.gid)
        try:
            for directory, name in files:
                if (of_file := directory.status(name)) is not None:
                    for each in self._ways[directory.path].get():
                        common.add_passage(each)
                    common.add_file(self._told(directory, name, of_file))
            for log in logs:
                if (of_log := log.own_status()) is not None:
                    self._add_log(common, log, of_log)
        except OSError:
            return access._replace(mode=access.mode & _CLOSED.mode)
        return access._replace(mode=access.mode & common.access.mode)

    def is_narrower(self, access: Access, granted: Access) -> bool:
        """True if some users may not do with this access what one that was granted let them."""
        return self.is_shared and access != granted and in_common(granted, access).mode & _USED != granted.mode & _USED

    def is_reached_by_more(self, access: Access, of_directory: Access) -> bool:
        """True if some users may search the directory of a view and not read the view."""
        return self.is_shared and bool(of_directory.mode & ~access.mode & _READ)

    def _look(
        self, known: Access | None, *, logs: Iterable[Directory], files: Iterable[tuple[Directory, str]]
    ) -> Access:
        try:
            ways = [self._ways[each.path].get() for each in self._log_dirs]
            common = _Common(ways[0][0].uid, ways[0][0].gid)
            for log_dir, *above in ways:
                common.add_directory(log_dir)
                for each in above:
                    common.add_passage(each)
            for log in logs:
                if (of_log := log.own_status()) is not None:
                    self._add_log(common, log, of_log)
            for directory, name in files:
                if (of_file := directory.status(name)) is not None:
                    common.add_file(self._told(directory, name, of_file))
        except OSError:
            return known or _CLOSED
        return common.access

    def _add_log(self, common: _Common, directory: Directory, found: FileStatus) -> None:
        log_dir = directory.above
        if log_dir is not None and log_dir.path in self._ways:
            for each in self._ways[log_dir.path].get():
                common.add_passage(each)
        if self.is_shared and log_dir is not None and log_dir.follows_partitions:
            for each in self._above(directory):
                common.add_passage(each)
        with directory.held(), suppress(PermissionError):  # then no log in it can be read
            common.add_directory(self._told(directory, ".", found))
            for each in directory.accesses(_is_of_log, with_access_lists=self.is_shared):
                common.add_file(each)

    def _look_to(self, log_dir: Directory, known: tuple[Access, ...] | None) -> tuple[Access, ...]:
        """Return the status of a log directory, and of those above the one that its path leads to."""
        found = log_dir.own_status()
        if found is None:
            if known is None:
                raise missing_file(log_dir)
            return known
        return self._told(log_dir, ".", found), *(self._above(log_dir) if self.is_shared else ())

    def _above(self, directory: Directory) -> Iterator[Access]:
        """Yield what the directories above the one that a path leads to grant."""
        path = os.path.realpath(directory.path)
        while path != "/":
            path = os.path.dirname(path)  # noqa: PTH120 -- pathlib costs several times as much
            above = self._named.directory(path)
            found = above.own_status()
            if found is not None:
                yield self._told(above, ".", found)

    def _told(self, directory: Directory, name: str, found: FileStatus) -> Access:
        """Return the status without what an access list may have taken from a group or from others."""
        access = access_of(found)
        return access.without_list(directory.access_list(name)) if self.is_shared else access


def _is_of_log(name: str) -> bool:
    # `.kafkafs/cluster` and `config` show the files of a metadata log.
    return is_of_log(name) or name == QUORUM_STATE_NAME or is_metadata_snapshot(name)
