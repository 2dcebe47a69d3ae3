"""Lines out of pieces: however they are cut, and what a refusal drops."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.line_assembler import LineAssembler
from storage.errors import RecordTooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX = 8
text = st.lists(st.sampled_from([b"a", b"\n", b"bcd", b"\r\n", b"\0\xff"])).map(b"".join)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@pytest.mark.property
@given(text, st.lists(st.integers(0, 1000), max_size=8))
def test_where_pieces_are_cut_makes_no_difference(data: bytes, places: list[int]) -> None:
    lines = LineAssembler()
    given_out = [lines.take(piece, line_bytes_max=1000).joined() for piece in cut(data, places)]
    assert all(not block or block.endswith(b"\n") for block in given_out)
    end = data.rfind(b"\n") + 1
    assert b"".join(given_out) == data[:end]
    assert lines.finish().joined() == data[end:]
    assert not lines.finish()


@pytest.mark.property
@given(text)
def test_a_line_is_too_long_wherever_it_stands(data: bytes) -> None:
    is_too_long = any(len(line) > MAX for line in data.split(b"\n"))
    whole = LineAssembler()
    if not is_too_long:
        whole.take(data, line_bytes_max=MAX)
        return
    with pytest.raises(RecordTooLargeError, match="more than 8 bytes"):
        whole.take(data, line_bytes_max=MAX)
    # Given byte by byte, each line that is not too long comes out, and each that is is refused once.
    lines, refused = LineAssembler(), 0
    found = []
    for index in range(len(data)):
        try:
            found.append(lines.take(data[index : index + 1], line_bytes_max=MAX).joined())
        except RecordTooLargeError:
            refused += 1
    found.append(lines.finish().joined())
    *terminated, last = data.split(b"\n")
    assert refused == sum(len(line) > MAX for line in [*terminated, last])
    kept = [line + b"\n" for line in terminated if len(line) <= MAX]
    assert b"".join(found) == b"".join(kept) + (last if len(last) <= MAX else b"")


def test_no_more_is_held_than_the_longest_line() -> None:
    lines = LineAssembler()
    assert not lines.take(b"x" * MAX, line_bytes_max=MAX)
    assert lines.take(b"\n", line_bytes_max=MAX).joined() == b"x" * MAX + b"\n"
    lines.take(b"x" * MAX, line_bytes_max=MAX)
    with pytest.raises(RecordTooLargeError):
        lines.take(b"x", line_bytes_max=MAX)
    for _ in range(3):
        assert not lines.take(b"x" * 100, line_bytes_max=MAX)
    assert lines.take(b"rest\nnext\nlast", line_bytes_max=MAX).joined() == b"next\n"
    assert lines.finish().joined() == b"last"


@pytest.mark.parametrize(
    ("refused", "then", "lines"),
    [
        (b"one\ntwo\n", b"three\n", b"three\n"),
        (b"one\ntw", b"o\nthree\n", b"three\n"),
        (b"one\ntw", b"o", b""),
        (b"one\ntw", b"\n", b""),
        (b"one\ntw", b"\n\n", b"\n"),
    ],
)
def test_the_line_in_progress_is_dropped_up_to_its_newline(refused: bytes, then: bytes, lines: bytes) -> None:
    assembler = LineAssembler()
    assembler.take(b"begun ", line_bytes_max=100)
    assert assembler.take(refused, line_bytes_max=100).joined().startswith(b"begun one\n")
    assembler.refuse()
    assert assembler.take(then, line_bytes_max=100).joined() == lines


def test_a_flush_ends_what_is_dropped() -> None:
    lines = LineAssembler()
    with pytest.raises(RecordTooLargeError):
        lines.take(b"x" * 9, line_bytes_max=MAX)
    assert not lines.finish()
    assert lines.take(b"next\n", line_bytes_max=MAX).joined() == b"next\n"


def test_a_write_that_is_whole_lines_is_not_copied() -> None:
    data = b"line\n" * 1000
    assert LineAssembler().take(data, line_bytes_max=100).rest is data


def test_no_more_is_copied_than_the_line_in_progress() -> None:
    assembler = LineAssembler()
    data = b"line\n" * 1000
    for begun in (b"", b"be", b"be"):
        lines = assembler.take(data + b"be", line_bytes_max=100)
        assert lines.begun == begun
        assert isinstance(lines.rest, memoryview)
        assert lines.rest == data


@pytest.mark.property
@given(text, st.lists(st.integers(0, 1000), max_size=8))
def test_lines_are_counted_if_that_is_wanted(data: bytes, places: list[int]) -> None:
    assembler = LineAssembler(is_counting=True)
    found: list[tuple[int, bytes]] = []
    for piece in [*cut(data, places), None]:
        lines = assembler.finish() if piece is None else assembler.take(piece, line_bytes_max=1000)
        given_out = lines.joined().removesuffix(b"\n").split(b"\n") if lines else []
        found += enumerate(given_out, assembler.number)
    said = data.removesuffix(b"\n").split(b"\n") if data else []
    assert found == list(enumerate(said, 1))


def test_a_refused_line_counts() -> None:
    assembler = LineAssembler(is_counting=True)
    assembler.take(b"one\ntw", line_bytes_max=100)
    assembler.refuse()
    assert assembler.take(b"o\nthree\n", line_bytes_max=100).joined() == b"three\n"
    assert assembler.number == 3
