"""What is handed over for writing: rows and the form of their batches, at random, some of them impossible."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from fuzzing import generation
from storage.record import BatchForm, Codec
from storage.record.compression import level_range

ROWS_MAX = 40
LINES_MAX = 60
MAX_BYTES = (0, 100, 300, 1000, 1 << 20)
LAST_SEQUENCE = 2**31 - 1
LEVEL_MIN, LEVEL_MAX = -5, 9  # beyond these there is more of the same, slower

IMPOSSIBLE: tuple[Any, ...] = (
    None,
    (),
    (0, None, None),
    ("0", None, None, ()),
    (None, None, None, ()),
    (0.5, None, None, ()),
    (-2, None, None, ()),
    (2**63, None, None, ()),
    (-(2**80), None, None, ()),
    (0, "text", None, ()),
    (0, None, 7, ()),
    (0, None, None, None),
    (0, None, None, 5),
    (0, None, None, ["ab"]),
    (0, None, None, [("a",)]),
    (0, None, None, [("a", b"b", b"c")]),
    (0, None, None, [(None, b"b")]),
    (0, None, None, [(b"a", b"b")]),
    (0, None, None, [("a", "b")]),
    (0, None, None, [("\ud800", b"b")]),
    (0, None, None, {"a": b"b"}),
)
"""Rows that cannot be written, each for a reason of its own."""


@dataclass(frozen=True, slots=True)
class RowsInput:
    """Rows to write, how, and whether one of them is impossible."""

    rows: list[Any]
    is_possible: bool
    form: BatchForm
    max_bytes: int
    base_offset: int
    lines: bytes


def rows_input(seed: int, index: int) -> RowsInput:
    """Return the rows of that number."""
    rng = Random(f"{seed} rows {index}")
    rows = [_row(rng) for _ in range(rng.randrange(ROWS_MAX))]
    is_possible = rng.random() < 0.8
    if not is_possible:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice(IMPOSSIBLE))
    return RowsInput(
        rows,
        is_possible,
        _form(rng),
        rng.choice(MAX_BYTES),
        rng.choice(generation.BASE_OFFSETS),
        b"".join(rng.choice((b"", b"\n", b"\n", b"\r\n", rng.randbytes(9))) for _ in range(rng.randrange(LINES_MAX))),
    )


def _row(rng: Random) -> tuple[Any, ...]:
    record = generation.random_record(rng, 0)
    headers = tuple((_name(rng, name), _view(rng, value)) for name, value in record.headers)
    return (
        record.timestamp,
        _view(rng, record.key),
        _view(rng, record.value),
        list(headers) if rng.random() < 0.5 else headers,
    )


def _name(rng: Random, name: str) -> str:
    return name if rng.random() < 0.9 else rng.randbytes(4).decode("utf-8", "surrogateescape")


def _view(rng: Random, data: bytes | None) -> bytes | bytearray | memoryview | None:
    """The same bytes as any type that has them."""
    if data is None or rng.random() < 0.7:
        return data
    return rng.choice((bytearray(data), memoryview(data), memoryview(data * 2)[: len(data)]))


def _form(rng: Random) -> BatchForm:
    codec = rng.choice(tuple(Codec))
    levels = level_range(codec)
    levels = range(max(levels.start, LEVEL_MIN), min(levels.stop, LEVEL_MAX + 1))
    return BatchForm(
        codec=codec,
        level=rng.choice(levels) if levels and rng.random() < 0.5 else None,
        append_time_ms=rng.choice(generation.TIMESTAMPS[1:]) if rng.random() < 0.3 else None,
        leader_epoch=rng.choice((-1, 0, 7)),
        producer_id=rng.choice((-1, 0, 2**63 - 1)),
        producer_epoch=rng.choice((-1, 0, 2**15 - 1)),
        base_sequence=rng.choice((-1, 0, LAST_SEQUENCE - 3)),
        transactional=rng.random() < 0.3,
    )
