"""Lines of `key<TAB>value`, read as the records that they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.record import Row


@dataclass(frozen=True, slots=True)
class KeyValueSyntax:
    """The separator of key and value, and the text that means null.

    The first separator of a line counts, so a value may hold others. Without a marker no value is null.
    """

    separator: bytes = b"\t"
    null_marker: bytes | None = None

    def __post_init__(self) -> None:
        if not self.separator or b"\n" in self.separator:
            raise ValueError("what separates key and value must be something, and without a newline")

    def rows(self, lines: bytes, *, timestamp_ms: int) -> list[Row]:
        """Return a row for each line, whose last one may lack its newline; without a separator it is a value."""
        rows: list[Row] = []
        for line in lines.removesuffix(b"\n").split(b"\n"):
            before, separator, after = line.partition(self.separator)
            key, value = (before, after) if separator else (None, line)
            rows.append((timestamp_ms, self._or_null(key), self._or_null(value), ()))
        return rows

    def _or_null(self, piece: bytes | None) -> bytes | None:
        return None if piece == self.null_marker else piece
