"""Cutting a run over `MemoryFiles` short: the step, and the fault.

- *The process dies*: the step did not happen, or a write happened in part, and everything before it stays.
- *The disk is full* or *fails*: the step raises `OSError`, a write having happened in part; the process goes on.
- *An exception is raised* that has nothing to do with the disk, before the step or right after it; the process goes on.
  It is a `MemoryError`, or an `InterruptError`, which is no `Exception`.

A loss of power is a death after which `MemoryFiles.after_power_loss` gives the files that are left.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class CutError(BaseException):
    """The process has died. Storage never catches this."""


class InterruptError(BaseException):
    """An exception that may come at any time, as a `KeyboardInterrupt` does."""


class Effect(enum.Enum):
    """The fault at the step where a run is cut."""

    DEATH = enum.auto()
    DISK_FULL = enum.auto()
    DISK_ERROR = enum.auto()
    BREAK_BEFORE = enum.auto()
    BREAK_AFTER = enum.auto()


DISK_EFFECTS: Final = (Effect.DISK_FULL, Effect.DISK_ERROR)
BREAKS: Final = (Effect.BREAK_BEFORE, Effect.BREAK_AFTER)


@dataclass(frozen=True, slots=True)
class Cut:
    """The step at which a run is cut, from 0, and the fault; the seed decides how much of a write happens."""

    step: int
    effect: Effect = Effect.DEATH
    seed: int = 0

    def break_error(self) -> MemoryError | InterruptError:
        """The exception to raise, chosen by the seed."""
        return InterruptError() if self.seed % 2 else MemoryError("a test lets memory run out")
