"""Every way in which storage can fail, as one tree.

Catching `StorageError` catches all of them: bytes that no broker would write, limits that were reached, and requests
that cannot be honoured. Each error carries the file, the byte position in it and the record offset, as far as the
raising code knows them; callers that know more add it with `located`.
"""

from __future__ import annotations

import errno
import os
from typing import Self


def missing_file(path: str | os.PathLike[str]) -> FileNotFoundError:
    """Return the error that a system call gives for a path at which there is nothing."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))


class StorageError(Exception):
    """The root of the tree; its text is one sentence with the place at its end."""

    def __init__(
        self,
        reason: str,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = None if path is None else os.fspath(path)
        self.position = position
        self.offset = offset

    def __str__(self) -> str:
        place = []
        if self.path is not None:
            place.append(self.path)
        if self.position is not None:
            place.append(f"position {self.position}")
        if self.offset is not None:
            place.append(f"offset {self.offset}")
        return f"{self.reason} ({', '.join(place)})" if place else self.reason

    def located(
        self,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> Self:
        """Add what was not known where the error was raised; what was known stays."""
        if self.path is None and path is not None:
            self.path = os.fspath(path)
        if self.position is None:
            self.position = position
        if self.offset is None:
            self.offset = offset
        return self


class CorruptBatchError(StorageError):
    """The bytes of a batch are not what a broker writes."""


class FramingError(CorruptBatchError):
    """A length, a magic byte or a count cannot be right, so the batch's size or kind is unknown."""


class ChecksumError(CorruptBatchError):
    """The batch is framed, but its bytes do not have the checksum it carries."""


class MalformedRecordsError(CorruptBatchError):
    """The batch is framed, but what should be its records does not parse as records."""


class MisplacedBatchError(CorruptBatchError):
    """The batch may be sound, but its offsets are not those of its place in the log."""


class DecompressionError(CorruptBatchError):
    """Compressed records are truncated, damaged, or followed by bytes that do not belong to them."""


class DecompressedTooLargeError(CorruptBatchError):
    """Decoding would exceed the caller's limit, or the memory budget; nothing beyond the limit was produced."""


class MemoryBudgetError(StorageError):
    """Other readers keep the memory that decoding needs."""


class InvalidRecordError(StorageError):
    """A record or batch cannot be written in the format that the caller asks for."""


class RecordTooLargeError(InvalidRecordError):
    """A single record makes a batch larger than the largest that may be written."""


class CorruptIndexError(StorageError):
    """An index holds what no broker writes, what its log contradicts, or more than may be read of it."""


class InvalidIndexEntryError(StorageError):
    """An entry cannot be added to an index: it is out of order or out of range, or no slot is free."""


class ConfigError(StorageError):
    """A setting does not exist, or its value, or a combination of values, is not allowed."""


class CorruptCheckpointError(StorageError):
    """A checkpoint's version, count or entries are not what a broker writes."""


class NulFilledCheckpointError(CorruptCheckpointError):
    """A checkpoint is nothing but NUL bytes, as a loss of power can leave it; the log can rebuild it."""


class CorruptMetadataError(StorageError):
    """A file that identifies a log directory or a partition is damaged, or contradicts another."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot is not whole; an older one, or the log, can replace it."""


class InvalidIdError(StorageError):
    """A text is not an id as Kafka writes it."""


class RefusedAppendError(StorageError):
    """An append contradicts the log's state of its producer; nothing was written."""


class InvalidProducerEpochError(RefusedAppendError):
    """The producer's epoch is older than one that the log has seen: a newer instance has fenced it."""


class OutOfOrderSequenceError(RefusedAppendError):
    """The batch's sequence does not follow on the producer's last one."""


class InvalidTransactionStateError(RefusedAppendError):
    """A batch outside of transactions comes from a producer whose transaction is open."""


class TransactionCoordinatorFencedError(RefusedAppendError):
    """The marker comes from a coordinator that another has replaced."""


class BatchTooLargeError(InvalidRecordError):
    """A batch is larger than its topic allows, or than a segment may become."""


