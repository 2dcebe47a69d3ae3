"""When things happen in the shop: all day long, evenly, and up to now."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000

T = TypeVar("T")


def draw_for(topic: str) -> random.Random:
    """Chance that takes the same course for a topic every time."""
    return random.Random(topic)  # noqa: S311 -- a demo has no secrets


def moments(count: int, now_ms: int, rng: random.Random) -> list[int]:
    """Return this many times of the day before now, in order: a random one in each of as many equal parts."""
    step_ms = DAY_MS // count
    return [now_ms - DAY_MS + number * step_ms + rng.randrange(step_ms) for number in range(count)]


def runs(items: Sequence[T], length_max: int, rng: random.Random) -> Iterator[Sequence[T]]:
    """The items in runs of different lengths, as they gather until a producer sends them."""
    start = 0
    while start < len(items):
        end = start + rng.randint(1, length_max)
        yield items[start:end]
        start = end
