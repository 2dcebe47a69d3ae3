"""Contenders timed in turn, so that a machine whose speed drifts is as kind to one as to the other."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROUNDS = 7


def medians_seconds(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    *,
    before: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Each contender's median CPU time over the rounds; `before` runs ahead of each, and does not count.

    Before it is timed, each runs once uncounted, so that all find caches and allocator as they leave them themselves.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in contenders.items():
                before()
                run()
                before()
                start = time.process_time()
                run()
                times[name].append(time.process_time() - start)
    finally:
        gc.enable()
    return {name: statistics.median(taken) for name, taken in times.items()}


class Scoreboard:
    """Prints a line for each comparison and keeps count of the targets missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def line(self, label: str, figures: str, ratio: float, target: float | None, unit: str = "x") -> None:
        """Print how a ratio stands to its target; a line without one is there for comparison."""
        shown = f"{ratio:.2f}x" if unit == "x" else f"{100 * ratio:.0f} %"
        goal = "" if target is None else f">= {target:g}x" if unit == "x" else f">= {100 * target:.0f} %"
        self._print(label, figures, shown, goal, is_met=None if target is None else ratio >= target)

    def at_least(self, label: str, figures: str, amount: float, target: float, unit: str) -> None:
        """Print how an amount stands to the smallest that will do."""
        self._print(label, figures, f"{amount:.3g} {unit}", f">= {target:g}", is_met=amount >= target)

    def at_most(self, label: str, figures: str, amount: float, target: float, unit: str) -> None:
        """Print how an amount stands to the largest that will do."""
        self._print(label, figures, f"{amount:.3g} {unit}", f"<= {target:g}", is_met=amount <= target)

    def _print(self, label: str, figures: str, shown: str, goal: str, *, is_met: bool | None) -> None:
        verdict = "" if is_met is None else "ok" if is_met else "MISSED"
        print(f"{label:<44} {figures:<58} {shown:>8} {goal:>9} {verdict}", flush=True)
        if verdict == "MISSED":
            self.missed.append(f"{label}: {shown}, {goal}")


def rate(size_bytes: int, seconds: float) -> str:
    """Return megabytes a second."""
    return f"{size_bytes / seconds / 1e6:.0f} MB/s"


def run_parts(parts: Mapping[str, Callable[[Scoreboard, Path], None]]) -> int:
    """Measure the parts that the command line names, or all, each in a folder of its own; returns the exit code."""
    board = Scoreboard()
    version = subprocess.run(["uname", "-sr"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{version}, {os.cpu_count()} cores; medians of wall time, contenders in turn")
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](board, Path(folder))
    for miss in board.missed:
        print(f"target missed: {miss}")
    return 1 if board.missed else 0
