"""One log directory: which broker it belongs to, who has it open, how it was closed, and what stands in it.

Looking changes nothing. Only a writer may lock or write; in which order it is done is left to the store, and what is
inside of a partition's directory to the log that opens it.
"""

from __future__ import annotations

import errno
import json
import logging
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.errors import (
    CorruptCheckpointError,
    CorruptMetadataError,
    NotAStoreError,
    ReadOnlyStoreError,
    SpecialFileError,
    StoreLockedError,
)
from storage.files import LARGE_DIRECTORY_BYTES, PROPERTIES_BYTES_MAX, TEMPORARY_SUFFIX, free
from storage.log_dir.checkpoints import OffsetCheckpoint, ReadOffsets, read_offsets_again, write_offsets
from storage.log_dir.looks import Looks
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.names import DirectoryName, DirectoryState, parse_directory_name
from storage.log_dir.recognition import CLEAN_MARKER_NAME, LOCK_NAME, RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from storage.files import Directory, FileLock, FileStatus
    from storage.log_dir.checkpoints import Partition

_CLEAN_MARKER_VERSION: Final = 0
_NO_BROKER_EPOCH: Final = -1  # what a broker takes as closed properly, but not by one that the controller knows
_INDEX_CACHE_NAME: Final = "remote-log-index-cache"  # the only other directory that a broker puts up with

_SHARED: Final = (
    "this is a run of a backup, which shares files with other runs: copy it, and remove "
    f"{RUN_MANIFEST_NAME} from the copy, to write to that"
)

logger = logging.getLogger(__name__)


class Listing(NamedTuple):
    """The directories in a log directory, each kind in no order.

    A broker does not start while there are `foreign` ones. `links` are called like directories of partitions that a
    broker recovers, and are symbolic links: what they lead to is not a part of the store.
    """

    partitions: tuple[DirectoryName, ...]
    unattached: tuple[DirectoryName, ...]
    foreign: tuple[str, ...]
    links: tuple[DirectoryName, ...] = ()

    @classmethod
    def of(cls, directories: Mapping[str, DirectoryName | None], links: Iterable[str] = ()) -> Self:
        """Directories by their names, and what those say; and the names of links."""
        linked = (name for text in links if (name := parse_directory_name(text)) is not None)
        names = [name for name in directories.values() if name is not None]
        return cls(
            partitions=tuple(name for name in names if name.state is DirectoryState.CURRENT),
            unattached=tuple(name for name in names if name.state is not DirectoryState.CURRENT),
            foreign=tuple(text for text, name in directories.items() if name is None and text != _INDEX_CACHE_NAME),
            links=tuple(name for name in linked if name.state.is_recovered),
        )


