"""The codecs of record batches: what the attribute bits mean, and bytes to bytes in both directions.

Decompressing accepts exactly what a broker may have stored: a stream that is cut short, damaged or followed by other
bytes is an error, and so is one that exceeds the caller's limit. A size that a stream declares is believed only as far
as the stream's length allows, so memory follows the limit and the true output. Both directions are thread-safe.

Only the codecs are here; checking that the output is records is left to their readers.
"""

from __future__ import annotations

import enum
import zlib
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol, Self, cast

import cramjam
from isal import igzip_lib, isal_zlib

from storage.errors import DecompressedTooLargeError, DecompressionError, FramingError, InvalidRecordError
from storage.record import lz4_frame, zstd_frame
from storage.record.kernel.frames import join_parts
from storage.record.kernel.snappy import decompress_snappy
from storage.record.layout import CODEC_MASK
from storage.record.stream_parts import check_parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

DEFAULT_OUTPUT_LIMIT_BYTES: Final = 256 * 1024 * 1024

_GZIP_WINDOW_BITS: Final = 31  # the largest window, in a gzip wrapper
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_DEFAULT_LEVEL: Final = -1
_GZIP_FAST_LEVEL: Final = 2  # of isal's own levels the one nearest to zlib's 6, at a tenth of its time
_DEFLATE_EXPANSION_MAX: Final = 1032
_GZIP_STEP_BYTES: Final = 64 * 1024
_GZIP_STEP_BYTES_MAX: Final = 4 * 1024 * 1024
_GZIP_FEED_BYTES: Final = 16 * 1024
_GZIP_FIRST_FEED_BYTES: Final = 1024 * 1024
# The library's stubs declare an instance.
_ISAL_ERROR: Final = cast("type[Exception]", igzip_lib.IsalError)

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + Struct(">ii").pack(1, 1)  # version, lowest version that can read it
_XERIAL_LENGTH: Final = Struct(">i")  # of a block
_XERIAL_INPUT_BYTES: Final = 32 * 1024

_ZSTD_LOWEST_MAGIC: Final = 2


class Codec(enum.IntEnum):
    """A codec, by the number that it has in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name that tools print."""
        return self.name.lower()

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the codec of that label; `uncompressed` is what topics are configured with for `none`."""
        label = "none" if name == "uncompressed" else name
        for codec in cls:
            if codec.label == label:
                return codec
        raise InvalidRecordError(f"there is no codec named {name!r}, only {', '.join(codec.label for codec in cls)}")


_CODECS: Final = tuple(Codec)


def codec_of(attributes: int) -> Codec:
    """Return the codec that a batch's attributes name."""
    number = attributes & CODEC_MASK
    if number >= len(_CODECS):
        raise FramingError(f"codec {number} does not exist")
    return _CODECS[number]


def level_range(codec: Codec) -> range:
    """Return the levels that `compress` takes, empty where a codec has none; gzip also takes -1, its default."""
    match codec:
        case Codec.GZIP:
            return range(1, 10)
        case Codec.LZ4:
            return range(1, 18)
        case Codec.ZSTD:
            return range(-131072, 23)
        case _:
            return range(0)


def decompress(codec: Codec, data: Buffer, *, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES, magic: int = 2) -> bytes:
    """Decompress the data into bytes that are independent of it.

    `magic` is that of the batch around it. Raises `DecompressionError` for data that is not exactly what the
    codec makes, and `DecompressedTooLargeError` when it would come to more than `limit_bytes`.
    """
    try:
        return _READERS[magic][codec](memoryview(data), limit_bytes)
    except MemoryError as error:
        raise DecompressedTooLargeError(
            f"there is not enough memory for the {codec.label} data, whose limit is {limit_bytes} bytes"
        ) from error


