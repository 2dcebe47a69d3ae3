"""The names of logs and metadata snapshots."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_LOG_NAME: Final = re.compile(r"(\d+)\.log(\..*)?", re.ASCII)


def is_log(path: str) -> bool:
    """True for a log, also a renamed one (`.log.deleted`), or a metadata snapshot."""
    suffixes = PurePath(path).suffixes
    return ".log" in suffixes or suffixes[-1:] == [".checkpoint"]


def log_start_offset(path: str) -> int | None:
    """The offset at which the log begins, if its name is one that Kafka gives."""
    name = _LOG_NAME.fullmatch(PurePath(path).name)
    return None if name is None else int(name[1])


def snapshot_end_and_epoch(path: str) -> tuple[int, int] | None:
    """The end offset and epoch of a metadata snapshot, if the name is one that Kafka gives."""
    name = _SNAPSHOT_NAME.fullmatch(PurePath(path).name)
    return None if name is None else (int(name[1]), int(name[2]))


def as_printed(path: str) -> str:
    """The path as the JVM prints it: without the slashes that it does not need."""
    shortened = re.sub("/+", "/", path)
    return shortened.removesuffix("/") or shortened
