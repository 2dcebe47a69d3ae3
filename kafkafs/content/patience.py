"""How long a request works on what may take long, as a batch of a few kilobytes may hold gigabytes."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import Final

LOOK_S: Final = 1.0
"""How long a log is decoded only to tell a size."""
REST_S: Final = 10.0
"""How long no size is looked for again where that took too long: a program asks several times for one file."""
READ_S: Final = 1.0
"""The same for bytes that follow others which a reader could have already."""


class Patience:
    """Says when a request is to do no more than it has to."""

    def __init__(self, limit_s: float = inf) -> None:
        self.was_given = limit_s > 0
        self.is_limited = limit_s < inf
        self._ends_s = monotonic() + limit_s

    def check(self) -> None:
        """Raise an error if the answer is not wanted any more. Long work calls this between its steps."""

    @property
    def is_over(self) -> bool:
        """True once so much time has passed."""
        return monotonic() > self._ends_s

    def is_lost(self) -> bool:
        """Return the same, for what asks now and then if it is to stop."""
        return self.is_over


class Looks:
    """The looks for one size, or for sizes that take as long. Any thread may use it."""

    def __init__(self) -> None:
        self._again_s = 0.0

    @property
    def are_resting(self) -> bool:
        """True if a look took too long a moment ago."""
        return monotonic() < self._again_s

    def begin(self) -> Patience:
        """Return the patience of the next look, which is over already if one took too long a moment ago."""
        return Patience(-1.0 if self.are_resting else LOOK_S)

    def end(self, patience: Patience) -> None:
        """Note a look that did not find the size. If it ran out of time, the next ones have none for a while."""
        if patience.is_over and patience.was_given:
            self._again_s = monotonic() + REST_S
