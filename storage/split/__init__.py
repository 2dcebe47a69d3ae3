"""Ranges of logs cut into splits, which many processes read at once: as records, as columns, as batches, or counted.

The column reader is loaded at its first use, since pyarrow is optional.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from storage.split.counting import RecordCounter, Stretch
from storage.split.records import RecordReader
from storage.split.splits import DEFAULT_SPLIT_BYTES, PartitionPlace, Split, packed, splits_of
from storage.split.walk import SPLIT_WINDOW_BYTES

if TYPE_CHECKING:
    from storage.split.batches import TIME_COLUMNS, BatchReader, BatchRun
    from storage.split.reading import SplitReader

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "SPLIT_WINDOW_BYTES",
    "TIME_COLUMNS",
    "BatchReader",
    "BatchRun",
    "PartitionPlace",
    "RecordCounter",
    "RecordReader",
    "Split",
    "SplitReader",
    "Stretch",
    "packed",
    "splits_of",
]


def __getattr__(name: str) -> object:
    if name == "SplitReader":
        return import_module("storage.split.reading").SplitReader
    if name in {"TIME_COLUMNS", "BatchReader", "BatchRun"}:
        return getattr(import_module("storage.split.batches"), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
