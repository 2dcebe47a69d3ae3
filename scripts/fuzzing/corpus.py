"""What inputs are made of: batches that real brokers wrote, golden vectors, and decompression bombs.

The corpus is the same in every process and on every machine: it depends on the files in tests/data alone.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from storage.errors import StorageError
from storage.testing.codec import (
    CODEC_MASK,
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    OracleEntry,
    OracleRecord,
    batch_spans,
    compress,
    decode_batch,
    decode_control_key,
    decompress,
    encode_control_key,
    encode_entry,
    resealed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[2] / "tests" / "data"
ARCHIVES = ("kafka-2.2", "kafka-3.9", "kafka-3.9-compaction")
SUFFIXES = (".log", ".checkpoint")

HEADER_BYTES = 61
MAGIC_AT = 16
ATTRIBUTES_AT = {0: 17, 1: 17, 2: 22}  # the low byte of the two in a v2 header

# Real batches are told apart by attributes, size and type of control; of each kind a few are enough.
OF_A_KIND_MAX = 4
UNIT_BYTES_MAX = 4096

GOLDEN = (
    bytes.fromhex(
        "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff"
        "0000000210000000026b02760018000a02046b32010202680278"
    ),
    bytes.fromhex(
        "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe5680000000000000000090002ffffffff"
        "000000012000000008000000010c00000000000300"
    ),
)

# The two control records of brokers that the data sets lack: a version of KRaft, and a voter with one listener.
KRAFT_VERSION = OracleRecord(0, 0, encode_control_key(5), bytes.fromhex("0000000100"))
KRAFT_VOTERS = OracleRecord(
    0,
    0,
    encode_control_key(6),
    b"\0\0\2\0\0\0\1" + bytes(range(16)) + b"\2\x0bCONTROLLER\x0alocalhost\x23\x85\0\0\0\0\1\0\0\0",
)

BOMB_BYTES = {GZIP: 16 << 20, SNAPPY: 5 << 18, LZ4: 8 << 20, ZSTD: 64 << 20}


@dataclass(frozen=True, slots=True)
class Unit:
    """A legal batch of any magic, with what is packed in it: a section of records, or a wrapper's entries."""

    data: bytes
    magic: int
    codec: int
    records_data: bytes

    @property
    def is_container(self) -> bool:
        """Whether it has a section at all, which uncompressed entries have not."""
        return self.magic == 2 or self.codec != NONE

    def around(self, stored: bytes) -> bytes:
        """Return the batch with these bytes, as they are, where its section is stored; the checksum is right."""
        if self.magic == 2:
            return resealed(self.data[:HEADER_BYTES] + stored)
        wrapper = decode_batch(self.data)
        assert isinstance(wrapper, OracleEntry)
        return encode_entry(replace(wrapper, value=stored))


@dataclass(frozen=True, slots=True)
class Corpus:
    """Units to start from, control records to damage, and by their codec the stored sections that are bombs."""

    units: tuple[Unit, ...]
    controls: tuple[OracleRecord, ...]
    bombs: dict[int, bytes]


def unit_of(data: bytes) -> Unit:
    """Return the unit that the bytes of a legal batch make."""
    magic = data[MAGIC_AT]
    codec = data[ATTRIBUTES_AT[magic]] & CODEC_MASK
    if magic == 2:
        return Unit(data, magic, codec, decompress(codec, data[HEADER_BYTES:]))
    if codec == NONE:
        return Unit(data, magic, codec, b"")
    wrapper = decode_batch(data)
    assert isinstance(wrapper, OracleEntry)
    assert wrapper.value is not None
    return Unit(data, magic, codec, decompress(codec, wrapper.value, magic=magic))


@cache
def load() -> Corpus:
    """Return the corpus; a process reads it once."""
    kinds: dict[tuple[int, ...], list[bytes]] = {}
    for batch in (batch for log in _logs() for batch in _batches(log)):
        of_kind = kinds.setdefault(_kind(batch), [])
        if len(of_kind) < OF_A_KIND_MAX:
            of_kind.append(batch)
    real = [batch for of_kind in kinds.values() for batch in of_kind]
    units = tuple(map(unit_of, [*real, *GOLDEN]))
    controls = tuple(decode_batch(unit.data).records[0] for unit in units if is_control(unit.data))
    controls += KRAFT_VERSION, KRAFT_VOTERS
    return Corpus(units, controls, {codec: compress(codec, bytes(size)) for codec, size in BOMB_BYTES.items()})


def is_control(batch: bytes) -> bool:
    """Whether a legal batch holds control records."""
    return batch[MAGIC_AT] == 2 and bool(batch[ATTRIBUTES_AT[2]] & CONTROL)


def _logs() -> Iterator[bytes]:
    for name in ARCHIVES:
        with (
            (DATA / f"{name}.tar.zst").open("rb") as archive,
            zstandard.ZstdDecompressor().stream_reader(archive) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for member in tar:
                if member.isfile() and member.name.endswith(SUFFIXES):
                    contents = tar.extractfile(member)
                    assert contents is not None
                    yield contents.read()


def _batches(log: bytes) -> Iterator[bytes]:
    try:
        for start, end in batch_spans(log):
            if end - start <= UNIT_BYTES_MAX:
                yield log[start:end]
    except StorageError:
        return  # the zeros of a preallocated log


def _kind(batch: bytes) -> tuple[int, ...]:
    magic = batch[MAGIC_AT]
    attributes = batch[ATTRIBUTES_AT[magic]]
    if not is_control(batch):
        return magic, attributes, len(batch).bit_length()
    records = decode_batch(batch).records
    return magic, attributes, *(decode_control_key(record.key)[1] for record in records)
