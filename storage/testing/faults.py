"""How a run over `MemoryFiles` is cut short, at which step and by what.

- *The process dies*: the step did not happen, or a write happened in part, and everything before it stays.
- *The disk is full* or *fails*: the step raises `OSError`, a write having happened in part; the process goes on.

A loss of power is a death after which `MemoryFiles.after_power_loss` says what is left.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class CutError(BaseException):
    """The process has died. Nothing that storage catches."""


class Effect(enum.Enum):
    """What happens at the step where a run is cut."""

    DEATH = enum.auto()
    DISK_FULL = enum.auto()
    DISK_ERROR = enum.auto()


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a run is cut, counting steps from 0, and how; the seed decides how much of a write happens."""

    step: int
    effect: Effect = Effect.DEATH
    seed: int = 0
