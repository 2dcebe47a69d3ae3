"""Legal batches from a random generator, quickly: the kinds that `storage.testing.strategies` draws, and packings.

Everything here decodes; making it wrong is left to `inputs`.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from fuzzing.corpus import Unit
from storage.testing.codec import (
    CODECS,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    NONE,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    OracleBatch,
    OracleRecord,
    batch_of,
    compress,
    encode_entry,
    encode_records,
    entry_of,
    seal_batch,
    wrapper_of,
)

if TYPE_CHECKING:
    from random import Random

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
RECORDS_MAX = 8
LARGE_BYTES = 40_000  # enough for the kernel to let other threads run
LARGE_FROM = 0.9998
LEGACY_CODECS = (NONE, GZIP, SNAPPY, LZ4)

BASE_OFFSETS = (0, 0, 1, 1000, INT32_MAX, 2**31, 2**40, 2**62)
TIMESTAMPS = (-1, 0, 1, 2**40, INT64_MAX)
NAMES = ("", "h", "h", "trace-id", "é", "\N{GRINNING FACE}", "long-" * 12)
ODD_BYTES = (b"", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"\n", b"\t", b'"', b"\xc3", "naïve".encode())

XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
LZ4_BLOCKS = (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX256KB, lz4.frame.BLOCKSIZE_MAX4MB)


def random_unit(rng: Random) -> Unit:
    """Return a legal batch of any magic."""
    magic = rng.choice((0, 1, 2, 2, 2, 2))
    return _batch(rng) if magic == 2 else _entry(rng, magic)


def random_batch(rng: Random) -> OracleBatch:
    """Return a v2 batch of at least one record, as appended or as a cleaner has left it; its codec is any."""
    base_offset = rng.choice(BASE_OFFSETS)
    has_producer = rng.random() < 0.5
    has_horizon = rng.random() < 0.2
    attributes = rng.choice(CODECS) | rng.choice((0, 0, LOG_APPEND_TIME))
    attributes |= rng.choice((0, TRANSACTIONAL)) if has_producer else 0
    records = random_records(rng, base_offset)
    batch = batch_of(
        records,
        base_offset=base_offset,
        partition_leader_epoch=rng.choice((-1, 0, 7, INT32_MAX)),
        attributes=attributes | (DELETE_HORIZON if has_horizon else 0),
        base_timestamp=_timestamp(rng) if has_horizon else None,
        producer_id=rng.choice((0, 9, INT64_MAX)) if has_producer else -1,
        producer_epoch=rng.choice((0, 2, 2**15 - 1)) if has_producer else -1,
        base_sequence=rng.choice((0, 1000, INT32_MAX - 2, INT32_MAX)) if has_producer else -1,
    )
    return replace(batch, last_offset_delta=min(batch.last_offset_delta + rng.choice((0, 0, 1, 1000)), INT32_MAX))


def random_records(rng: Random, base_offset: int, *, with_headers: bool = True) -> list[OracleRecord]:
    """Return a few records of rising offsets, which may leave gaps."""
    records = []
    delta = rng.choice((0, 0, 0, 1, 57))
    for _ in range(1 + rng.randrange(RECORDS_MAX)):
        records.append(random_record(rng, base_offset + delta, with_headers=with_headers))
        delta += 1 if rng.random() < 0.8 else 1 + rng.randrange(1000)
    if with_headers and rng.random() < 0.05:
        records[-1] = replace(records[-1], offset=base_offset + INT32_MAX)
    return records


def random_record(rng: Random, offset: int, *, with_headers: bool = True) -> OracleRecord:
    """Return one record."""
    return OracleRecord(
        offset=offset,
        timestamp=_timestamp(rng),
        key=_bytes(rng),
        value=_bytes(rng),
        headers=_headers(rng) if with_headers else (),
    )


def _timestamp(rng: Random) -> int:
    """Return a timestamp as clocks give them, or an odd one."""
    return 1_700_000_000_000 + rng.randrange(100_000) if rng.random() < 0.7 else rng.choice(TIMESTAMPS)


def _bytes(rng: Random) -> bytes | None:
    """Return a key or value."""
    chance = rng.random()
    if chance < 0.15:
        return None
    if chance < 0.3:
        return rng.choice(ODD_BYTES)
    if chance < 0.9:
        return rng.randbytes(rng.randrange(24))
    if chance > LARGE_FROM:
        return rng.randbytes(LARGE_BYTES)
    return rng.randbytes(1 + rng.randrange(8)) * rng.randrange(64)


def _headers(rng: Random) -> tuple[tuple[str, bytes | None], ...]:
    if rng.random() < 0.6:
        return ()
    return tuple((rng.choice(NAMES), _bytes(rng)) for _ in range(rng.randrange(4)))


def _batch(rng: Random) -> Unit:
    batch = random_batch(rng)
    records_data = encode_records(batch)
    return Unit(seal_batch(batch, packed(rng, batch.codec, records_data, magic=2)), 2, batch.codec, records_data)


def _entry(rng: Random, magic: int) -> Unit:
    base_offset = rng.choice(BASE_OFFSETS)
    codec = rng.choice(LEGACY_CODECS)
    log_append_time = magic > 0 and rng.random() < 0.3
    records = random_records(rng, base_offset, with_headers=False)
    if codec == NONE:
        return Unit(encode_entry(entry_of(records[0], magic, log_append_time=log_append_time)), magic, codec, b"")
    inner_magic = rng.choice((magic, magic, magic, 1 - magic))
    wrapper = wrapper_of(records, magic, codec, inner_magic=inner_magic, log_append_time=log_append_time)
    base = records[0].offset if magic > 0 else 0
    records_data = b"".join(
        encode_entry(entry_of(replace(record, offset=record.offset - base), inner_magic)) for record in records
    )
    stored = packed(rng, codec, records_data, magic=magic)
    return Unit(encode_entry(replace(wrapper, value=stored)), magic, codec, records_data)


def packed(rng: Random, codec: int, records_data: bytes, *, magic: int) -> bytes:
    """Return the section compressed, by any settings and in any number of pieces that the codec allows."""
    middle = rng.randrange(len(records_data) + 1)
    halves = records_data[:middle], records_data[middle:]
    chance = rng.random()
    if codec == GZIP:
        level = rng.randrange(10)
        if chance < 0.1:
            return b"".join(gzip.compress(half, level, mtime=0) for half in halves)
        return gzip.compress(records_data, level, mtime=0)
    if codec == SNAPPY:
        if chance < 0.3 and records_data:
            return bytes(cramjam.snappy.compress_raw(records_data))
        blocks = [bytes(cramjam.snappy.compress_raw(half)) for half in halves]
        first, second = (len(block).to_bytes(4, "big") + block for block in blocks)
        return XERIAL_HEADER + first + (XERIAL_HEADER if chance > 0.9 else b"") + second
    if codec == LZ4 and magic > 0 and chance < 0.5:
        frame: bytes = lz4.frame.compress(
            records_data,
            block_size=rng.choice(LZ4_BLOCKS),
            block_linked=rng.random() < 0.3,
            block_checksum=rng.random() < 0.5,
            content_checksum=rng.random() < 0.5,
            store_size=rng.random() < 0.5,
        )
        return frame
    if codec == ZSTD:
        compressor = zstandard.ZstdCompressor(
            level=rng.choice((-5, 1, 3, 7)), write_content_size=rng.random() < 0.5, write_checksum=rng.random() < 0.5
        )
        frames = [compressor.compress(part) for part in (halves if chance < 0.2 else (records_data,))]
        if chance < 0.05:
            frames.insert(rng.randrange(len(frames) + 1), SKIPPABLE_FRAME)
        return b"".join(frames)
    return compress(codec, records_data, magic=magic)
