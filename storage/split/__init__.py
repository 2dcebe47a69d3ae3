"""Ranges of logs cut into splits, which many processes read at once: as records, as batches, or counted."""

from storage.split.batches import TIME_COLUMNS, BatchReader, BatchRun
from storage.split.counting import RecordCounter, Stretch
from storage.split.reading import SplitReader
from storage.split.splits import DEFAULT_SPLIT_BYTES, PartitionPlace, Split, packed, splits_of

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "TIME_COLUMNS",
    "BatchReader",
    "BatchRun",
    "PartitionPlace",
    "RecordCounter",
    "Split",
    "SplitReader",
    "Stretch",
    "packed",
    "splits_of",
]
