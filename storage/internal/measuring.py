"""The memory that what was decoded takes, about. It is found in less time than decoding took."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NUMBER_BYTES: Final = 32
_ID_BYTES: Final = 112
_FEW: Final = 8
ENTRY_BYTES: Final = 256
"""What a table takes for one more entry, about, besides its key and its value."""
_NUMBERS: Final = {int, float, bool, type(None)}
_TEXTS: Final = {str, bytes, type(None)}


def measured(value: Any) -> int:  # noqa: ANN401 -- any value of a message
    """Return about how many bytes a decoded value takes. The names of its fields are its schema's."""
    kind = type(value)
    if kind is int or kind is float:
        return _NUMBER_BYTES
    if kind is str or kind is bytes:
        return getsizeof(value)
    if kind is dict:
        return getsizeof(value) + sum(map(measured, value.values()))
    if isinstance(value, list | tuple | set):
        return getsizeof(value) + _together(value)
    return 0 if value is None or kind is bool else _ID_BYTES


def table_bytes(table: Mapping[Any, Any]) -> int:
    """Return about how many bytes a table takes, with its keys and its values."""
    return getsizeof(table) + _together(table) + _together(table.values())


def _together(values: Collection[Any]) -> int:
    """Return about how many bytes the values take: many of one kind at once."""
    if len(values) <= _FEW:
        return sum(map(measured, values))
    kinds = set(map(type, values))
    if kinds <= _NUMBERS:
        return _NUMBER_BYTES * len(values)
    if kinds <= _TEXTS:
        return sum(map(getsizeof, values))
    if kinds == {list}:
        return sum(map(getsizeof, values)) + _together(list(chain.from_iterable(values)))
    if kinds == {dict}:
        first = next(iter(values))
        try:
            columns = (list(map(itemgetter(name), values)) for name in first)
            return len(values) * getsizeof(first) + sum(map(_together, columns))
        except KeyError:  # they are of several versions
            pass
    return sum(map(measured, values))
