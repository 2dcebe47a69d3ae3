"""How a run over `MemoryFiles` is cut short, at which step and by what.

- *The process dies*: the step did not happen, or a write happened in part, and everything before it stays.
- *The disk is full* or *fails*: the step raises `OSError`, a write having happened in part; the process goes on.
- *An exception comes* that has nothing to do with the disk, before the step or once it has happened; the process goes
  on. It is a `MemoryError` or, of what is no `Exception`, an `InterruptError`.

A loss of power is a death after which `MemoryFiles.after_power_loss` says what is left.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class CutError(BaseException):
    """The process has died. Nothing that storage catches."""


class InterruptError(BaseException):
    """What may come at any time, as a `KeyboardInterrupt` does."""


class Effect(enum.Enum):
    """What happens at the step where a run is cut."""

    DEATH = enum.auto()
    DISK_FULL = enum.auto()
    DISK_ERROR = enum.auto()
    BREAK_BEFORE = enum.auto()
    BREAK_AFTER = enum.auto()


DISK_EFFECTS: Final = (Effect.DISK_FULL, Effect.DISK_ERROR)
BREAKS: Final = (Effect.BREAK_BEFORE, Effect.BREAK_AFTER)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a run is cut, counting steps from 0, and how; the seed decides how much of a write happens."""

    step: int
    effect: Effect = Effect.DEATH
    seed: int = 0

    def break_error(self) -> MemoryError | InterruptError:
        """The exception that comes; which one, the seed decides."""
        return InterruptError() if self.seed % 2 else MemoryError("a test has taken it all")
