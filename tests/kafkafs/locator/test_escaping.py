"""Ids as file names: every id has one, which is its own."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.locator.errors import BadNameError
from kafkafs.locator.escaping import NAME_BYTES_MAX, escape, unescape


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        (b"console-consumer_1.a", "console-consumer_1.a"),
        (b".", "%2E"),
        (b"..", "%2E%2E"),
        (b"...", "..."),
        (b".hidden", ".hidden"),
        (b"", "%"),
        (b"a/b c%", "a%2Fb%20c%25"),
        (b"\0\xff\n", "%00%FF%0A"),
        ("grüße".encode(), "gr%C3%BC%C3%9Fe"),
        (b"x" * 255, "x" * 255),
        (b"/" * 85, "%2F" * 85),
    ],
)
def test_names(identifier: bytes, name: str) -> None:
    assert escape(identifier) == name
    assert unescape(name) == identifier


@pytest.mark.parametrize("identifier", [b"x" * 256, b"/" * 86, b"x" * 100_000])
def test_what_is_too_long_has_a_hash(identifier: bytes) -> None:
    assert escape(identifier) == f"%sha256-{hashlib.sha256(identifier).hexdigest()}"
    assert unescape(escape(identifier)) is None


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "a b", "a/b", "%2f", "%41", "%2", "%%", "a%", "é", "\u20ac", "\udcff", "%2E%2E/", "%2Ea"),
        *("x\n", "%sha256-", "%sha256-" + "0" * 63, "%sha256-" + "A" * 64, "%sha256-" + "0" * 65),
        *("x" * 256, "%2F" * 86),
    ],
)
def test_no_id_has_another_name(name: str) -> None:
    with pytest.raises(BadNameError, match="is not an escaped id"):
        unescape(name)


@given(st.binary(max_size=300) | st.text(max_size=120).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_every_id_has_a_name_of_its_own(identifier: bytes) -> None:
    name = escape(identifier)
    assert name not in {"", ".", ".."}
    assert "/" not in name
    assert len(name.encode()) <= NAME_BYTES_MAX
    assert unescape(name) in {identifier, None}
    assert (unescape(name) is None) == name.startswith("%sha256-")


@given(st.text(max_size=20) | st.text("%.2EFef0a/", max_size=9))
def test_a_name_is_that_of_its_id_or_refused(name: str) -> None:
    try:
        identifier = unescape(name)
    except BadNameError:
        return
    assert identifier is not None
    assert escape(identifier) == name
