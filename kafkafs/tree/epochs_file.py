"""`leader-epochs`: the leader epochs of the log, and where each begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.tab_separated import tab_separated

if TYPE_CHECKING:
    from storage.log import LogView

_EPOCHS_MAX: Final = 50_000
"""Of how many epochs a `stat` prints the table to tell its size."""


class EpochsFile(LogFact):
    """A table with a line for each leader epoch that is known, and the offset at which it begins.

    Its size is unknown if there are very many epochs.
    """

    def text(self, _view: LogView) -> bytes:
        """Return the table, without lines for a log from before leader epochs."""
        return tab_separated(("epoch", "startOffset"), self._source.log.epochs.entries)

    def size_bytes(self, view: LogView) -> int | None:
        """Return the size, unless that takes longer than a `stat` may."""
        return None if self.takes_long() else super().size_bytes(view)

    def takes_long(self) -> bool:
        """True if there are very many epochs."""
        return len(self._source.log.epochs.entries) > _EPOCHS_MAX
