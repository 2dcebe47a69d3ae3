"""Small pieces are joined, but none waits long for others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafkafs.content import piece
from kafkafs.content.piece import UNSETTLED, Piece, gathered
from storage.errors import CorruptBatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

DAMAGE = CorruptBatchError("it is damaged", position=7, offset=0)


def pieces(*data: bytes) -> Iterator[Piece]:
    return (Piece(number, number - 1, len(each), each) for number, each in enumerate(data, 1))


def test_small_ones_are_joined() -> None:
    assert [each.data for each in gathered(pieces(b"a", b"b", b"c"))] == [b"abc"]


def test_large_ones_are_not() -> None:
    large = bytes(piece._GATHERED_BYTES)
    assert [each.data for each in gathered(pieces(large, large, b"c"))] == [large, large, b"c"]


def test_damage_and_what_may_be_replaced_stay_alone() -> None:
    found = [*pieces(b"a", b"b"), Piece(7, 2, 0, b"", DAMAGE), *pieces(b"c"), Piece(UNSETTLED, 3, 1, b"d")]
    assert [each.data for each in gathered(iter(found))] == [b"ab", b"", b"c", b"d"]


def test_those_that_take_long_are_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(piece, "monotonic", lambda: next(seconds))
    assert [each.data for each in gathered(pieces(b"a", b"b", b"c"))] == [b"a", b"b", b"c"]
