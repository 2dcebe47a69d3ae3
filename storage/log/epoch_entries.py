"""The epochs of a checkpoint as a sequence, of which nothing is made before it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from storage.checkpoint_text import read_table
from storage.record.kernel.checkpoint_lines import EpochTable

if TYPE_CHECKING:
    from collections.abc import Iterator


class EpochStart(NamedTuple):
    """An epoch and the offset of its first batch."""

    epoch: int
    offset: int


class EpochEntries(Sequence[EpochStart]):
    """The epochs in the bytes of a checkpoint, both epochs and offsets ascending.

    `contradicted` is how many lines were passed over because another contradicts them. Raises `CorruptCheckpointError`
    for what a broker would not read.
    """

    __slots__ = ("_table", "contradicted")

    def __init__(self, data: bytes, path: str) -> None:
        self._table = read_table(EpochTable, data, path)
        self.contradicted = self._table.lines - len(self._table)

    @overload
    def __getitem__(self, index: int) -> EpochStart: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EpochStart, ...]: ...
    def __getitem__(self, index: int | slice) -> EpochStart | tuple[EpochStart, ...]:
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return EpochStart(*self._table.entry(numbers))
        return tuple(EpochStart(*self._table.entry(number)) for number in numbers)

    def __iter__(self) -> Iterator[EpochStart]:
        return (EpochStart(*self._table.entry(number)) for number in range(len(self)))

    def __len__(self) -> int:
        return len(self._table)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), *self[-1:]))
