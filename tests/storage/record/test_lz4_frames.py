"""LZ4 frames of every make: the package and the oracle read the same ones, nearly all that Kafka reads."""

from __future__ import annotations

import pytest
from lz4_frames import FRAMES, READ, READ_BY_KAFKA_ALONE, READ_HERE_ALONE, READ_IN_MAGIC_0, STORED_END, frame

from storage.errors import DecompressionError
from storage.record.compression import Codec, decompress
from storage.testing.codec import LZ4
from storage.testing.codec import decompress as decompress_plainly

DATA = b"text that repeats, text that repeats, and what follows it" * 7


def test_each_frame_has_its_place() -> None:
    assert {*READ, *READ_HERE_ALONE, *READ_BY_KAFKA_ALONE, READ_IN_MAGIC_0} <= FRAMES.keys()
    assert not READ & READ_HERE_ALONE | READ_HERE_ALONE & READ_BY_KAFKA_ALONE | READ & READ_BY_KAFKA_ALONE


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("name", FRAMES)
def test_the_oracle_reads_the_same_frames(name: str, magic: int) -> None:
    stored = FRAMES[name](DATA)
    if name in READ | READ_HERE_ALONE or (name == READ_IN_MAGIC_0 and magic == 0):
        assert decompress(Codec.LZ4, stored, magic=magic) == DATA
        assert decompress_plainly(LZ4, stored, magic=magic) == DATA
        return
    with pytest.raises(DecompressionError):
        decompress(Codec.LZ4, stored, magic=magic)
    with pytest.raises(DecompressionError):
        decompress_plainly(LZ4, stored, magic=magic)


def test_nothing_is_read_after_the_end_that_kafka_sees() -> None:
    """The library passes over a stored block of no bytes, at which Kafka stops."""
    first = frame([b"first"], end=STORED_END)
    assert decompress(Codec.LZ4, first) == b"first"
    with pytest.raises(DecompressionError, match="bytes follow the lz4 frame"):
        decompress(Codec.LZ4, first + frame([b"second"])[7:])
