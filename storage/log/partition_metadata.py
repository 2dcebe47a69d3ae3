"""`partition.metadata`: which topic a partition's directory belongs to, by the topic's id.

It has to be on disk before a partition's first record: a KRaft broker takes a log without it for a stray one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptMetadataError, InvalidIdError
from storage.files import read_small_file, replace_file
from storage.ids import ZERO_ID, format_id, parse_id

if TYPE_CHECKING:
    import os
    from uuid import UUID

    from storage.files import Files

PARTITION_METADATA_NAME: Final = "partition.metadata"

_TEXT: Final = re.compile(r"version:[ \t]+[0-9]{1,9}[ \t]*\r?\ntopic_id:[ \t]+(\S+)[ \t]*(?:\r?\n.*)?", re.DOTALL)


def read_topic_id(files: Files, directory: str | os.PathLike[str]) -> UUID | None:
    """The id of the topic that the partition in this directory belongs to; None if no file says so."""
    path = Path(directory) / PARTITION_METADATA_NAME
    try:
        data = read_small_file(files, path, CorruptMetadataError)
    except FileNotFoundError:
        return None
    match = _TEXT.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        raise CorruptMetadataError("the file does not consist of a version and a topic id", path=path)
    try:
        topic_id = parse_id(match[1])
    except InvalidIdError as error:
        raise CorruptMetadataError(f"the topic id {error.reason}", path=path) from None
    if topic_id == ZERO_ID:
        raise CorruptMetadataError("the topic id is the one that stands for none", path=path)
    return topic_id


def write_topic_id(files: Files, directory: str | os.PathLike[str], topic_id: UUID) -> None:
    """Say that the partition in this directory belongs to this topic, in one step and durably."""
    text = f"version: 0\ntopic_id: {format_id(topic_id)}"
    replace_file(files, Path(directory) / PARTITION_METADATA_NAME, text.encode())
