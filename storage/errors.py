"""Every way in which storage can fail, as one tree.

Whoever catches `StorageError` has caught all of them: bytes that no broker would write, limits that were
reached, and requests that cannot be honoured. Each error says where: the file, the byte position in it and
the record offset, as far as whoever raised it could know; callers that know more add it with `located`.
"""

from __future__ import annotations

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
