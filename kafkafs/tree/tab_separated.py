"""Tables as text: a line of names, and values with tabs between them, as awk, cut and sort take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.tree.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNKNOWN: Final = "-"
"""What stands for a value that is unknown, or that there is none of: a field is never empty."""


TABLE_BYTES_MAX: Final = 64 * 1024 * 1024
"""How large a table is made in memory of what records name again and again, such as a member beside each partition."""


class BoundedRows:
    """Rows as long as they are no larger together than a table may be; what is left out then is the `failure`."""

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
    """The names and the rows, a line each. What is no UTF-8 on the disk has its bytes here too."""
    lines = ["\t".join(names), *("\t".join(map(_text, row)) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
