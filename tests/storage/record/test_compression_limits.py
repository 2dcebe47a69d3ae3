"""Decompression bombs: what a small stream may cost, measured on the whole process."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard

from storage.errors import DecompressedTooLargeError
from storage.record.compression import Codec, decompress
from storage.record.stream_parts import PART_OUTPUT_BYTES, PARTS_ALWAYS_ALLOWED

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
ZEROS = bytes(4 * MIB)

XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")
ZSTD_HEADER = bytes.fromhex("28b52ffd0058")  # no content size, a window of 2 MiB
ZSTD_SIZED_HEADER = bytes.fromhex("28b52ffdc058")  # eight bytes of content size follow
ZSTD_REPEATED = bytes.fromhex("02001061") * 32  # of 128 KiB each
ZSTD_LAST = bytes.fromhex("010000")


def gzip_member(times: int) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return b"".join([*(packer.compress(ZEROS) for _ in range(times)), packer.flush()])


def lz4_frame(descriptor: bytes, times: int) -> bytes:
    blocks = lz4.frame.compress(ZEROS, block_size=descriptor[1] >> 4, block_linked=False, store_size=False)[7:-4]
    checksum = bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF])
    return bytes.fromhex("04224d18") + descriptor + checksum + blocks * times + bytes(4)


def lz4_with_its_size(times: int) -> bytes:
    return lz4_frame(b"\x68\x70" + struct.pack("<Q", len(ZEROS) * times), times)


def zstd_with_its_size(times: int) -> bytes:
    return ZSTD_SIZED_HEADER + struct.pack("<Q", len(ZEROS) * times) + ZSTD_REPEATED * times + ZSTD_LAST


def xerial(times: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(ZEROS))
    return XERIAL_HEADER + (struct.pack(">i", len(block)) + block) * times


# What makes a small stream of so many times 4 MiB, in every way that a codec offers.
BOMBS: dict[str, tuple[Codec, Callable[[int], bytes]]] = {
    "gzip": (Codec.GZIP, gzip_member),
    "gzip that claims little": (Codec.GZIP, lambda times: gzip_member(times)[:-4] + bytes(4)),
    "gzip members": (Codec.GZIP, lambda times: gzip.compress(ZEROS, 1) * times),
    "zstd": (Codec.ZSTD, lambda times: ZSTD_HEADER + ZSTD_REPEATED * times + ZSTD_LAST),
    "zstd with its size": (Codec.ZSTD, zstd_with_its_size),
    "zstd frames": (Codec.ZSTD, lambda times: zstandard.compress(ZEROS) * times),
    "lz4": (Codec.LZ4, lambda times: lz4_frame(b"\x60\x40", times)),
    "lz4 with its size": (Codec.LZ4, lz4_with_its_size),
    "xerial": (Codec.SNAPPY, xerial),
    "raw snappy": (Codec.SNAPPY, lambda times: bytes(cramjam.snappy.compress_raw(ZEROS * times))),
}

# Address space counts what the libraries allocate too, and what was allocated and never touched.
MEASURE = """
import pathlib, re, sys
from storage.errors import DecompressedTooLargeError
from storage.record.compression import Codec, decompress

def address_space_bytes(field):
    return 1024 * int(re.search(field + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

stored = sys.stdin.buffer.read()
before = address_space_bytes("VmSize")
try:
    decompress(Codec[sys.argv[1]], stored, limit_bytes=int(sys.argv[2]))
except DecompressedTooLargeError as error:
    print(address_space_bytes("VmPeak") - before, error)
"""


def set_off(name: str, times: int, limit_bytes: int, program: str = MEASURE) -> tuple[int, str]:
    """Decompress a bomb in a process of its own; return by how much that grew, and why it stopped."""
    codec, make = BOMBS[name]
    command = [sys.executable, "-c", program, codec.name, str(limit_bytes)]
    run = subprocess.run(command, input=make(times), capture_output=True, check=True)
    grown_bytes, reason = run.stdout.decode().split(maxsplit=1)
    return int(grown_bytes), reason


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_do_not_go_off(name: str) -> None:
    grown_bytes, reason = set_off(name, times=64, limit_bytes=16 * MIB)
    assert "limit of 16777216 bytes" in reason
    assert grown_bytes < 36 * MIB


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_memory_that_runs_out_below_the_limit_is_an_error_too(name: str) -> None:
    program = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))" + MEASURE
    assert "not enough memory" in set_off(name, times=64, limit_bytes=2**31, program=program)[1]


EMPTY_FRAME = zstandard.ZstdCompressor(write_content_size=False).compress(b"")
EMPTY_SKIPPABLE_FRAME = struct.pack("<II", 0x184D2A50, 0)

# Streams that hold nothing, by how many parts they have.
EMPTY_STREAMS: dict[str, tuple[Codec, Callable[[int], bytes]]] = {
    "gzip members": (Codec.GZIP, lambda parts: gzip.compress(b"") * parts),
    "zstd frames": (Codec.ZSTD, lambda parts: EMPTY_FRAME * parts),
    "zstd frames to skip": (Codec.ZSTD, lambda parts: EMPTY_FRAME + EMPTY_SKIPPABLE_FRAME * (parts - 1)),
}


@pytest.mark.parametrize("name", EMPTY_STREAMS)
def test_parts_that_hold_nothing_are_decompressed_up_to_a_limit(name: str) -> None:
    codec, make = EMPTY_STREAMS[name]
    assert decompress(codec, make(PARTS_ALWAYS_ALLOWED)) == b""
    with pytest.raises(DecompressedTooLargeError, match=r"hold too little: 4097 and more"):
        decompress(codec, make(PARTS_ALWAYS_ALLOWED + 1))


def test_a_stream_with_enough_in_it_may_have_more_parts() -> None:
    frame = zstandard.compress(bytes(PART_OUTPUT_BYTES))
    assert len(decompress(Codec.ZSTD, frame * (2 * PARTS_ALWAYS_ALLOWED))) == 64 * MIB


@pytest.mark.parametrize("empty", [struct.pack(">i", 1) + bytes(1), XERIAL_HEADER])
def test_snappy_may_have_as_many_empty_parts_as_there_is_room_for(empty: bytes) -> None:
    block = bytes(cramjam.snappy.compress_raw(b"text"))
    stream = XERIAL_HEADER + empty * 1_000_000 + struct.pack(">i", len(block)) + block
    assert decompress(Codec.SNAPPY, stream) == b"text"
