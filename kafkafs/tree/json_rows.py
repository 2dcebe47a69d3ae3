"""Rows as JSON lines, of which no step takes long: a row may hold a list of all partitions of a large topic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ITEMS_AT_ONCE: Final = 500
"""Python's encoder keeps its lock to its end: so many items of a list or an object are given to it at a time."""


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A JSON object a line; bytes of a text that are not UTF-8 are there as lone surrogates, escaped."""
    text = BytesIO()  # which returns its bytes without a copy
    for row in rows:
        text.writelines(_pieces(row))
        text.write(b"\n")
    return text.getvalue()


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the JSON of a value: all at once, unless it holds a long list or object."""
    if isinstance(value, Mapping):
        if len(value) > _ITEMS_AT_ONCE or any(map(_is_long, value.values())):
            for at, (key, each) in enumerate(value.items()):
                yield b"".join((b"," if at else b"{", _encoded(str(key)), b":"))
                yield from _pieces(each)
            yield b"}"
            return
    elif _is_long(value):
        assert isinstance(value, Sequence)
        for at in range(0, len(value), _ITEMS_AT_ONCE):
            yield b"," if at else b"["
            yield _encoded(value[at : at + _ITEMS_AT_ONCE])[1:-1]
        yield b"]"
        return
    yield _encoded(value)


def _is_long(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > _ITEMS_AT_ONCE


def _encoded(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=list).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), default=list).encode()