class UnexpectedOffsetError(StorageError):
    """The offsets of replicated batches do not follow on the log's end; nothing was written."""


class OffsetOutOfRangeError(StorageError):
    """The log begins after this offset or ends before it."""


class RecordsGoneError(StorageError):
    """Records that were to be read are gone: deleted, or cut off with the log's end."""


class RecordsCutOffError(RecordsGoneError):
    """The log ends before records that were to be read, or is gone with all of them; its start does not explain it."""


class DiskFullError(StorageError):
    """The file system has no space for an append; the log is as it was."""


class SpecialFileError(OSError):
    """What stands where a store has a file is no regular file, or is another user's. It is not opened."""

    def __init__(self, number: int, reason: str, path: str | os.PathLike[str]) -> None:
        super().__init__(number, reason, os.fspath(path))

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.errno, self.strerror, self.filename)


class SymbolicLinkError(SpecialFileError):
    """A symbolic link stands where a store has a file or a directory of its own. It is not followed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.ELOOP, "is a symbolic link, which kafkafs does not follow", path)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.filename,)


class OwnerError(OSError):
    """Root cannot hand files that it makes in a user's store to that user, whose broker could then not open them."""

    def __init__(self, path: str | os.PathLike[str], uid: int, gid: int) -> None:
        reason = (
            f"what root makes here would belong to root, because the kernel does not let it be given to user {uid}, "
            f"whose store this is: run the command as that user, with "
            f"`setpriv --reuid {uid} --regid {gid} --clear-groups` before it"
        )
        super().__init__(errno.EPERM, reason, os.fspath(path))
        self._given = (uid, gid)

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, int]]:
        return type(self), (self.filename, *self._given)


def forget_frames(error: BaseException | None) -> None:
    """Release what the frames hold in which an error was raised: decoded batches, until a search for cycles.

    To be called by code that keeps an error: a frame with a variable that leads to the error is such a cycle.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def is_full_disk(error: Exception) -> bool:
    """Return True if the disk, or its user's quota, is full."""
    return isinstance(error, DiskFullError) or (
        isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    )


def in_words(error: Exception) -> str:
    """Return the error as a sentence: that of a system call is its path and reason, without the number."""
    if not isinstance(error, OSError):
        return str(error)
    reason = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


class PoisonedLogError(StorageError):
    """A write to the log failed, so its state on disk is unknown; it takes nothing more until it is recovered."""


class TooManySegmentsError(StorageError):
    """A partition has more segments than are taken in."""


class LogChangedError(StorageError):
    """The log has changed since the decision about it was made; nothing was done."""


class CompactionError(StorageError):
    """Compacting a log failed. Finished groups stay replaced; the current one is undone."""


class CompactionStoppedError(CompactionError):
    """The caller stopped the compaction of a log."""


class StagingError(StorageError):
    """The records staged for a commit are gone or damaged, or no longer fit the store."""


class BuildError(StorageError):
    """A store cannot be rewritten into a new one as asked, or the user may not do so."""


class MetadataLossError(StorageError):
    """Recovering the cluster's metadata log would cut records that may have been committed; nothing was done."""


class NotAStoreError(StorageError):
    """The path has no log directory, or a store cannot be created there."""


class StoreLockedError(StorageError):
    """Another process, a broker or kafkafs, has the store open for writing."""


class ReadOnlyStoreError(StorageError):
    """The store is open for reading only."""


class ObjectStoreError(StorageError):
    """An object store refuses, fails, or does not answer.

    This is no `OSError`: where that means that a file is not there, or need not be read, this one must not pass.
    """


class DuplicatePartitionError(StorageError):
    """Two log directories have the same partition, and nothing says which of them holds its records."""


class UnknownPartitionError(StorageError, KeyError):
    """The store has no such topic or partition; mappings of topics and partitions raise it as their `KeyError`."""


class InvalidTopicError(StorageError):
    """No topic can have this name, or this number of partitions."""


class TopicExistsError(InvalidTopicError):
    """The store has a topic with this name, or one that collides with it in metric names."""
