"""What the name of a file says: its kind, its offsets, and the files beside it."""

from __future__ import annotations

import re
from enum import Enum, auto
from pathlib import PurePath
from typing import Final

from storage.segment import Kind


class FileKind(Enum):
    """The kind of a file."""

    LOG = auto()  # or a metadata snapshot, which is written like one
    OFFSET_INDEX = auto()
    TIME_INDEX = auto()
    TRANSACTION_INDEX = auto()
    PRODUCER_SNAPSHOT = auto()
    OFFSET_CHECKPOINT = auto()
    EPOCH_CHECKPOINT = auto()


_BY_SUFFIX: Final = {
    Kind.OFFSET_INDEX.value: FileKind.OFFSET_INDEX,
    Kind.TIME_INDEX.value: FileKind.TIME_INDEX,
    Kind.TRANSACTION_INDEX.value: FileKind.TRANSACTION_INDEX,
    Kind.SNAPSHOT.value: FileKind.PRODUCER_SNAPSHOT,
}
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_LOG_NAME: Final = re.compile(r"(\d+)\.log(\..*)?", re.ASCII)
_SEGMENT_NAME: Final = re.compile(r"(\d+)\.[a-z]+(\..*)?", re.ASCII)


def kind_of(path: str) -> FileKind | None:
    """Return the file's kind, also of a renamed one (`.index.deleted`); None if the name does not say."""
    if _is_log(path):
        return FileKind.LOG
    name = PurePath(path)
    kinds = (kind for suffix, kind in _BY_SUFFIX.items() if suffix in name.suffixes)
    return next(kinds, None) or _kind_of_checkpoint(name.name)


def _kind_of_checkpoint(name: str) -> FileKind | None:
    # Most files are of segments, which none of this is needed for.
    from storage.log import EPOCHS_NAME
    from storage.log_dir import OffsetCheckpoint

    if name == EPOCHS_NAME:
        return FileKind.EPOCH_CHECKPOINT
    return FileKind.OFFSET_CHECKPOINT if name in {each.value for each in OffsetCheckpoint} else None


def base_offset(path: str) -> int | None:
    """Return the offset at which the file's segment begins, if its name is one that Kafka gives."""
    name = _SEGMENT_NAME.fullmatch(PurePath(path).name)
    return None if name is None else int(name[1])


def beside(path: str, kind: Kind) -> str:
    """Return the file of another kind of the same segment, in the same state."""
    name = _SEGMENT_NAME.fullmatch(PurePath(path).name)
    assert name is not None
    return str(PurePath(path).with_name(f"{name[1]}{kind}{name[2] or ''}"))


def _is_log(path: str) -> bool:
    """Return True for a log, also a renamed one (`.log.deleted`), or a metadata snapshot."""
    suffixes = PurePath(path).suffixes
    return ".log" in suffixes or suffixes[-1:] == [".checkpoint"]


def log_start_offset(path: str) -> int | None:
    """Return the offset at which the log begins, if its name is one that Kafka gives."""
    name = _LOG_NAME.fullmatch(PurePath(path).name)
    return None if name is None else int(name[1])


def snapshot_end_and_epoch(path: str) -> tuple[int, int] | None:
    """Return the end offset and the epoch of a metadata snapshot, if its name is one that Kafka gives."""
    name = _SNAPSHOT_NAME.fullmatch(PurePath(path).name)
    return None if name is None else (int(name[1]), int(name[2]))


def as_printed(path: str) -> str:
    """Return the path as the JVM prints it: without needless slashes."""
    shortened = re.sub("/+", "/", path)
    return shortened.removesuffix("/") or shortened
