"""Times as users write them."""

from __future__ import annotations

import pytest

from kafkafs.times import EXAMPLES, parse_time

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1732147200000", 1732147200000),
        ("20261121", 20261121),  # digits alone are milliseconds, never a date
        ("2026-11-21", 1795219200000),
        ("2026-11-21T10:15", 1795256100000),
        ("2026-11-21 10:15", 1795256100000),
        ("2026-11-21T10:15:30.250Z", 1795256130250),
        ("2026-11-21T10:15:30.250999Z", 1795256130250),
        ("2026-11-21T10:15:30.250+01:00", 1795252530250),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("now", NOW_MS),
        ("-15m", NOW_MS - 900_000),
        ("-1s", NOW_MS - 1_000),
        ("-2h", NOW_MS - 7_200_000),
        ("-1d", NOW_MS - 86_400_000),
        ("-1w", NOW_MS - 604_800_000),
    ],
)
def test_every_form_means_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_time(text, now_ms=NOW_MS) == milliseconds


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "15m", "-15y", "2026-13-01", "+5", "٣", "1e3", "now "])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time") as refusal:
        parse_time(text, now_ms=NOW_MS)
    assert str(refusal.value) == f"{text!r} is not a time; these are: {EXAMPLES}"
