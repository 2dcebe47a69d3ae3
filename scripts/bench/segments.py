"""Segments to measure with: records like those of applications, the same in every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from storage.record import BatchForm, Codec, batches_of_rows

Row = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
SEGMENT_BYTES = 12_000_000


@dataclass(frozen=True)
class Shape:
    """What a segment's records and batches look like."""

    value_bytes: int
    batch_bytes: int
    header_count: int = 0
    codec: Codec = Codec.NONE

    def __str__(self) -> str:
        batch = f"{self.batch_bytes // 1024}K" if self.batch_bytes < 1 << 20 else f"{self.batch_bytes >> 20}M"
        headers = f"+{self.header_count}h" if self.header_count else ""
        return f"{self.value_bytes} B{headers}, {batch} {self.codec.label}"


@cache
def rows(value_bytes: int, header_count: int, segment_bytes: int = SEGMENT_BYTES) -> list[Row]:
    """Rows with keys of 16 bytes and values that look like JSON and compress to about half."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10))) for _ in range(2000)]
    made: list[Row] = []
    timestamp = 1_700_000_000_000
    # Values that recurred within a batch would compress better than any real ones; large ones recur far apart.
    recurring = [_value(rng, words, value_bytes) for _ in range(4000)] if value_bytes >= 1000 else []
    for _ in range(segment_bytes // (value_bytes + 26 + 36 * header_count)):
        timestamp += rng.randrange(3)
        headers = (
            ("trace-id", b"%016x" % rng.getrandbits(64)),
            ("source", b"svc-%d" % rng.randrange(50)),
            ("schema", b"v1"),
        )[:header_count]
        value = rng.choice(recurring) if recurring else _value(rng, words, value_bytes)
        made.append((timestamp, b"k%015d" % rng.randrange(10**9), value, headers))
    return made


def _value(rng: random.Random, words: list[str], size_bytes: int) -> bytes:
    text = f'{{"id":{rng.randrange(10**7)},"u":"{rng.getrandbits(32):08x}","m":"'
    while len(text) < size_bytes - 2:
        text += rng.choice(words) + " "
    return (text[: size_bytes - 2] + '"}').encode()


@cache
def segment(shape: Shape) -> bytes:
    """The batches of such a segment; gzip at the level that the JVM uses."""
    form = BatchForm(codec=shape.codec, level=6 if shape.codec is Codec.GZIP else None)
    made = rows(shape.value_bytes, shape.header_count)
    return b"".join(batches_of_rows(made, max_bytes=shape.batch_bytes, form=form))
