"""Progress is patient, keeps to one line, and erases it."""

from __future__ import annotations

import io

from kafkafs.cli.output import Progress

ERASE = "\r\x1b[K"


def shown(*moments: float) -> str:
    """What is written about work of 40 MB that has done another 10 MB at each of these moments."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: now[0])
    for done, now[0] in enumerate(moments, 1):
        progress.show("0.log", done * 10_000_000, 40_000_000)
    progress.erase()
    return stream.getvalue()


def test_short_work_says_nothing() -> None:
    assert shown(0.5, 1.0, 1.9) == ""


def test_long_work_is_said_now_and_then_and_erased() -> None:
    assert shown(1, 2, 2.1, 2.3) == f"{ERASE}0.log: 50 % of 40 MB{ERASE}0.log: 100 % of 40 MB{ERASE}"


def test_nothing_is_not_a_number() -> None:
    stream = io.StringIO()
    Progress(stream, clock=iter([0, 3, 3]).__next__).show("0.log", 0, 0)
    assert stream.getvalue() == f"{ERASE}0.log: 0 % of 0 MB"
