"""The oracle's varints are Java's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import MalformedRecordsError
from storage.testing.codec import read_varint32, read_varint64, write_varint

deterministic = settings(derandomize=True, deadline=None)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("01", -1),
        ("02", 1),
        ("7f", -64),
        ("8001", 64),
        ("feffffff0f", 2**31 - 1),
        ("ffffffff0f", -(2**31)),
        ("8000", 0),
        ("8180808000", -1),
        ("feffffff7f", 2**31 - 1),
        ("8080808010", 0),
    ],
)
def test_varint32_as_java_reads_it(encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert read_varint32(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("feffffff0f", 2**31 - 1),
        ("feffffffffffffffff01", 2**63 - 1),
        ("ffffffffffffffffff01", -(2**63)),
        ("ffffffffffffffffff7f", -(2**63)),
        ("80808080808080808002", 0),
        ("81808080808080808000", -1),
    ],
)
def test_varint64_as_java_reads_it(encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)
    assert read_varint64(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("encoded", ["", "80", "80808080", "8080808080", "ffffffffff"])
def test_varint32_cut_short_or_without_end(encoded: str) -> None:
    with pytest.raises(MalformedRecordsError):
        read_varint32(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("size", [0, 9, 10])
def test_varint64_cut_short_or_without_end(size: int) -> None:
    with pytest.raises(MalformedRecordsError):
        read_varint64(b"\x80" * size, 0)


@pytest.mark.property
@deterministic
@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_read_back_as_they_were_written(value: int) -> None:
    data = write_varint(value)
    assert read_varint64(data, 0) == (value, len(data))
    if -(2**31) <= value < 2**31:
        assert read_varint32(data, 0) == (value, len(data))
