"""`leader-epochs`: which leaders wrote the log, and from where on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tree.log_fact import LogFact
from kafkafs.tree.tab_separated import tab_separated

if TYPE_CHECKING:
    from storage.log import LogView


class EpochsFile(LogFact):
    """A table with a line for each leader epoch that is known, and the offset at which it begins."""

    def text(self, _view: LogView) -> bytes:
        """The table; a log of a time without leader epochs has none."""
        return tab_separated(("epoch", "startOffset"), self._source.log.epochs.entries)
