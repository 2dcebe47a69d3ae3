"""Offsets in words: the last number is that of the last one."""

from __future__ import annotations

import pytest

from storage.offset_text import offsets_text


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (0, 1500, "offsets 0 to 1499"),
        (7, 9, "offsets 7 to 8"),
        (7, 8, "offset 7"),
        (0, 1, "offset 0"),
        (12, 12, "no records (the next offset is 12)"),
        (0, 0, "no records (the next offset is 0)"),
    ],
)
def test_the_last_offset_is_one_of_the_range(start: int, end: int, text: str) -> None:
    assert offsets_text(start, end) == text
