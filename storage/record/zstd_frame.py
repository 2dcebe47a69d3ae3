"""Zstandard streams: frames and skippable frames one after another, over the library that decodes the blocks.

Java writes frames that do not say how much they hold, and the library accepts streams that are cut short. So the
blocks of each frame are counted first: that finds the frame's end, shows whether it is whole, and bounds what it
can hold.
"""

from __future__ import annotations

import threading
from typing import Final

import zstandard

from storage.errors import DecompressedTooLargeError, DecompressionError
from storage.record.kernel.frames import join_parts, zstd_blocks_end
from storage.record.stream_parts import check_parts

DEFAULT_LEVEL: Final = 3

_FIRST_BYTE: Final = 0x28  # of a frame, and of no skippable one
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # and the 15 numbers that follow it
_SKIPPABLE_HEADER_BYTES: Final = 8  # magic, length of the rest
_BLOCK_BYTES_MAX: Final = 128 * 1024
_CHECKSUM_BYTES: Final = 4

_KEPT_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024  # as much as levels up to 19 use


class _Thread(threading.local):
    """Each thread's own contexts: costly to make, and unusable by two threads at once."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self._compressor = zstandard.ZstdCompressor(level=DEFAULT_LEVEL, write_content_size=False)
        self._level = DEFAULT_LEVEL

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        """One of that level, which lasts until another level is asked for."""
        if level != self._level:
            self._compressor = zstandard.ZstdCompressor(level=level, write_content_size=False)
            self._level = level
        return self._compressor


_thread: Final = _Thread()


def compress(data: memoryview, level: int) -> bytes:
    """Return one frame without a content size or a checksum, as Java's streaming writer does."""
    return _thread.compressor(level).compress(data)


def decompress(data: memoryview, limit_bytes: int) -> bytes:
    """Return what all frames hold, or raise `DecompressionError` unless each is whole and nothing else is there."""
    parts = []
    frames = 0
    room_bytes = limit_bytes
    position = 0
    if not data:
        raise DecompressionError("the zstd stream has not even one frame")
    try:
        while position < len(data):
            frames += 1
            check_parts(frames, limit_bytes - room_bytes, "zstd frames")
            rest = data[position:]
            if rest[0] != _FIRST_BYTE:
                position += _measure_skippable_frame(rest)
                continue
            window_bytes, size_bytes, most_bytes = _measure_frame(rest)
            # A context keeps its window: the thread's own is only for those of usual levels.
            kept = window_bytes <= _KEPT_WINDOW_BYTES_MAX
            decompressor = _thread.decompressor if kept else zstandard.ZstdDecompressor()
            reader = decompressor.stream_reader(rest[:size_bytes])
            # One more than there can be, so that the library gets to the end of the frame within the call.
            parts.append(reader.read(most_bytes + 1 if most_bytes < room_bytes else room_bytes + 1))
            room_bytes -= len(parts[-1])
            if room_bytes < 0:
                raise DecompressedTooLargeError(f"the zstd stream holds more than the limit of {limit_bytes} bytes")
            position += size_bytes
    except zstandard.ZstdError as error:
        raise DecompressionError(f"the zstd stream is damaged: {error}") from error
    return join_parts(parts)


def _measure_frame(data: memoryview) -> tuple[int, int, int]:
    """Return a frame's window, its size and the most bytes it can hold, having checked all its lengths."""
    frame = zstandard.get_frame_parameters(data)
    if frame.dict_id:
        raise DecompressionError("the zstd frame needs a dictionary")
    window_bytes = frame.window_size
    position, most_bytes = zstd_blocks_end(data, zstandard.frame_header_size(data), min(window_bytes, _BLOCK_BYTES_MAX))
    if frame.has_checksum:
        position += _CHECKSUM_BYTES
    if position > len(data):
        raise DecompressionError("the zstd stream is cut short within a frame")
    if most_bytes < frame.content_size < zstandard.CONTENTSIZE_UNKNOWN:
        raise DecompressionError(
            f"the zstd stream is damaged: a frame declares {frame.content_size} bytes, its blocks hold {most_bytes}"
        )
    return window_bytes, position, most_bytes


def _measure_skippable_frame(data: memoryview) -> int:
    """Return the size of a skippable frame, which is all that may stand where no frame begins."""
    magic = int.from_bytes(data[:4], "little")
    if magic & ~0xF != _SKIPPABLE_MAGIC:
        raise DecompressionError(f"the zstd stream has {len(data)} bytes that begin no frame")
    size_bytes = _SKIPPABLE_HEADER_BYTES + int.from_bytes(data[4:_SKIPPABLE_HEADER_BYTES], "little")
    if size_bytes > len(data):
        raise DecompressionError("the zstd stream is cut short within a skippable frame")
    return size_bytes
