"""CRC-32C by the instruction and by tables, against known values and another implementation."""

from __future__ import annotations

import crc32c as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.record.kernel.crc32c import crc32c, crc32c_portable


def test_the_check_value() -> None:
    assert crc32c(b"123456789") == crc32c_portable(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 767, 768, 769, 12287, 12288, 12289, 100_003])
def test_sizes_around_the_block_lengths(size: int) -> None:
    data = bytes(index * 7 % 251 for index in range(size))
    assert crc32c(data) == crc32c_portable(data) == peer.crc32c(data)


@pytest.mark.property
@given(st.binary(max_size=3000), st.integers(0, 7))
def test_any_bytes_at_any_alignment(data: bytes, skip: int) -> None:
    view = memoryview(data)[skip:]
    assert crc32c(view) == crc32c_portable(view) == peer.crc32c(bytes(view))
