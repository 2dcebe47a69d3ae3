"""`partition.metadata`: the id of the topic that a partition's directory belongs to.

It has to be on disk before a partition's first record: a KRaft broker takes a log without it for a stray.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptMetadataError, InvalidIdError
from storage.files import PROPERTIES_BYTES_MAX
from storage.ids import ZERO_ID, format_id, parse_id

if TYPE_CHECKING:
    from uuid import UUID

    from storage.files import Directory

PARTITION_METADATA_NAME: Final = "partition.metadata"

_KNOWN_MAX: Final = 128

_TEXT: Final = re.compile(r"version:[ \t]+[0-9]{1,9}[ \t]*\r?\ntopic_id:[ \t]+(\S+)[ \t]*(?:\r?\n.*)?", re.DOTALL)


def read_topic_id(directory: Directory) -> UUID | None:
    """Read the id of the topic that the partition in this directory belongs to; None if there is no file."""
    path = directory.path_of(PARTITION_METADATA_NAME)
    try:
        data = directory.read_small(PARTITION_METADATA_NAME, CorruptMetadataError, PROPERTIES_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        return _topic_id(data)
    except InvalidIdError as error:
        raise CorruptMetadataError(error.reason, path=path) from None


@lru_cache(_KNOWN_MAX)
def _topic_id(data: bytes) -> UUID:
    """Return the id that the file's bytes say, which the partitions of a topic share; raises `InvalidIdError`."""
    match = _TEXT.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise InvalidIdError("the file does not consist of a version and a topic id")
    try:
        topic_id = parse_id(match[1])
    except InvalidIdError as error:
        raise InvalidIdError(f"the topic id {error.reason}") from None
    if topic_id == ZERO_ID:
        raise InvalidIdError("the topic id is the one that stands for none")
    return topic_id


def write_topic_id(directory: Directory, topic_id: UUID) -> None:
    """Write the id of the topic that the partition in this directory belongs to, in one step and durably."""
    text = f"version: 0\ntopic_id: {format_id(topic_id)}"
    directory.replace(PARTITION_METADATA_NAME, text.encode())
