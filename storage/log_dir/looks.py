"""Whether something that other processes change is still what it was at the last look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.clock import Clock

if TYPE_CHECKING:
    from storage.files import FileStatus

_COARSE_MS: Final = 20
"""How much later the clock of a file system may give a change the time of the one before: a tick is up to 10 ms."""


class Looks:
    """The looks at one file or directory, of which each is a status that was taken before its contents were read.

    Times are coarse: what was changed a moment ago may be changed once more without another time. So a status counts
    only once two looks in a row have found it, and its time has passed by the system's clock, which stamps files.
    """

    def __init__(self) -> None:
        self._found: FileStatus | None = None
        self._is_settled = False
        self._is_begun = False
        self._clock = Clock()  # the one that stamps files, whichever the store goes by

    def take(self, status: FileStatus | None) -> None:
        """Note the status from before the contents are read; None if nothing is there."""
        is_past = status is None or status.modified_ms + _COARSE_MS <= self._clock.now_ms()
        self._is_settled = self._is_begun and is_past and status == self._found
        self._found, self._is_begun = status, True

    def may_differ(self, status: FileStatus | None) -> bool:
        """True if the contents may be others than those of the last look, this being the status now."""
        return not self._is_settled or status != self._found
