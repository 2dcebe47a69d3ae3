"""A store as every job takes it: the path of a log directory, or several."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from typing import TypeAlias

from kafkafs.spark.options import parse_paths

StorePath: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]
"""A log directory, or several, as a sequence or with commas between them."""


def log_dirs(store: StorePath) -> tuple[str, ...]:
    """The log directories, absolute, so that they are the same in every process; raises `OptionError` for none."""
    paths = [store] if isinstance(store, str | PathLike) else store
    return parse_paths({"path": ",".join(fspath(path) for path in paths)})
