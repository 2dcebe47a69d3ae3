"""Tables as text: a line of names, and values with tabs between them, as awk, cut and sort take them."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from kafkafs.tree.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNKNOWN: Final = "-"
"""The text for an unknown or missing value: a field is never empty."""


_LINES_TOGETHER: Final = 1000

TABLE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit of a table in memory: records may repeat names without bound, such as a member beside each partition."""


class BoundedRows:
    """Rows up to the limit of a table. If rows are left out, `failure` says so."""

    def __init__(self, rows: Iterable[Sequence[object]]) -> None:
        self._rows = rows
        self.failure: DamagedError | None = None

    def __iter__(self) -> Iterator[Sequence[object]]:
        """The rows."""
        size_bytes = 0
        for row in self._rows:
            size_bytes += sum(len(value) if isinstance(value, str) else 1 for value in row)
            if size_bytes > TABLE_BYTES_MAX:
                self.failure = DamagedError(f"more than {TABLE_BYTES_MAX >> 20} MiB of rows are not made")
                return
            yield row


def tab_separated(names: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return the names and the rows, a line each. Bytes that are not UTF-8 stay as they are."""
    return b"".join(table_pieces(names, rows))


def table_pieces(names: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """Yield the same text in pieces of many lines."""
    lines = chain(["\t".join(names)], ("\t".join(map(_text, row)) for row in rows))
    while piece := list(islice(lines, _LINES_TOGETHER)):
        yield "".join(f"{line}\n" for line in piece).encode(errors="surrogateescape")


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
