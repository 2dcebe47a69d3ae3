"""Batches that are small on disk and large in memory: in bytes, records or headers, of every codec and magic.

Nothing is compressed as a whole: the same block is compressed over and over, or the same compressed block written.
"""

from __future__ import annotations

import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from hostile.store import RECORDS, Case
from storage.record.kernel.crc32c import crc32c
from storage.testing.checksums import xxhash32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hostile.store import HostileStore, Scale

NONE, GZIP, SNAPPY, LZ4, ZSTD = CODECS = range(5)
NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS: Final = 100_000_000
BOMB_RECORDS: Final = 36_000_000
VALUE_BYTES: Final = 250_000_000
LEGACY_RECORDS: Final = 7_000_000
EMPTY_PARTS: Final = 3_000_000
MIDDLING_BYTES: Final = 16_000_000
"""The largest value whose text as JSON still fits into what a batch is given of a budget of 1 GiB."""
MIDDLING_RECORDS: Final = 150_000
"""Records of old versions, all of which are decoded for each that is looked up."""

_BLOCK_BYTES: Final = 64 * 1024


def repeated(prefix: bytes, block: bytes, count: int) -> Iterator[bytes]:
    """Yield a prefix, and a block so often, in pieces of a few hundred kilobytes."""
    yield prefix
    times = max(_BLOCK_BYTES * 4 // len(block), 1)
    piece = block * times
    for _ in range(count // times):
        yield piece
    yield block * (count % times)


def compressed(codec: int, parts: Iterator[bytes], *, magic: int = 2) -> bytes:
    """Return the parts compressed as Kafka frames them."""
    if codec == NONE:
        return b"".join(parts)
    if codec == GZIP:
        gzip = zlib.compressobj(1, zlib.DEFLATED, 31)
        return b"".join([*map(gzip.compress, parts), gzip.flush()])
    if codec == ZSTD:
        zstd = zstandard.ZstdCompressor(level=3).compressobj()
        return b"".join([*map(zstd.compress, parts), zstd.flush()])
    if codec == LZ4:
        with lz4.frame.LZ4FrameCompressor(block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB) as frame:
            data = frame.begin() + b"".join(map(frame.compress, parts)) + frame.flush()
        return data if magic > 0 else _with_old_checksum(data)
    known: dict[bytes, bytes] = {}
    blocks = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for part in parts:
        for at in range(0, len(part), _BLOCK_BYTES):
            block = part[at : at + _BLOCK_BYTES]
            if block not in known:
                packed = bytes(cramjam.snappy.compress_raw(block))
                known[block] = len(packed).to_bytes(4, "big") + packed
            blocks.append(known[block])
    return b"".join(blocks)


def _with_old_checksum(frame: bytes) -> bytes:
    """Return the frame with the checksum of its descriptor that Kafka wrote before 0.10: over the magic too."""
    descriptor_end = 6
    checksum = (xxhash32(frame[:descriptor_end]) >> 8) & 0xFF
    return frame[:descriptor_end] + bytes([checksum]) + frame[descriptor_end + 1 :]


def varint(value: int) -> bytes:
    """Return a number as records have it."""
    value = value << 1 ^ value >> 63
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def batch_of(records: bytes, *, codec: int, count: int, base_offset: int = 0) -> bytes:
    """Return a v2 batch around its records, as they are stored."""
    covered = struct.pack(">hiqqqhii", codec, count - 1, 2**40, 2**40, -1, -1, -1, count) + records
    head = struct.pack(">ibI", 0, 2, crc32c(covered))
    return struct.pack(">qi", base_offset, len(head) + len(covered)) + head + covered


def headers_batch(codec: int, headers: int = HEADERS, base_offset: int = 0) -> bytes:
    """Return a batch of one record with empty headers."""
    start = b"\0\0\0" + varint(-1) + varint(-1) + varint(headers)
    size = varint(len(start) + 2 * headers)
    return batch_of(
        compressed(codec, repeated(size + start, b"\0\0", headers)), codec=codec, count=1, base_offset=base_offset
    )


def records_batch(codec: int, records: int = BOMB_RECORDS, base_offset: int = 0, *, headers: int = 0) -> bytes:
    """Return a batch of records that have neither key nor value, and so many empty headers each."""
    start = b"\0\0\0" + varint(-1) + varint(-1) + varint(headers)
    record = varint(len(start) + 2 * headers) + start + b"\0\0" * headers
    return batch_of(
        compressed(codec, repeated(b"", record, records)), codec=codec, count=records, base_offset=base_offset
    )


def value_batch(codec: int, value_bytes: int = VALUE_BYTES, base_offset: int = 0) -> bytes:
    """Return a batch of one record, whose value is zeros."""
    start = b"\0\0\0" + varint(-1) + varint(value_bytes)
    size = varint(len(start) + value_bytes + 1)
    return batch_of(
        compressed(codec, repeated(size + start, bytes(1), value_bytes + 1)),
        codec=codec,
        count=1,
        base_offset=base_offset,
    )


def empty_parts_batch(codec: int, parts: int = EMPTY_PARTS, base_offset: int = 0) -> bytes:
    """Return a batch of one record, whose stream has so many members, frames or blocks more that hold nothing."""
    record = b"\0\0\0" + varint(-1) + varint(1) + b"x\0"
    data = compressed(codec, iter([varint(len(record)) + record]))
    if codec == LZ4:
        end_mark, empty_block = bytes(4), b"\1\0\0\0" + bytes(1)
        data = data.removesuffix(end_mark) + empty_block * parts + end_mark
    elif codec == SNAPPY:
        data += (b"\0\0\0\1" + bytes(1)) * parts
    else:
        data += compressed(codec, iter([])) * parts
    return batch_of(data, codec=codec, count=1, base_offset=base_offset)


def message_of(magic: int, value: bytes | None, *, attributes: int = 0, offset: int = 0, zeros: int = 0) -> bytes:
    """Return a message of an old version; so many `zeros` follow its value, and are counted but not returned."""
    time = struct.pack(">q", 2**40) if magic else b""
    length = -1 if value is None else len(value) + zeros
    covered = bytes([magic, attributes]) + time + struct.pack(">ii", -1, length) + (value or b"")
    checksum = zlib.crc32(covered)
    for _ in range(zeros // _BLOCK_BYTES):
        checksum = zlib.crc32(bytes(_BLOCK_BYTES), checksum)
    checksum = zlib.crc32(bytes(zeros % _BLOCK_BYTES), checksum)
    return struct.pack(">qiI", offset, 4 + len(covered) + zeros, checksum) + covered


def legacy_records(magic: int, codec: int, records: int = LEGACY_RECORDS, base_offset: int = 0) -> bytes:
    """Return a wrapper of messages without keys and values."""
    inner = compressed(codec, repeated(b"", message_of(magic, None), records), magic=magic)
    return message_of(magic, inner, attributes=codec, offset=base_offset + records - 1)


def legacy_value(magic: int, codec: int, value_bytes: int = VALUE_BYTES, base_offset: int = 0) -> bytes:
    """Return a wrapper of one message, whose value is zeros."""
    message = message_of(magic, b"", zeros=value_bytes)
    inner = compressed(codec, repeated(message, bytes(1), value_bytes), magic=magic)
    return message_of(magic, inner, attributes=codec, offset=base_offset)


def in_log(make: Callable[..., bytes], scaled: int, *arguments: int) -> Callable[..., None]:
    """Return what appends a bomb to the victim's log, and a sound batch after it."""

    def change(store: HostileStore, scale: Scale) -> None:
        bomb = make(*arguments, scale.of(scaled), RECORDS)
        after = batch_of(varint(7) + b"\0\0\0" + varint(-1) + varint(1) + b"x\0", codec=0, count=1, base_offset=10**9)
        with store.log.open("ab") as file:
            file.write(bomb + after)
        (store.path / ".kafka_cleanshutdown").unlink(missing_ok=True)

    return change


def every_bomb() -> Iterator[Case]:
    """Yield a case for each kind of bomb, codec and magic."""
    for codec in CODECS[1:]:
        for what, make, scaled in (
            ("headers", headers_batch, HEADERS),
            ("records", records_batch, BOMB_RECORDS),
            ("a value", value_batch, VALUE_BYTES),
            ("empty parts", empty_parts_batch, EMPTY_PARTS),
        ):
            yield Case(f"a bomb of {what} in {NAMES[codec]}", "bomb", in_log(make, scaled, codec))
    for magic in (0, 1):
        for codec in CODECS[1:4]:
            for what, make, scaled in (
                ("records", legacy_records, LEGACY_RECORDS),
                ("a value", legacy_value, VALUE_BYTES),
            ):
                name = f"a bomb of {what} in {NAMES[codec]} of version {magic}"
                yield Case(name, "bomb", in_log(make, scaled, magic, codec))
    yield Case("a value that just fits", "bomb", in_log(value_batch, MIDDLING_BYTES, ZSTD))
    yield Case("a value of version 1 that just fits", "bomb", in_log(legacy_value, MIDDLING_BYTES, 1, GZIP))
    yield Case("many records of version 1", "bomb", in_log(legacy_records, MIDDLING_RECORDS, 1, GZIP))


def many_bombs(store: HostileStore, scale: Scale) -> None:
    """Append fifty bombs of headers, which no budget holds together."""
    bombs = [headers_batch(ZSTD, scale.of(HEADERS), RECORDS + number) for number in range(50)]
    with store.log.open("ab") as file:
        file.writelines(bombs)
    (store.path / ".kafka_cleanshutdown").unlink(missing_ok=True)


BOMB_CASES: Final = (*every_bomb(), Case("many bombs of headers in zstd", "bomb", many_bombs))

SENT_BOMBS: Final[dict[str, Callable[..., bytes]]] = {
    f"{what} in {NAMES[codec]}": (lambda make=make, codec=codec: make(codec))
    for codec in CODECS[1:]
    for what, make in (("headers", headers_batch), ("records", records_batch), ("a value", value_batch))
} | {f"empty parts in {NAMES[codec]}": partial(empty_parts_batch, codec) for codec in (GZIP, ZSTD)}
"""What a producer may send to `append.batch`, at full size."""
