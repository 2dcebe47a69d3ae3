"""Headers as lines, from which they can be read back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.header_lines import header_lines
from storage.record import batches_of_rows, read_batches
from storage.testing import strategies

if TYPE_CHECKING:
    from collections.abc import Sequence

    Headers = Sequence[tuple[str, bytes | None]]

ESCAPE = re.compile(rb"\\(?:([\\nrt])|x([0-9a-f]{2}))")
LETTERS = {b"\\": b"\\", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def lines_of(headers: Headers) -> bytes:
    (data,) = batches_of_rows([(0, None, None, headers)])
    ((record,),) = [batch.records() for batch in read_batches(data)]
    return header_lines(record)


@pytest.mark.parametrize(
    ("headers", "lines"),
    [
        ([], ""),
        ([("a", b"1"), ("b", b"2"), ("a", b"")], "a: 1\nb: 2\na: \n"),
        ([("null", None), ("", b"x"), ("", None)], "null\n: x\n\n"),
        ([("größe", "5 €".encode())], "größe: 5 €\n"),
        ([("url", b"http://x: y")], "url: http://x: y\n"),
        ([("a:b", b"c")], "a\\x3ab: c\n"),
        ([("a", b"1\n2\r\t\\n\0\x1b\x7f")], "a: 1\\n2\\r\\t\\\\n\\x00\\x1b\\x7f\n"),
        ([("\udcff", b"\xc3\x28")], "\\xff: \\xc3(\n"),
    ],
)
def test_a_header_is_a_line(headers: Headers, lines: str) -> None:
    assert lines_of(headers) == lines.encode()


@pytest.mark.property
@given(st.lists(st.tuples(st.binary(max_size=8), st.none() | strategies.small_bytes), max_size=4))
def test_nothing_is_lost(headers: list[tuple[bytes, bytes | None]]) -> None:
    lines = lines_of([(name.decode("utf-8", "surrogateescape"), value) for name, value in headers])
    lines.decode()
    found: list[tuple[bytes, bytes | None]] = []
    for line in lines.split(b"\n")[:-1]:
        name, colon, value = line.partition(b": ")
        found.append((raw(name), raw(value) if colon else None))
    assert found == headers


def raw(escaped: bytes) -> bytes:
    return ESCAPE.sub(lambda found: LETTERS[found[1]] if found[1] else bytes.fromhex(found[2].decode()), escaped)


@pytest.mark.parametrize("value", [b"\0ab\xff" * 50_000, "ü\n".encode() * 70_000])
def test_a_large_value_is_escaped_like_a_small_one(value: bytes) -> None:
    escaped = lines_of([("h", value)])
    assert raw(escaped.removeprefix(b"h: ").removesuffix(b"\n")) == value
    assert escaped.removeprefix(b"h: ").count(b"\n") == 1
