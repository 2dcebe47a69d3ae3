"""The entries of a checkpoint of offsets as a mapping, of which nothing is made before it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, overload

from storage.checkpoint_text import read_table
from storage.record.kernel.checkpoint_lines import OffsetTable

if TYPE_CHECKING:
    from collections.abc import Iterator

Default = TypeVar("Default")


class OffsetEntries(Mapping[tuple[str, int], int]):
    """The offsets by topic and partition, in the file's order.

    Raises `CorruptCheckpointError` for what a broker would not read.
    """

    __slots__ = ("_table",)

    def __init__(self, data: bytes, path: str) -> None:
        self._table = read_table(OffsetTable, data, path)

    def __getitem__(self, partition: tuple[str, int]) -> int:
        offset = self._table.find(*partition)
        if offset is None:
            raise KeyError(partition)
        return offset

    @overload
    def get(self, partition: tuple[str, int], /) -> int | None: ...
    @overload
    def get(self, partition: tuple[str, int], /, default: int | Default) -> int | Default: ...
    def get(self, partition: tuple[str, int], /, default: int | Default | None = None) -> int | Default | None:
        """Return the offset of a partition."""
        offset = self._table.find(*partition)
        return default if offset is None else offset

    def __iter__(self) -> Iterator[tuple[str, int]]:
        for index in range(len(self._table)):
            topic, partition, _ = self._table.entry(index)
            yield sys.intern(topic), partition

    def __len__(self) -> int:
        return len(self._table)
