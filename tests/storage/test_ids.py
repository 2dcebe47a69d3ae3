"""Ids are what Kafka's are."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import InvalidIdError
from storage.ids import ZERO_ID, format_id, is_reserved, parse_id, random_id


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ZERO_ID, "AAAAAAAAAAAAAAAAAAAAAA"),
        (UUID(int=1), "AAAAAAAAAAAAAAAAAAAAAQ"),  # the id of __cluster_metadata
        (UUID(int=2**128 - 1), "_____________________w"),
        (UUID(int=0xF8 << 120), "-AAAAAAAAAAAAAAAAAAAAA"),
    ],
)
def test_text(value: UUID, text: str) -> None:
    assert format_id(value) == text
    assert parse_id(text) == value


@given(st.uuids())
def test_text_and_back(value: UUID) -> None:
    assert parse_id(format_id(value)) == value
    assert parse_id(f"{format_id(value)}==") == value


@pytest.mark.parametrize(
    "text",
    ["", "AAAA", "A" * 21, "A" * 23, "A" * 22 + "=", "A" * 21 + "+", "A" * 21 + "/", " " + "A" * 22, "A" * 22 + "\n"],
)
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(InvalidIdError):
        parse_id(text)


def test_reserved() -> None:
    assert is_reserved(ZERO_ID)
    assert is_reserved(UUID(int=99))
    assert not is_reserved(UUID(int=100))
    assert not is_reserved(UUID(int=1 << 64))


def test_random_ids_never_begin_with_a_dash() -> None:
    draws = iter([b"\xf8" + bytes(15), b"\xfb" + b"\xff" * 15, bytes(16)])
    value = random_id(lambda count: next(draws)[:count])
    assert (value.version, value.int >> 80) == (4, 0)
    assert next(draws, None) is None
    assert not is_reserved(value)


def test_random_ids_differ() -> None:
    assert len({random_id() for _ in range(100)}) == 100