class LogDir:
    """A log directory that exists. `properties` is what it says of itself, None if it says nothing.

    A writer of its checkpoints holds `checkpointing` from when it knows what they are to say.

    Raises `NotAStoreError` if it is no directory, and `CorruptMetadataError` if what it says cannot be read.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.path = Path(directory)
        status = directory.own_status()
        if status is None:
            raise NotAStoreError("there is no such directory", path=directory)
        if not status.is_directory:
            raise NotAStoreError("a store is a directory, and this is a file", path=directory)
        self.identity = status.identity
        self.properties = read_meta_properties(directory)
        self._lock: FileLock | None = None
        self._known: dict[str, DirectoryName | None] = {}
        self._links: list[str] = []
        self._listing: Listing | None = None
        self._scans = Looks()
        self.is_large = False  # so that a listing takes a while
        self._marker: bytes | None = None  # what it said before it was removed
        self.checkpointing = Lock()
        self._checkpoints: dict[OffsetCheckpoint, Mapping[Partition, int]] = {}
        self._last_read: dict[OffsetCheckpoint, ReadOffsets] = {}
        self._readings = {each: Looks() for each in OffsetCheckpoint}
        self._flaws: dict[OffsetCheckpoint, str] = {}
        self._unsure: set[OffsetCheckpoint] = set()  # those that are damaged, or could not be replaced the last time

    # What stands in it

    def scan(self) -> Listing:
        """The directories that are there now. Costs one listing, in which only links that are followed are looked at.

        The listing is the last one again if the names are the same.
        """
        status = self.directory.own_status()
        before, known, is_new = self._known, dict[str, DirectoryName | None](), self._listing is None
        links = []
        for name, is_link in self.directory.directories():
            if is_link and not self._leads_to_directory(name):
                links.append(name)
            elif name in before:
                known[name] = before[name]
            else:
                known[name] = parse_directory_name(name)
                is_new = True
        if self._listing is None or is_new or len(known) != len(before) or set(links) != set(self._links):
            self._listing = Listing.of(known, links)
        self._known, self._links = known, links
        free(before)
        self.is_large = status is not None and status.size_bytes >= LARGE_DIRECTORY_BYTES
        self._scans.take(status)
        return self._listing

    def _leads_to_directory(self, name: str) -> bool:
        """True for a link that is followed, unless it leads to nothing, or to itself."""
        found = None
        if self.directory.follows_partitions:
            with suppress(OSError):
                found = self.directory.at(name).own_status()
        return found is not None and found.is_directory

    def listing(self) -> Listing:
        """Return what a scan finds, without one where nothing may have changed since the last."""
        return self.scan() if self._listing is None or self.may_have_changed() else self._listing

    def may_have_changed(self) -> bool:
        """True if a scan may find something else than the last one did. Costs one look."""
        return self._scans.may_differ(self._status())

    def is_there(self) -> bool:
        """True if its path leads to the directory that was opened, and to no other that has come in its place."""
        status = self._status()
        return status is not None and status.identity == self.identity

    def _status(self) -> FileStatus | None:
        with suppress(OSError):
            return self.directory.own_status()
        return None

    # Who has it

    def lock(self) -> None:
        """Keep brokers and others of us from writing; raises `StoreLockedError` if one of them does.

        Raises `OwnerError`, before anything is written, where the broker's user could not open what would be,
        `ReadOnlyStoreError` for a backup's run, and `IsADirectoryError` where a checkpoint could not be written.
        """
        if self._lock is None:
            if self.is_backup_run:
                raise ReadOnlyStoreError(_SHARED, path=self.path)
            self.directory.check_can_give()
            self._check_checkpoints_can_be_written()
        while self._lock is None:
            try:
                lock = self.directory.lock(LOCK_NAME)
            except BlockingIOError:
                raise StoreLockedError(
                    "a broker or another kafkafs has the store open for writing; stop that, or open it read-only",
                    path=self.directory.path_of(LOCK_NAME),
                ) from None
            # A broker that stops takes the file away: then this is a lock that the next one does not see.
            if self.directory.status(LOCK_NAME) is None:
                lock.release()
            else:
                self._lock = lock

    def _check_checkpoints_can_be_written(self) -> None:
        names = (f"{each}{suffix}" for each in OffsetCheckpoint for suffix in ("", TEMPORARY_SUFFIX))
        for name in names:
            status = self.directory.status(name)
            if status is not None and status.is_directory:
                reason = "it is a directory, and a checkpoint is to be written there: move it away"
                raise IsADirectoryError(errno.EISDIR, reason, self.directory.path_of(name))

    @property
    def is_backup_run(self) -> bool:
        """True if it is a run of a backup, which shares files with other runs."""
        return self.directory.status(RUN_MANIFEST_NAME) is not None

    def is_locked(self) -> bool:
        """True if another process has the store open for writing. Not to be asked by a process that has it itself."""
        return self.directory.is_locked(LOCK_NAME)

    def unlock(self) -> None:
        """Unlock it; harmless if it is not locked. The lock's file stays, so that no process locks a removed one."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # How it was closed

    def is_clean(self) -> bool:
        """True if the last writer closed everything properly. The marker's contents do not matter."""
        status = self.directory.status(CLEAN_MARKER_NAME)
        return status is not None and status.is_file

    def remove_clean_marker(self) -> None:
        """Remove it durably, before anything is written that a crash may leave unfinished."""
        with suppress(FileNotFoundError):
            self._marker = self.read_clean_marker()
            self.directory.remove(CLEAN_MARKER_NAME)
        # Even if it is missing: the process that removed it may have died before that was on disk.
        self.directory.sync()

    def write_clean_marker(self, *, is_unchanged: bool = False) -> None:
        """Say that everything in the directory was closed properly.

        Of a directory that `is_unchanged` since its marker was removed, the marker is as it was: a broker finds the
        epoch in it with which it stopped.
        """
        kept = self._marker if is_unchanged else None
        self.directory.replace(CLEAN_MARKER_NAME, clean_marker() if kept is None else kept)

    def read_clean_marker(self) -> bytes | None:
        """Return the contents of the marker; None if there is none, or in its place no regular file or a larger one."""
        try:
            return self.directory.read_small(CLEAN_MARKER_NAME, CorruptMetadataError, PROPERTIES_BYTES_MAX)
        except (FileNotFoundError, SpecialFileError, CorruptMetadataError):
            return None

    # Its checkpoints

    def offsets(self, checkpoint: OffsetCheckpoint) -> Mapping[Partition, int]:
        """Return the checkpoint as it was when it was first asked for, or last written.

        One that is damaged, or no regular file, says nothing: all that follows is that more of the logs is looked at.
        It is replaced the next time that anything is written to it, even if it is to say nothing.
        """
        if checkpoint not in self._checkpoints:
            self._flaws.pop(checkpoint, None)
            self._readings[checkpoint].take(self.directory.status(checkpoint.value))
            try:
                found = read_offsets_again(self.directory, checkpoint, self._last_read.get(checkpoint))
                self._last_read[checkpoint] = found
                self._checkpoints[checkpoint] = found.offsets
            except (CorruptCheckpointError, SpecialFileError, IsADirectoryError) as error:
                self._flaws[checkpoint] = _flaw_of(error)
                logger.warning("%s (%s); it is taken for empty", _flaw_of(error), self.path / checkpoint.value)
                self._checkpoints[checkpoint] = {}
                self._unsure.add(checkpoint)
        return self._checkpoints[checkpoint]

    def known_offsets(self, checkpoint: OffsetCheckpoint) -> Mapping[Partition, int] | None:
        """Return what `offsets` would, if it need not be read."""
        return self._checkpoints.get(checkpoint)

    def flaw(self, checkpoint: OffsetCheckpoint) -> str | None:
        """Return what was wrong with the checkpoint when it was first read, None if nothing was."""
        self.offsets(checkpoint)
        return self._flaws.get(checkpoint)

    def flaws(self) -> dict[OffsetCheckpoint, str]:
        """Return what was wrong with each checkpoint that could not be read when it was first asked for."""
        return {each: flaw for each in OffsetCheckpoint if (flaw := self.flaw(each)) is not None}

    def write_offsets(self, checkpoint: OffsetCheckpoint, offsets: Mapping[Partition, int]) -> None:
        """Replace the checkpoint, unless it says the same already.

        After an error the file says the one or the other, and the next call replaces it in any case.
        """
        if offsets != self.offsets(checkpoint) or checkpoint in self._unsure:
            self._unsure.add(checkpoint)
            write_offsets(self.directory, checkpoint, offsets)
            self._checkpoints[checkpoint] = dict(offsets)
            self._unsure.discard(checkpoint)

    def forget_offsets(self) -> None:
        """Read the checkpoints again that another process may have written, when they are next asked for."""
        for checkpoint in list(self._checkpoints):
            if self._readings[checkpoint].may_differ(self.directory.status(checkpoint.value)):
                del self._checkpoints[checkpoint]


def _flaw_of(error: CorruptCheckpointError | SpecialFileError | IsADirectoryError) -> str:
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    return f"it {error.strerror}" if isinstance(error, SpecialFileError) else error.reason


def clean_marker() -> bytes:
    """Return the contents of the marker that kafkafs writes."""
    marker = {"version": _CLEAN_MARKER_VERSION, "brokerEpoch": _NO_BROKER_EPOCH}
    return json.dumps(marker, separators=(",", ":")).encode()


def distinct_log_dirs(directories: Iterable[Directory]) -> list[LogDir]:
    """The log directories that these are; raises `NotAStoreError` if one is given twice."""
    log_dirs: dict[tuple[int, int], LogDir] = {}
    for log_dir in map(LogDir, directories):
        if log_dirs.setdefault(log_dir.identity, log_dir) is not log_dir:
            raise NotAStoreError("the directory is given twice", path=log_dir.directory)
    return list(log_dirs.values())


def lock_all(log_dirs: Sequence[LogDir], unlocking: ExitStack) -> None:
    """Lock each log directory; `unlocking` lets others have those again that were locked."""
    for log_dir in log_dirs:
        log_dir.lock()
        unlocking.callback(log_dir.unlock)
