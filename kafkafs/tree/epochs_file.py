"""`leader-epochs`: the leader epochs of the log, and where each begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.tab_separated import tab_separated

if TYPE_CHECKING:
    from storage.log import LogView


class EpochsFile(LogFact):
    """A table with a line for each leader epoch that is known, and the offset at which it begins."""

    def text(self, _view: LogView) -> bytes:
        """Return the table, without lines for a log from before leader epochs."""
        return tab_separated(("epoch", "startOffset"), self._source.log.epochs.entries)
