"""Records in each form, alone and in a run."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.locator.formats import Format
from kafkafs.render import record_cost
from kafkafs.render.chunks import CHUNK_BYTES, chunks
from kafkafs.render.envelope import Envelope
from kafkafs.render.hex_dump import hex_dump
from kafkafs.render.record_cost import rendered_within_memory
from kafkafs.render.record_renderer import RecordRenderer
from storage.budget import Budget
from storage.errors import DecompressedTooLargeError
from storage.record import batches_of_rows, check_share, read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.record import Record
    from storage.record.encoding import Row

T = 1_700_000_000_000
MIB = 1 << 20


def records_of(*rows: Row) -> list[Record]:
    batches = batches_of_rows(rows, max_bytes=64 * MIB)
    return [record for data in batches for batch in read_batches(data) for record in batch.records()]


FULL, EMPTY, NULL = RECORDS = records_of(
    (T, b"k\xff", b"v\n1", (("a", b"1"), ("b", None))), (T, b"", b"", ()), (T, None, None, ())
)
LINES = list(map(Envelope("orders", 0).line, RECORDS))
INDENTED = list(map(Envelope("orders", 0).indented, RECORDS))
HEX = b"00000000  76 0a 31                                          |v.1|\n00000003\n"


@pytest.mark.parametrize(
    ("form", "alone", "run"),
    [
        (Format.VALUE, [b"v\n1", b"", b""], b"v\n1\n\n\n"),
        (Format.KEY, [b"k\xff", b"", b""], b"k\xff\n\n\n"),
        (Format.HEADERS, [b"a: 1\nb\n", b"", b""], b"a: 1\nb\n\n\n\n"),
        (Format.JSON, INDENTED, b"".join(INDENTED)),
        (Format.JSONL, LINES, b"".join(LINES)),
        (Format.HEX, [HEX, b"00000000\n", b""], HEX + b"00000000\n"),
    ],
)
def test_a_record_alone_and_in_a_run(form: Format, alone: list[bytes], run: bytes) -> None:
    renderer = RecordRenderer(form, "orders", 0)
    assert [renderer.one(record) for record in RECORDS] == alone
    assert b"".join(renderer.run(RECORDS)) == run
    assert list(renderer.run([])) == []


def test_batches_are_not_made_of_records() -> None:
    with pytest.raises(ValueError, match="batches"):
        RecordRenderer(Format.BATCH, "orders", 0)


@pytest.mark.property
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=3), st.integers(1, CHUNK_BYTES)), max_size=12),
    st.sampled_from([b"", b"\n"]),
)
def test_chunks_are_the_pieces_joined(shapes: list[tuple[bytes | None, int]], end: bytes) -> None:
    pieces = [None if piece is None else piece * size for piece, size in shapes]
    found = list(chunks(iter(pieces), end=end))
    assert b"".join(found) == b"".join((piece or b"") + end for piece in pieces)
    assert all(found)
    largest = max((len(piece or b"") for piece in pieces), default=0)
    assert all(len(chunk) <= CHUNK_BYTES + largest for chunk in found)


def test_a_run_is_given_out_as_it_grows() -> None:
    taken = 0

    def pieces() -> object:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield bytes(CHUNK_BYTES // 4 - 1)

    next(chunks(pieces()))
    assert taken == 4


def test_nothing_at_all_takes_little_room() -> None:
    assert list(chunks(None for _ in range(CHUNK_BYTES + 1))) == []


@pytest.mark.golden
@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)),
        b"\n",
        b"0123456789abcdef",
        b"0123456789abcdef" * 5,
        b"0123456789abcdef" * 5 + b"01234567",
        b"0123456789abcdef" * 2 + b"x" * 16 + b"0123456789abcdef" * 2 + b"tail",
        bytes(100_000),
        "Zürich".encode(),
        *(b"x" * size for size in range(7, 19)),
    ],
)
def test_a_dump_is_that_of_the_real_tool(data: bytes) -> None:
    hexdump = shutil.which("hexdump")
    if hexdump is None:
        pytest.skip("hexdump is not installed")
    assert hex_dump(data) == subprocess.run([hexdump, "-C"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("form", "row"),
    [
        (Format.JSONL, (T, None, bytes(17 * MIB), ())),
        (Format.JSON, (T, bytes(17 * MIB), None, ())),
        (Format.HEX, (T, None, bytes(34 * MIB), ())),
        (Format.HEADERS, (T, None, None, (("h", bytes(17 * MIB)),))),
        (Format.JSONL, (T, None, None, (("h", bytes(17 * MIB)),))),
    ],
)
def test_a_record_that_takes_too_much_memory_ends_a_run(
    monkeypatch: pytest.MonkeyPatch, form: Format, row: Row
) -> None:
    monkeypatch.setattr(record_cost, "MEMORY", Budget(1 << 30))
    monkeypatch.setattr(record_cost, "check_share", partial(check_share, budget=record_cost.MEMORY))
    large, small = records_of(row), records_of((T, b"k", b"v", (("h", b"1"),)))
    renderer = RecordRenderer(form, "orders", 0)
    found = renderer.run([*small, *large, *small])
    assert next(found) == b"".join(renderer.run(small))
    with pytest.raises(DecompressedTooLargeError, match=f"making 0{form.value} would take about"):
        next(found)


def test_memory_for_a_large_record_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(1 << 30)
    monkeypatch.setattr(record_cost, "MEMORY", budget)
    (record,) = records_of((T, None, bytes(MIB), ()))
    least_bytes = []

    def watched(record: Record) -> bytes:
        least_bytes.append(budget.left_bytes)
        return Envelope("orders", 0).line(record)

    assert len(rendered_within_memory(Format.JSONL, watched, record)) > 6 * MIB
    assert least_bytes == [(1 << 30) - 16 * MIB]
    assert budget.left_bytes == 1 << 30


def test_what_comes_before_a_failure_is_given() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        raise RuntimeError("made no piece")

    found = chunks(pieces(), end=b"\n")
    assert next(found) == b"first\n"
    with pytest.raises(RuntimeError, match="made no piece"):
        next(found)


def test_a_large_piece_is_given_as_it_is() -> None:
    large = bytes(CHUNK_BYTES)
    found = list(chunks([b"a", large, b"b", large], end=b"\n"))
    assert found == [b"a\n", large, b"\nb\n", large, b"\n"]
    assert found[1] is found[3] is large


@pytest.mark.parametrize("form", [Format.VALUE, Format.KEY])
def test_values_and_keys_are_counted_without_being_made(form: Format) -> None:
    renderer = RecordRenderer(form, "orders", 0)
    assert renderer.run_bytes(RECORDS) == len(b"".join(renderer.run(RECORDS)))
    assert RecordRenderer(Format.HEX, "orders", 0).run_bytes(RECORDS) is None
