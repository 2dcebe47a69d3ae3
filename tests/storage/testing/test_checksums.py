"""The oracle's checksums are those that compiled libraries compute."""

from __future__ import annotations

import crc32c as crc32c_package
import lz4.frame
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.testing.checksums import crc32c, xxhash32

deterministic = settings(derandomize=True, deadline=None)


@pytest.mark.property
@deterministic
@given(st.binary(max_size=300))
def test_crc32c_equals_the_package(data: bytes) -> None:
    assert crc32c(data) == crc32c_package.crc32c(data)


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_xxhash32_makes_the_header_checksums_of_lz4_frames(block_size: int, store_size: bool) -> None:
    frame = lz4.frame.compress(b"abc" * 10_000, block_size=block_size, store_size=store_size)
    end = 14 if store_size else 6
    assert frame[end] == xxhash32(frame[4:end]) >> 8 & 0xFF


@pytest.mark.property
@deterministic
@given(st.binary(max_size=300))
def test_xxhash32_equals_the_package(data: bytes) -> None:
    assert xxhash32(data) == xxhash.xxh32_intdigest(data)
