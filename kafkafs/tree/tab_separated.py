"""Tables as text: a line of names, and values with tabs between them, as awk, cut and sort take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.tree.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNKNOWN: Final = "-"
"""The text for an unknown or missing value: a field is never empty."""


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
    lines = ["\t".join(names), *("\t".join(map(_text, row)) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
