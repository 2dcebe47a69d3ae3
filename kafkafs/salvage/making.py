"""A salvaged partition in a directory of its own, which is there whole and verified, or not at all.

The copy is made in a directory that no broker takes for a partition. Its account comes to its place before it does.
Several partitions may be salvaged into one directory, one after another: with what is beside them it is a store that
was closed properly. The source is only read.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkafs.salvage.account import Account
from storage.errors import BuildError, CorruptMetadataError, NotAStoreError, StoreLockedError
from storage.files import TEMPORARY_SUFFIX, copied_bits
from storage.log import read_topic_id
from storage.log_dir import (
    CLEAN_MARKER_NAME,
    LOCK_NAME,
    Doomed,
    OffsetCheckpoint,
    are_vacant,
    clean_marker,
    home_of,
    make_directories,
    parse_directory_name,
    read_offsets,
    write_offsets,
)
from storage.replicas import ACCOUNT_SUFFIX, LostOffsets, mend, scan_replica, write_log
from storage.verify import FindingKind, PartitionExpectation, Severity, verify_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from uuid import UUID

    from kafkafs.salvage.source import Source
    from storage.clock import Clock
    from storage.files import Directory, Files
    from storage.replicas import Mended, Replica
    from storage.verify import PartitionResult

    Advance = Callable[[str, int, int], None]

_ATTEMPT_NAME: Final = "kafkafs-salvage.attempt"
_SCRATCH_NAME: Final = "kafkafs-salvage.scratch"


def salvage(
    source: Source, target: Path, files: Files, clock: Clock, *, even_unsummed: bool, advance: Advance
) -> Account:
    """Salvage a partition into a store at the target, which is made if it is missing.

    No user may read what is made who may not read all of the partition.

    `advance` is given what is done, the bytes done, and those to be done; an exception of it ends the work, and leaves
    no partition. Raises `NotAStoreError` if something else is at the target, `BuildError` if the partition is there
    already, if the target lies in the store, or if the copy is not sound, and `StoreLockedError` while another process
    works there.
    """
    directory = files.add_root(target).limited(copied_bits([source.directory]), keeps_own=True)
    _check_apart(files, target, source)
    _check(directory, source)
    replica = _scanned(source, advance)
    if are_vacant([directory]):
        make_directories(files, [directory])
    with _locked(directory):
        _check(directory, source)
        return _Making(source, replica, directory, clock, advance).make(even_unsummed=even_unsummed)


def _check_apart(files: Files, target: Path, source: Source) -> None:
    """Raise `BuildError` if the target lies in the store, by whichever path: no broker starts with it there."""
    if home_of(files, target, dict.fromkeys(source.homes, source)) is not None:
        raise BuildError("the copy would lie in the store itself; give a directory outside of it", path=target)


def _check(directory: Directory, source: Source) -> None:
    """Raise an error unless the partition may be made in the directory."""
    if directory.exists() and directory.status(str(source.name)) is not None:
        raise BuildError(
            f"{source.name} is there already: give another directory, or remove it and {source.name}{ACCOUNT_SUFFIX}",
            path=directory,
        )
    if are_vacant([directory]):
        return
    if directory.own_status() is None or not directory.exists():
        raise NotAStoreError("a partition is salvaged into a directory, and this is a file", path=directory)
    names = set(directory.names())
    partitions = [name for name in names if parse_directory_name(name) is not None]
    left = {_ATTEMPT_NAME, _SCRATCH_NAME}
    is_ours = any(name in left or name.removesuffix(TEMPORARY_SUFFIX).endswith(ACCOUNT_SUFFIX) for name in names)
    if not is_ours or any(f"{name}{ACCOUNT_SUFFIX}" not in names for name in partitions):
        raise NotAStoreError(
            "a partition is salvaged into a new or empty directory, or beside others that were salvaged", path=directory
        )


def _scanned(source: Source, advance: Advance) -> Replica:
    sizes = [status.size_bytes for name, status in source.directory.statuses().items() if ".log" in name]
    done_bytes, total_bytes = 0, sum(sizes)

    def read(size_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += size_bytes
        advance("reading", done_bytes, total_bytes)

    advance("reading", 0, total_bytes)
    replica = scan_replica(source.directory, decodes=True, advance=read)
    if not source.is_compacted:
        return replica
    damages = tuple(each for each in replica.damages if each.kind is not FindingKind.OFFSET_GAP)
    return replace(replica, damages=damages, lacks_offsets=True)


@contextmanager
def _locked(directory: Directory) -> Iterator[None]:
    try:
        lock = directory.lock(LOCK_NAME)
    except BlockingIOError:
        raise StoreLockedError("another process has this store open; wait until it ends", path=directory) from None
    try:
        yield
    finally:
        lock.release()


class _Making:
    """A partition being made."""

    def __init__(self, source: Source, replica: Replica, directory: Directory, clock: Clock, advance: Advance) -> None:
        self._source = source
        self._replica = replica
        self._directory = directory
        self._clock = clock
        self._advance = advance
        self._notes: list[str] = []

    def make(self, *, even_unsummed: bool) -> Account:
        """Make it; after a failure nothing of it is left, and after a crash what the next run removes."""
        self._remove_attempt()
        log, scratch = self._directory.at(_ATTEMPT_NAME), self._directory.at(_SCRATCH_NAME)
        try:
            log.make()
            scratch.make()
            mended = self._mended(scratch, even_unsummed=even_unsummed)
            self._write(mended, log)
            account = self._account(mended, self._verified(log, mended))
            self._put_in_place(account)
        finally:
            with suppress(OSError):
                self._remove_attempt()
        return account

    def _remove_attempt(self) -> None:
        for name in (_ATTEMPT_NAME, _SCRATCH_NAME):
            with suppress(FileNotFoundError):
                Doomed(self._directory, name).remove()

    def _mended(self, scratch: Directory, *, even_unsummed: bool) -> Mended:
        mended = mend(self._replica, scratch, self._source.start_offset, even_unsummed=even_unsummed)
        end_offset, reached = mended.composition.end_offset, self._source.reached
        if reached <= end_offset:
            return mended
        self._notes.append(f"the log had once reached offset {reached}, as a checkpoint of its log directory says")
        lost = [each for each in mended.lost if each.end is not None]
        return mended._replace(lost=(*lost, LostOffsets(end_offset, reached)))

    def _write(self, mended: Mended, log: Directory) -> None:
        done_bytes, total_bytes = 0, mended.composition.size_bytes

        def tell(more_bytes: int) -> None:
            nonlocal done_bytes
            done_bytes += more_bytes
            self._advance("copying", done_bytes, total_bytes)

        write_log(mended.composition, log, self._source.config, self._topic_id(), self._clock, tell=tell)

    def _topic_id(self) -> UUID | None:
        try:
            topic_id = read_topic_id(self._source.directory)
        except (CorruptMetadataError, OSError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
            self._notes.append(f"partition.metadata cannot be read ({reason}), and the copy has no topic id")
            return None
        if topic_id is None:
            self._notes.append("there is no partition.metadata, and the copy has no topic id")
        return topic_id

    def _verified(self, log: Directory, mended: Mended) -> PartitionResult:
        """Verify the copy as a log that was closed properly."""
        composition = mended.composition
        done_bytes, total_bytes = 0, composition.size_bytes

        def read(more_bytes: int) -> None:
            nonlocal done_bytes
            done_bytes += more_bytes
            self._advance("verifying", done_bytes, total_bytes)

        expected = PartitionExpectation(
            directory=log, is_clean=True, is_compacted=True, start_offset=composition.start_offset
        )
        result = verify_partition(expected, advance=read)
        bad = next((each for each in result.findings if each.severity is not Severity.NOTICE), None)
        if bad is not None:
            raise BuildError(
                f"the copy of {self._source.directory} is not sound, and was removed: {bad.path}: {bad.reason}; run "
                "this again, with another directory if this disk fails"
            )
        return result

    def _account(self, mended: Mended, result: PartitionResult) -> Account:
        path = self._directory.path_of(str(self._source.name))
        return Account(self._source, path, self._replica, mended, result, tuple(self._notes))

    def _put_in_place(self, account: Account) -> None:
        """Let the partition be there, with its account and what closes the store properly."""
        directory, name = self._directory, str(self._source.name)
        text = json.dumps(account.to_json(), indent=2)
        directory.replace(f"{name}{ACCOUNT_SUFFIX}", text.encode() + b"\n")
        for checkpoint, offset in self._offsets(account).items():
            offsets = read_offsets(directory, checkpoint)
            offsets.pop(self._source.partition, None)
            write_offsets(directory, checkpoint, offsets | ({} if offset is None else {self._source.partition: offset}))
        directory.replace(CLEAN_MARKER_NAME, clean_marker())
        directory.rename(_ATTEMPT_NAME, name)
        directory.sync()

    def _offsets(self, account: Account) -> dict[OffsetCheckpoint, int | None]:
        """Return what each checkpoint says of the partition.

        A log that lacks offsets is entered as one that is compacted up to its beginning. Otherwise a recovery would
        take what is lost for a crash, and drop what follows.
        """
        composition = account.mended.composition
        lacks = self._replica.lacks_offsets or any(each.end is not None for each in account.mended.lost)
        return {
            OffsetCheckpoint.RECOVERY_POINT: composition.end_offset,
            OffsetCheckpoint.HIGH_WATERMARK: composition.end_offset,
            OffsetCheckpoint.LOG_START: composition.start_offset or None,
            OffsetCheckpoint.FIRST_DIRTY: 0 if lacks else None,
        }
