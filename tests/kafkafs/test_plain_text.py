"""The columns that text takes on a terminal, as the terminal counts them."""

from __future__ import annotations

import pytest

from kafkafs.plain_text import columns_of, fitted


@pytest.mark.parametrize(("text", "columns"), [("", 0), ("orders", 6), ("名前", 4), ("cafe\u0301", 4), ("a\u200bb", 2)])
def test_columns(text: str, columns: int) -> None:
    assert columns_of(text) == columns


@pytest.mark.parametrize("text", ["", "ab", "abcdefgh", "名前名前", "a名b", "e\u0301" * 9])
@pytest.mark.parametrize("width", range(7))
@pytest.mark.parametrize("is_at_right", [False, True])
def test_fitted_text_takes_exactly_so_many(text: str, width: int, *, is_at_right: bool) -> None:
    shown = fitted(text, width, is_at_right=is_at_right)
    assert columns_of(shown) == width
    assert text in shown or (width == 0 and shown == "") or shown.rstrip().endswith("~")
