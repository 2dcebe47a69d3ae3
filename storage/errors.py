"""Every way in which storage can fail, as one tree.

Whoever catches `StorageError` has caught all of them: bytes that no broker would write, limits that were
reached, and requests that cannot be honoured. Each error says where: the file, the byte position in it and
the record offset, as far as whoever raised it could know; callers that know more add it with `located`.
"""

from __future__ import annotations

import errno
import os
from typing import Self


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
    """A length, a magic byte or a count cannot be right, so the batch's extent or kind is unknown."""


class ChecksumError(CorruptBatchError):
    """The batch is framed, but its bytes do not have the checksum it carries."""


class MalformedRecordsError(CorruptBatchError):
    """The batch is framed, but what should be its records does not parse as records."""


class DecompressionError(CorruptBatchError):
    """A compressed section is truncated, damaged, or followed by bytes that do not belong to it."""


class DecompressedTooLargeError(CorruptBatchError):
    """Decompressing would exceed the caller's limit; nothing beyond the limit was produced."""


class InvalidRecordError(StorageError):
    """A record or batch handed over for writing cannot be written in the format asked for."""


class RecordTooLargeError(InvalidRecordError):
    """A single record makes a batch larger than the largest that may be written."""


class CorruptIndexError(StorageError):
    """An index holds what no broker writes, or more than may be read of it."""


class InvalidIndexEntryError(StorageError):
    """An entry cannot be added to an index: it is out of order or out of range, or no slot is free."""


class ConfigError(StorageError):
    """A setting does not exist, or its value, or a combination of values, is not allowed."""


class CorruptCheckpointError(StorageError):
    """A checkpoint's version, count or entries are not what a broker writes."""


class NulFilledCheckpointError(CorruptCheckpointError):
    """A checkpoint is nothing but NUL bytes, as a loss of power can leave it; the log has what it said."""


class CorruptMetadataError(StorageError):
    """A file that says what a log directory or a partition is does not say so, or contradicts another."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot is not whole; an older one, or the log, has what it said."""


class InvalidIdError(StorageError):
    """A text is not an id as Kafka writes it."""


class RefusedAppendError(StorageError):
    """An append does not fit what the log knows of its producer; nothing was written."""


class InvalidProducerEpochError(RefusedAppendError):
    """The producer's epoch is older than one that the log has seen: another has taken its place."""


class OutOfOrderSequenceError(RefusedAppendError):
    """The batch's sequence does not follow on the producer's last one."""


class InvalidTransactionStateError(RefusedAppendError):
    """A batch outside of transactions comes from a producer whose transaction is open."""


class TransactionCoordinatorFencedError(RefusedAppendError):
    """The marker comes from a coordinator that another has replaced."""


class BatchTooLargeError(InvalidRecordError):
    """A batch is larger than its topic allows, or than a segment may become."""


class UnexpectedOffsetError(StorageError):
    """Batches that keep their offsets do not follow on what the log has; nothing was written."""


class OffsetOutOfRangeError(StorageError):
    """The log does not have what lies at this offset: it begins after it or ends before it."""


class RecordsGoneError(StorageError):
    """Records that somebody was to read are there no longer: deleted, or cut off with the log's end."""


class DiskFullError(StorageError):
    """The file system has no space for an append; the log is as it was."""


class SymbolicLinkError(OSError):
    """A symbolic link stands where a store has a file or a directory of its own. It is not followed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.ELOOP, "is a symbolic link, which kafkafs does not follow", os.fspath(path))

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.filename,)


class OwnerError(OSError):
    """Root cannot give what it makes in another user's directory to that user, whose broker could not open it."""

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


def is_full_disk(error: OSError) -> bool:
    """Whether the error says that the disk, or what its user may have of it, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


class PoisonedLogError(StorageError):
    """Writing to the log failed once, so what is on disk is unknown; it takes nothing more until it is recovered."""


class LogChangedError(StorageError):
    """The log is no longer what somebody has decided about; nothing was done."""


class CompactionError(StorageError):
    """Compacting a log failed; what was under way is undone, and what was replaced before that is sound."""


class CompactionStoppedError(CompactionError):
    """Compacting a log was stopped by whoever asked for it."""


class StagingError(StorageError):
    """What was staged for a commit is not there as it was staged, or does not fit the store any more."""


class BuildError(StorageError):
    """A store cannot be made anew out of another one as it was asked for, or not by whoever tries."""


class MetadataLossError(StorageError):
    """Recovering the cluster's metadata log would cut records that may have been committed; nothing was done."""


class NotAStoreError(StorageError):
    """What stands at a path is no log directory, or a store cannot be made there."""


class StoreLockedError(StorageError):
    """Somebody else, a broker or another of us, has the store open for writing."""


class ReadOnlyStoreError(StorageError):
    """The store is open for reading only."""


class DuplicatePartitionError(StorageError):
    """Two log directories have the same partition, so which of them holds its records is unknown."""


class UnknownPartitionError(StorageError, KeyError):
    """The store has no such topic or partition; mappings of topics and partitions raise it as their `KeyError`."""


class InvalidTopicError(StorageError):
    """No topic can have this name, or partitions so many or so few."""


class TopicExistsError(InvalidTopicError):
    """The store has a topic with this name, or one that a broker could not tell from it."""
