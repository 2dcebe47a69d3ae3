"""Tables as text: a line of names, and values with tabs between them, as awk, cut and sort take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNKNOWN: Final = "-"
"""What stands for a value that is unknown, or that there is none of: a field is never empty."""


def tab_separated(names: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """The names and the rows, a line each. What is no UTF-8 on the disk has its bytes here too."""
    lines = ["\t".join(names), *("\t".join(map(_text, row)) for row in rows)]
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
