"""Where the entries of a log end and those begin that a truncation has left."""

from __future__ import annotations

import pytest

from storage.segment.index.stale_tail import StaleTail


@pytest.mark.parametrize(
    ("entries", "begin"),
    [
        ("", None),
        ("RRRR", None),
        ("RRRW", 3),  # one wrong entry at the end cannot be told from a truncation's
        ("RRWR", None),  # among right ones it can
        ("WRRR", None),
        ("RRWWRR", None),
        ("RRWWWRR", 2),
        ("WWWW", 0),  # a log truncated before its first entry
        ("RRRWWRWWW", 3),  # a new batch where an old one was
        ("RWRRRWW", 5),  # damage, and a truncation
        ("RRWWR", 2),
    ],
)
def test_the_parting_is_where_the_fewest_entries_contradict_it(entries: str, begin: int | None) -> None:
    tail = StaleTail()
    damaged = []
    for at, entry in enumerate(entries):
        if entry == "W":
            tail.wrong(at)
        elif tail.right():
            damaged.append(at)
    assert tail.begin == begin
