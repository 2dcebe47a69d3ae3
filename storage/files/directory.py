"""One directory and the files in it, by their names.

Code below a store is given a `Directory` in place of paths. A log directory is opened by a path that a user named and
that may be a link; a writer stays in the one that it locked. Everything below is reached from there, step by step: no
link is followed, and only regular files are opened, of which none is another user's by a hard link. Anything else on
the way raises `SpecialFileError` or another `OSError` with the path in it.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import SpecialFileError, SymbolicLinkError, is_full_disk
from storage.files.opened import Access, access_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from storage.errors import StorageError
    from storage.files.lock import FileLock
    from storage.files.opened import FileStatus, ReadableFile, WritableFile

TEMPORARY_SUFFIX: Final = ".tmp"
NO_FILE: Final = "is not a regular file, and kafkafs opens no others"
OTHERS_FILE: Final = "is a hard link to a file of"


class MadeFile(NamedTuple):
    """The last file of a kind that was made for a segment, and the next one that was there, by the offsets in names.

    A segment that begins between them has this file before it, if it is still there: the directory need not be listed.
    """

    offset: str
    following: str


class Directory(ABC):
    """A directory, which need not exist yet. Equal to another of the same path. Any thread may use it.

    Written data is visible to every reader at once and survives the death of the process. It survives a loss of power
    after `WritableFile.sync`, and a name does after `sync`.
    """

    made: Mapping[str, MadeFile] = MappingProxyType({})  # by suffix, as `ownership` notes them; most have none
    split: MadeFile | None = None  # the segment that was split last, whose parts are made

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Its own name, without the path to it."""
        return self.path.rpartition("/")[2]

    def path_of(self, name: str) -> str:
        """Return the path of a file in it, for errors and messages."""
        return f"{self.path}/{name}" if self.path[-1:] not in {"", "/"} else f"{self.path}{name}"

    @property
    @abstractmethod
    def above(self) -> Directory | None:
        """The log directory that holds this partition's directory; None for a directory that a user named."""

    @property
    @abstractmethod
    def is_of_store(self) -> bool:
        """True if new files in it are given to its owner, as `storage.files.ownership` says."""

    @property
    def follows_partitions(self) -> bool:
        """True for a log directory in which a link that leads to a directory may be a partition's."""
        return False

    def note_split(self, offset: int, following: int | None) -> None:
        """Note that a segment is about to be split, and where the next one begins: its parts are as open as it is."""
        self.split = MadeFile(f"{offset:020}", ":" if following is None else f"{following:020}")

    @abstractmethod
    def at(self, name: str) -> Directory:
        """Return the directory of this name in it, which need not exist."""

    def limited(self, bits: int, *, keeps_own: bool = False) -> Directory:  # noqa: ARG002 -- most have no permissions
        """Return the same directory; what is made by way of the result has no permission bits but some of these.

        It belongs to the process's user, and not to the directory's owner, if this `keeps_own`.
        """
        return self

    def held(self) -> AbstractContextManager[None]:
        """Let this thread use the files of one directory in a block, without going to it by its path each time.

        That is the directory which the path leads to when the block begins, if there is one. What the directory says
        of itself, by `own_status` and `is_at_path`, is about its path still.
        """
        return nullcontext()

    def look_again(self) -> None:  # noqa: B027 -- most have nothing to do
        """Ask the file system what is asked next; an object store's answers count for a while otherwise."""

    def kept(self) -> AbstractContextManager[None]:
        """Keep the directory that a user named open in a block, so that each use in it reaches the same directory."""
        return nullcontext()

    @property
    def is_kept(self) -> bool:
        """True while it is kept open."""
        return False

    def is_in_place(self) -> bool:
        """Return False if its path leads to another directory than the one that is kept open, or to none."""
        return True

    @abstractmethod
    def open_reading(self, name: str) -> ReadableFile:
        """Open a file that exists for reading. Nothing about it changes except its access time."""

    @abstractmethod
    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:
        """Open a file for writing, or make an empty one; `exclusive` refuses one that exists."""

    def read(self, name: str) -> bytes:
        """Read all of a small file."""
        with self.open_reading(name) as file:
            return file.read_at(0, file.size_bytes())

    def read_small(self, name: str, refusal: type[StorageError], bytes_max: int) -> bytes:
        """Read all of a small file; raises `refusal` before reading one larger than its kind's limit."""
        with self.open_reading(name) as file:
            size_bytes = file.size_bytes()
            if size_bytes > bytes_max:
                raise refusal(
                    f"the file has {size_bytes} bytes, and a file of its kind is read up to {bytes_max}",
                    path=self.path_of(name),
                )
            return file.read_at(0, size_bytes)

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a small file's contents, by way of a temporary file beside it.

        After any crash of the process a reader finds the old contents or the new ones. With `sync` the new ones are on
        disk when this returns; without it, a loss of power can leave the file with any contents. After an error the
        file has the old contents or the new ones, whole; after one that says that the disk is full, the old ones.
        Permissions stay as they were, and so does the owner where root replaces the file. In a store the file
        also replaces a link, a device, a FIFO or a socket of its name. Elsewhere a device, a FIFO or a socket is not
        replaced: that is a `SpecialFileError`.
        """
        found = None if self.is_of_store else self.status(name)
        if found is not None and found.special:
            raise SpecialFileError(errno.EINVAL, NO_FILE, self.path_of(name))
        temporary = f"{name}{TEMPORARY_SUFFIX}"
        try:
            self._remove_left(temporary)
            with self.open_writing(temporary, create=True, exclusive=True) as file:
                file.write_at(0, [data])
                if sync:
                    file.sync()
            self.rename(temporary, name)
        except BaseException:
            with suppress(OSError):
                self.remove(temporary)
            raise
        if sync:
            try:
                self.sync()
            except OSError as error:
                if is_full_disk(error):  # this error would say that nothing was changed
                    reason = f"the file was replaced, but not on disk: {error.strerror}"
                    raise OSError(errno.EIO, reason, self.path_of(name)) from error
                raise

    def _remove_left(self, name: str) -> None:
        """Remove the file that a crash left: it may be another user's, or have another hard link.

        In a store a link, a device, a FIFO or a socket of that name is removed too. What a link leads to stays.
        """
        left = self.status(name)
        if left is None:
            return
        refusal = None if self.is_of_store or left.is_file else self.refusal(name, left)
        if refusal is not None:
            raise refusal
        self.remove(name)

    @abstractmethod
    def status(self, name: str) -> FileStatus | None:
        """Return the file system's answer about a file, directory or link in it, None if none has that name."""

    @abstractmethod
    def own_status(self) -> FileStatus | None:
        """Return the file system's answer about its path now.

        None if nothing is there, or another directory than the one that is kept open.
        """

    def reached_status(self) -> FileStatus | None:
        """Return the file system's answer about the directory in which its files are reached, even without its path.

        None if there is none.
        """
        return self.own_status()

    def is_at_path(self, identity: tuple[int, int]) -> bool:
        """Return True if its path leads to the directory of this identity now."""
        found = self.own_status()
        return found is not None and found.identity == identity

    def exists(self) -> bool:
        """Return True if the directory itself is there."""
        found = self.own_status()
        return found is not None and found.is_directory

    @abstractmethod
    def names(self) -> list[str]:
        """List the names in it, in no order."""

    def statuses(self) -> dict[str, FileStatus]:
        """Return the file system's answer about each name in it, in no order. Links are not followed."""
        found = ((name, self.status(name)) for name in self.names())
        return {name: status for name, status in found if status is not None}

    def directories(self) -> Iterator[tuple[str, bool]]:
        """Yield the names of the directories and links in it, in no order, each with True if it is a link."""
        for name, status in self.statuses().items():
            if status.is_directory or status.is_link:
                yield name, status.is_link

    def accesses(self, is_meant: Callable[[str], bool], *, with_access_lists: bool) -> set[Access]:
        """Return the different owners and modes of its own files that have such names.

        With access lists, a file that has one grants nothing but to its owner.
        """
        return {
            access_of(status).without_list(self.access_list(name) if with_access_lists else None)
            for name, status in self.statuses().items()
            if is_meant(name) and status.is_file and self.refusal(name, status) is None
        }

    def strangers(self, is_opened: Callable[[str], bool] = lambda _: True) -> dict[str, SpecialFileError]:
        """Return the names in it of what is no file or directory of its own, each with the error that opening raises.

        Of regular files only those are looked at that the caller may open by their names. No file is opened.
        """
        statuses = self.statuses().items()
        found = ((name, self.refusal(name, each)) for name, each in statuses if not each.is_file or is_opened(name))
        return {name: error for name, error in found if error is not None}

    def refusal(self, name: str, status: FileStatus, place: int = -1) -> SpecialFileError | None:
        """Return the error that opening a file of this status raises, None for a file or directory of its own.

        A file with several hard links is one's own if it is the partition's owner's or the log directory's: of the
        directory in which the file was found, if a descriptor says which that is.
        """
        if status.is_link:
            return SymbolicLinkError(self.path_of(name))
        if status.special:
            return SpecialFileError(errno.EINVAL, NO_FILE, self.path_of(name))
        if status.names > 1 and not status.is_directory and self.is_of_store and not self._is_owned(status.uid, place):
            reason = f"{OTHERS_FILE} user {status.uid}, and kafkafs does not open it"
            return SpecialFileError(errno.EPERM, reason, self.path_of(name))
        return None

    def _is_owned(self, uid: int, place: int) -> bool:  # noqa: ARG002 -- few have descriptors
        """Return True if this user has the directory, or the log directory above it."""
        statuses = (each.reached_status() for each in (self, self.above) if each is not None)
        return any(status is not None and status.uid == uid for status in statuses)

    @abstractmethod
    def link_target(self, name: str) -> str:
        """Return what a link in it says, without following it."""

    @abstractmethod
    def rename(self, old: str, new: str, into: Directory | None = None) -> None:
        """Rename a file or directory in it, in one step, and move it `into` another directory of the same kind.

        A file that has the new name is replaced.
        """

    @abstractmethod
    def link(self, name: str, into: Directory, new: str) -> None:
        """Give a file in it a second name, a hard link, in a directory of the same kind and file system.

        Raises `FileExistsError` if the name is taken.
        """

    def point(self, name: str, target: str) -> None:
        """Make a symbolic link that says `target`, or replace one, in one step; durable when this returns.

        Raises `FileExistsError` if the name is one of something else.
        """
        found = self.status(name)
        if found is not None and not found.is_link:
            raise FileExistsError(errno.EEXIST, "is no symbolic link, and is not replaced by one", self.path_of(name))
        temporary = f"{name}{TEMPORARY_SUFFIX}"
        with suppress(FileNotFoundError):
            self.remove(temporary)  # a crash left it
        self.make_link(temporary, target)
        self.rename(temporary, name)
        self.sync()

    @abstractmethod
    def make_link(self, name: str, target: str) -> None:
        """Make a symbolic link that says `target`; raises `FileExistsError` if the name is taken."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Unlink a file or a link. Open descriptors stay valid."""

    def remove_tree(self, name: str) -> None:
        """Remove a file, or a directory and all that is in it, however deep. Links are removed, and never followed.

        Raises `FileNotFoundError` if it is not there.
        """
        left: list[tuple[Directory, str, bool]] = [(self, name, False)]
        while left:
            directory, each, is_emptied = left.pop()
            if is_emptied:
                directory.remove_directory(each)
                continue
            try:
                directory.remove(each)
            except IsADirectoryError:
                inside = directory.at(each)
                left += [(directory, each, True), *((inside, below, False) for below in inside.names())]

    @abstractmethod
    def make(self, *, like: Directory | None = None) -> None:
        """Make the directory itself, in one that exists, with owner and permissions like those of `like`."""

    @abstractmethod
    def remove_directory(self, name: str) -> None:
        """Remove an empty directory in it."""

    @abstractmethod
    def sync(self) -> None:
        """Return when the names in it are on disk."""

    @abstractmethod
    def lock(self, name: str) -> FileLock:
        """Take the lock that a broker takes on a file; raises `BlockingIOError` if another process has it."""

    @abstractmethod
    def is_locked(self, name: str) -> bool:
        """Return True if another process has that lock. The process that has it must not ask: it would lose it."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the space that its file system has left for this user."""

    @abstractmethod
    def check_can_give(self) -> None:
        """Raise `OwnerError` if new files in it cannot be given to its owner."""

    @abstractmethod
    def access_list(self, name: str) -> bytes | None:
        """Return the POSIX access list of a file in it, or of itself under the name `.`; None if it has none."""

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Directory) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"
