"""The oracle codec: Kafka's log format in plain Python, to judge the kernel by and to make test data with.

This module finds the batches in a log and decodes all their versions; the formats themselves are in the modules that it
draws on, and their names are offered here too. Errors are those of `storage.errors`, with the position and the offset
of the batch. Nothing here is fast.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, FramingError
from storage.testing import batch_codec, legacy_codec
from storage.testing.batch_codec import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    TRANSACTIONAL,
    OracleBatch,
    OracleRecord,
    batch_of,
    decode_v2,
    encode_batch,
    encode_records,
    seal_batch,
)
from storage.testing.checksums import crc32c
from storage.testing.compressed import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress
from storage.testing.control_codec import (
    ABORT,
    COMMIT,
    decode_control_key,
    decode_end_transaction,
    encode_control_key,
    encode_end_transaction,
)
from storage.testing.integers import read_varint32, read_varint64, write_varint
from storage.testing.legacy_codec import OracleEntry, decode_entry, encode_entry, entry_of, wrapper_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ABORT",
    "CODECS",
    "CODEC_MASK",
    "COMMIT",
    "CONTROL",
    "DELETE_HORIZON",
    "GZIP",
    "LOG_APPEND_TIME",
    "LZ4",
    "NONE",
    "SNAPPY",
    "TRANSACTIONAL",
    "ZSTD",
    "OracleBatch",
    "OracleEntry",
    "OracleRecord",
    "batch_of",
    "batch_spans",
    "compress",
    "crc32c",
    "decode_batch",
    "decode_batches",
    "decode_control_key",
    "decode_end_transaction",
    "decompress",
    "encode_batch",
    "encode_control_key",
    "encode_end_transaction",
    "encode_entry",
    "encode_records",
    "entry_of",
    "read_varint32",
    "read_varint64",
    "resealed",
    "seal_batch",
    "wrapper_of",
    "write_varint",
]

LENGTH_POSITION = 8
MAGIC_POSITION = 16
BATCH_LENGTH_MIN = 14


def batch_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each batch begins and ends, and end quietly where the data breaks off within one.

    Raises FramingError at a length that no batch has, which is what a tail of zeros looks like.
    """
    position = 0
    while position + MAGIC_POSITION + 1 < len(data):
        end = position + LOG_OVERHEAD_BYTES + _batch_length(data, position)
        if end > len(data):
            return
        yield position, end
        position = end


def decode_batches(data: bytes) -> Iterator[OracleBatch | OracleEntry]:
    """Yield the batches of a log, up to the first that is damaged."""
    for start, _ in batch_spans(data):
        yield decode_batch(data, start)


def decode_batch(data: bytes, position: int = 0) -> OracleBatch | OracleEntry:
    """Return the one batch that begins at the position, of any magic."""
    if position + MAGIC_POSITION >= len(data):
        raise FramingError("the data ends before the magic byte", position=position)
    end = position + LOG_OVERHEAD_BYTES + _batch_length(data, position)
    if end > len(data):
        raise FramingError(f"the batch runs {end - len(data)} bytes past the end of the data", position=position)
    magic = data[position + MAGIC_POSITION]
    if magic > 2:
        raise FramingError(f"magic {magic} does not exist", position=position)
    try:
        return decode_v2(data[position:end]) if magic == 2 else decode_entry(data[position:end])
    except CorruptBatchError as error:
        error.located(position=position, offset=_offset(data, position))
        raise


def resealed(data: bytes) -> bytes:
    """Return the batch, damaged as it may be within, with the length and the checksum that its bytes call for."""
    if len(data) < LOG_OVERHEAD_BYTES + BATCH_LENGTH_MIN:
        return data
    framed = data[:LENGTH_POSITION] + struct.pack(">i", len(data) - LOG_OVERHEAD_BYTES) + data[LOG_OVERHEAD_BYTES:]
    if framed[MAGIC_POSITION] == 2:
        crc_position, crc = batch_codec.CRC_POSITION, crc32c(framed[batch_codec.CRC_COVERS_FROM :])
    else:
        crc_position, crc = legacy_codec.CRC_POSITION, zlib.crc32(framed[legacy_codec.CRC_COVERS_FROM :])
    return framed[:crc_position] + struct.pack(">I", crc) + framed[crc_position + 4 :]


def _offset(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + LENGTH_POSITION], "big", signed=True)


def _batch_length(data: bytes, position: int) -> int:
    length = int.from_bytes(data[position + LENGTH_POSITION : position + LOG_OVERHEAD_BYTES], "big", signed=True)
    if length < BATCH_LENGTH_MIN:
        raise FramingError(f"a batch of length {length} cannot be", position=position, offset=_offset(data, position))
    return length
