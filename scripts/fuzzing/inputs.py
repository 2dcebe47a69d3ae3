"""Every input of the fuzzer, each from the seed and its index alone.

Damage goes where it gets furthest: into bytes whose checksum is then put right, into sections before they are
compressed, into the lengths and counts of single records, and into the entries inside a wrapper.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from fuzzing import corpus, generation
from fuzzing.lying import lying_record
from fuzzing.lz4_inputs import any_frame
from storage.testing.codec import (
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    OracleRecord,
    batch_of,
    batch_spans,
    encode_control_key,
    encode_records,
    resealed,
    seal_batch,
)
from storage.testing.mutations import mutate

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzzing.corpus import Unit

REAL_SHARE = 0.3
ZEROS_BYTES_MAX = 256
NOISE_BYTES_MAX = 256
TYPES_OF_CONTROL = 9
FILE_UNITS_MAX = 8
WHOLE_PART_SHARE = 0.8
LONG_FILE_SHARE = 0.005
LONG_FILE_BYTES_MIN = 1 << 20
PREALLOCATED_BYTES_MAX = 8192

# Position, width and name of each field of a v2 header that says something when its checksum is right.
HEADER_FIELDS = tuple(zip((0, 12, 21, 23, 27, 35, 43, 51, 53, 57), "qihiqqqhii", strict=True))
ODD_NUMBERS = (0, 1, 2, -1, -2, 7, 0x7FFF, -0x8000, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
WIDTHS = {"h": 16, "i": 32, "q": 64}

# Stored sections whose first bytes declare more than can be.
LYING_STREAMS = {
    GZIP: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\xff\xff\xff\xff",
    SNAPPY: b"\xff\xff\xff\xff\x0f\x00\x00",
    LZ4: bytes.fromhex("04224d186c70ffffffffffffff7f93") + bytes(8),
    ZSTD: bytes.fromhex("28b52ffde0ffffffffffffff7f010000"),
}

# Pieces of a stored section that hold nothing, and how many bytes must precede the first.
EMPTY_PIECES = {
    GZIP: (0, gzip.compress(b"", mtime=0)),
    SNAPPY: (len(generation.XERIAL_HEADER), b"\0\0\0\1\0"),
    LZ4: (7, b"\0\0\0\x80"),
    ZSTD: (0, generation.SKIPPABLE_FRAME),
}
PIECES_MAX = 300


@dataclass(frozen=True, slots=True)
class Input:
    """Bytes to be read, and what was done to make them so."""

    kind: str
    data: bytes


def batch_input(seed: int, index: int) -> Input:
    """Return one batch, or what was one, or a few of them."""
    rng = Random(f"{seed} batch {index}")
    make = rng.choices(MAKERS, cum_weights=CUMULATED_WEIGHTS)[0]
    return Input(make.__name__.removeprefix("_"), make(rng))


def file_input(seed: int, index: int) -> Input:
    """Return the contents of a log file: several batches, some already damaged within, then damaged as a file."""
    rng = Random(f"{seed} file {index}")
    parts = [_file_part(rng) for _ in range(1 + rng.randrange(FILE_UNITS_MAX))]
    kind = "short file"
    if rng.random() < LONG_FILE_SHARE:
        kind = "long file"
        parts *= LONG_FILE_BYTES_MIN // sum(map(len, parts)) + 1 + rng.randrange(2)
    data = b"".join(parts)
    chance = rng.random()
    if chance < 0.7:
        data = mutate(rng, data)
    elif chance < 0.85:
        data += bytes(rng.randrange(PREALLOCATED_BYTES_MAX))
    elif chance < 0.95:
        data = data[: -rng.randrange(len(parts[-1]) + 1) or None]
    return Input(kind, data)


def _file_part(rng: Random) -> bytes:
    return _unit(rng).data if rng.random() < WHOLE_PART_SHARE else _resealed(rng)


def _unit(rng: Random) -> Unit:
    return rng.choice(corpus.load().units) if rng.random() < REAL_SHARE else generation.random_unit(rng)


def _container(rng: Random) -> Unit:
    while True:
        unit = _unit(rng)
        if unit.is_container:
            return unit


def _wrapper(rng: Random) -> Unit:
    while True:
        unit = _unit(rng)
        if unit.magic < 2 and unit.is_container:
            return unit


def _repacked(rng: Random, unit: Unit, records_data: bytes) -> bytes:
    return unit.around(generation.packed(rng, unit.codec, records_data, magic=unit.magic))


def _whole(rng: Random) -> bytes:
    return b"".join(_unit(rng).data for _ in range(1 + rng.randrange(3)))


def _damaged(rng: Random) -> bytes:
    return mutate(rng, _whole(rng))


def _resealed(rng: Random) -> bytes:
    return resealed(mutate(rng, _unit(rng).data))


def _damaged_section(rng: Random) -> bytes:
    unit = _container(rng)
    return _repacked(rng, unit, mutate(rng, unit.records_data))


def _damaged_stream(rng: Random) -> bytes:
    unit = _container(rng)
    return unit.around(mutate(rng, generation.packed(rng, unit.codec, unit.records_data, magic=unit.magic)))


def _odd_header(rng: Random) -> bytes:
    data = bytearray(_container(rng).data)
    if data[corpus.MAGIC_AT] == 2:
        for _ in range(1 + rng.randrange(3)):
            position, form = rng.choice(HEADER_FIELDS)
            struct.pack_into(f">{form}", data, position, _odd(rng, form))
    else:
        struct.pack_into(">q", data, 0, _odd(rng, "q"))
        data[corpus.ATTRIBUTES_AT[0]] ^= rng.choice((0, 1, 2, 3, 4, 8, 0x80))
        if data[corpus.MAGIC_AT] == 1:
            struct.pack_into(">q", data, corpus.ATTRIBUTES_AT[1] + 1, _odd(rng, "q"))
    return resealed(bytes(data))


def _odd(rng: Random, form: str) -> int:
    half = 1 << WIDTHS[form] - 1
    number = rng.choice(ODD_NUMBERS) if rng.random() < 0.8 else rng.randrange(-half, half)
    return (number + half) % (2 * half) - half


def _lying_records(rng: Random) -> bytes:
    batch = generation.random_batch(rng)
    records_data = b"".join(lying_record(rng) for _ in batch.records)
    count = batch.record_count + rng.choice((0, 0, 0, 0, 0, 1, -1, 2**31 - 1 - batch.record_count))
    stored = generation.packed(rng, batch.codec, records_data, magic=2)
    return seal_batch(replace(batch, record_count=count), stored)


def _odd_entries(rng: Random) -> bytes:
    """A wrapper whose entries have odd offsets, times, order, magics and sizes, and right checksums."""
    unit = _wrapper(rng)
    entries = [unit.records_data[start:end] for start, end in batch_spans(unit.records_data)]
    for _ in range(1 + rng.randrange(2)):
        at = rng.randrange(len(entries))
        chance = rng.random()
        if chance < 0.3:
            entries[at] = resealed(struct.pack(">q", _odd(rng, "q")) + entries[at][8:])
        elif chance < 0.7:
            entries[at] = resealed(mutate(rng, entries[at]))
        elif chance < 0.8:
            entries.insert(at, rng.choice(entries))
        elif chance < 0.9:
            rng.shuffle(entries)
        else:
            entries[-1] = mutate(rng, entries[-1])
    data = _repacked(rng, unit, b"".join(entries))
    if rng.random() < 0.3:
        data = resealed(struct.pack(">q", _odd(rng, "q")) + data[8:])
    return data


def _nested(rng: Random) -> bytes:
    """A batch or a wrapper inside a wrapper, alone or among the entries that belong there."""
    unit, stranger = _wrapper(rng), _container(rng)
    return _repacked(
        rng, unit, rng.choice((b"", unit.records_data)) + stranger.data + rng.choice((b"", unit.records_data))
    )


def _control(rng: Random) -> bytes:
    record = rng.choice(corpus.load().controls)
    assert record.key is not None
    assert record.value is not None
    chance = rng.random()
    key, value = record.key, record.value
    if chance < 0.2:
        key = encode_control_key(rng.randrange(-1, TYPES_OF_CONTROL), version=rng.choice((0, 0, 0, 1, -1)))
    elif chance < 0.3:
        key = mutate(rng, key)
    damaged = OracleRecord(
        offset=record.offset,
        timestamp=record.timestamp,
        key=None if chance > 0.98 else key,
        value=None if 0.96 < chance < 0.98 else mutate(rng, value) if chance > 0.1 else value,
    )
    batch = batch_of([damaged], attributes=CONTROL)
    return seal_batch(batch, encode_records(batch))


def _bomb(rng: Random) -> bytes:
    unit = _container(rng)
    if unit.codec == NONE:
        return resealed(unit.data[:-4] + struct.pack(">i", 2**31 - 1))
    chance = rng.random()
    if chance < 0.4:
        stored = LYING_STREAMS[unit.codec]
    elif chance < 0.7:
        stored = corpus.load().bombs[unit.codec]
    else:
        stored = mutate(rng, corpus.load().bombs[unit.codec])
    return unit.around(stored)


def _many_pieces(rng: Random) -> bytes:
    """A section among up to hundreds of stored pieces that hold nothing."""
    unit = _container(rng)
    stored = generation.packed(rng, unit.codec, unit.records_data, magic=unit.magic)
    if unit.codec not in EMPTY_PIECES:
        return unit.around(stored)
    after_header, piece = EMPTY_PIECES[unit.codec]
    before, after = (piece * rng.choice((0, 1, 1, rng.randrange(PIECES_MAX))) for _ in range(2))
    return unit.around(stored[:after_header] + before + stored[after_header:] + after)


def _lz4_frame(rng: Random) -> bytes:
    while True:
        unit = _container(rng)
        if unit.codec == LZ4:
            return unit.around(any_frame(rng, unit.records_data))


def _noise(rng: Random) -> bytes:
    noise = rng.randbytes(rng.randrange(NOISE_BYTES_MAX))
    if rng.random() < 0.2:
        return noise
    framed = bytearray(max(len(noise), corpus.MAGIC_AT + 2) + 4)
    framed[: len(noise)] = noise
    framed[corpus.MAGIC_AT] = rng.choice((0, 1, 2, 2, 3))
    return resealed(bytes(framed))


def _zero_tail(rng: Random) -> bytes:
    return _whole(rng) + bytes(rng.randrange(ZEROS_BYTES_MAX))


WEIGHTS: dict[Callable[[Random], bytes], int] = {
    _whole: 5,
    _damaged: 12,
    _resealed: 20,
    _damaged_section: 15,
    _damaged_stream: 10,
    _odd_header: 10,
    _lying_records: 10,
    _odd_entries: 8,
    _nested: 2,
    _control: 4,
    _bomb: 1,
    _many_pieces: 2,
    _lz4_frame: 8,
    _noise: 2,
    _zero_tail: 1,
}
MAKERS = tuple(WEIGHTS)
CUMULATED_WEIGHTS = tuple(sum(tuple(WEIGHTS.values())[: index + 1]) for index in range(len(WEIGHTS)))