def compress(codec: Codec, data: Buffer, *, level: int | None = None, magic: int = 2) -> bytes:
    """Return the data in the framing that producers of that magic use; without a level, at the codec's default."""
    if level is not None and level not in level_range(codec) and not (codec is Codec.GZIP and level == -1):
        raise InvalidRecordError(f"{codec.label} has no level {level}")
    view = memoryview(data)
    match codec:
        case Codec.NONE:
            return bytes(view)
        case Codec.GZIP:
            return _compress_gzip(view, _GZIP_DEFAULT_LEVEL if level is None else level)
        case Codec.SNAPPY:
            return _compress_snappy(view)
        case Codec.LZ4:
            return lz4_frame.compress(view, lz4_frame.DEFAULT_LEVEL if level is None else level, magic=magic)
        case Codec.ZSTD:
            if magic < _ZSTD_LOWEST_MAGIC:
                raise InvalidRecordError(f"message sets of magic {magic} cannot be compressed with zstd")
            return zstd_frame.compress(view, zstd_frame.DEFAULT_LEVEL if level is None else level)


def _copy(data: memoryview, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise DecompressedTooLargeError(f"the data holds more than the limit of {limit_bytes} bytes")
    return bytes(data)


def _compress_gzip(data: memoryview, level: int) -> bytes:
    if level == _GZIP_DEFAULT_LEVEL:
        return isal_zlib.compress(data, _GZIP_FAST_LEVEL, wbits=_GZIP_WINDOW_BITS)
    return zlib.compress(data, level, wbits=_GZIP_WINDOW_BITS)


def _decompress_gzip(data: memoryview, limit_bytes: int) -> bytes:
    # One member is the rule, and its last four bytes say how much it holds. Members get their input in pieces, those
    # after the first in small ones: what a member leaves over is copied, and there may be very many very small ones.
    declared_bytes = int.from_bytes(data[-4:], "little")
    step_bytes = min(declared_bytes, len(data) * _DEFLATE_EXPANSION_MAX, _GZIP_STEP_BYTES_MAX) + 1
    feed_bytes = _GZIP_FIRST_FEED_BYTES
    parts = []
    members = 0
    produced_bytes = 0
    position = 0
    while True:
        member = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
        while not member.eof:
            piece = data[position : position + feed_bytes] if member.needs_input else b""
            if member.needs_input and not piece:
                raise DecompressionError("the gzip stream is cut short")
            position += len(piece)
            try:
                part = member.decompress(piece, min(step_bytes, limit_bytes + 1 - produced_bytes))
            except _ISAL_ERROR as error:
                raise DecompressionError(f"the gzip stream is damaged: {error}") from error
            produced_bytes += len(part)
            if produced_bytes > limit_bytes:
                raise DecompressedTooLargeError(f"the gzip stream holds more than the limit of {limit_bytes} bytes")
            parts.append(part)
            step_bytes = min(max(produced_bytes, _GZIP_STEP_BYTES), _GZIP_STEP_BYTES_MAX)
        members += 1
        check_parts(members, produced_bytes, "gzip members")
        position -= len(member.unused_data)
        if position == len(data):
            return join_parts(parts)
        if bytes(data[position : position + len(_GZIP_MAGIC)]) != _GZIP_MAGIC:
            raise DecompressionError(f"{len(data) - position} bytes follow the gzip stream")
        feed_bytes = _GZIP_FEED_BYTES


def _compress_snappy(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_INPUT_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_INPUT_BYTES]))
        parts += _XERIAL_LENGTH.pack(len(block)), block
    return b"".join(parts)


class _Reader(Protocol):
    def __call__(self, data: memoryview, limit_bytes: int) -> bytes: ...


def _refuse_zstd(data: memoryview, limit_bytes: int) -> bytes:  # noqa: ARG001 -- as all readers
    raise DecompressionError("message sets cannot be compressed with zstd")


# The reader of a codec's data, by the magic of the batch around it and the codec. Each batch of each scan is looked up
# here: matching on the codec would cost small batches five percent.
_READERS: Final[tuple[tuple[_Reader, ...], ...]] = (
    (_copy, _decompress_gzip, decompress_snappy, partial(lz4_frame.decompress, magic=0), _refuse_zstd),
    (_copy, _decompress_gzip, decompress_snappy, lz4_frame.decompress, _refuse_zstd),
    (_copy, _decompress_gzip, decompress_snappy, lz4_frame.decompress, zstd_frame.decompress),
)


def decompressors(*, limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES) -> tuple[Callable[[memoryview], bytes], ...]:
    """Return `decompress` of each codec by its number, for kernel functions that pass many batches of magic 2."""
    return tuple(partial(reader, limit_bytes=limit_bytes) for reader in _READERS[-1])
