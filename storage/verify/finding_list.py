"""Findings of one look at a partition, in their order, of which a file that is wrong all over makes only so many."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from storage.verify.finding import Finding

KEPT_MAX: Final = 100
"""How many findings of a kind are kept of a file."""


class FindingList:
    """Takes findings; `all` are those that are kept, and one for each kind of which there were more."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, FindingKind]] = Counter()
        self._last: dict[tuple[str, FindingKind], Finding] = {}

    def add(self, finding: Finding) -> None:
        """Take one more. Of a symbolic link nothing else is told, and that it is one only once."""
        key = (finding.path, finding.kind)
        if self._counts[finding.path, FindingKind.SYMBOLIC_LINK]:
            return
        self._counts[key] += 1
        if self._counts[key] <= KEPT_MAX:
            self._kept.append(finding)
        else:
            self._last[key] = finding

    def extend(self, others: FindingList) -> None:
        """Take those of another list, as if they had been added here."""
        for finding in others._kept:
            self.add(finding)
        for key, finding in others._last.items():
            self._counts[key] += others._counts[key] - KEPT_MAX - 1
            self.add(finding)

    def all(self) -> list[Finding]:
        """What there is to tell."""
        more = [
            replace(finding, reason=f"{finding.reason}; the last of {self._counts[key] - KEPT_MAX} more like this")
            for key, finding in self._last.items()
        ]
        return [*self._kept, *more]
