"""The aborted transactions of files that may leave a log, for when their indexes are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log import Isolation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkafs.content.counted_file import CountedFile
    from kafkafs.content.seen import Seen, SeenFile
    from storage.segment.index import AbortedTransaction


class KnownAborted:
    """The aborted transactions in files of one log that its followers may want; none where they are shown."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._known: dict[CountedFile, Sequence[AbortedTransaction]] = {}

    def know(self, seen: Seen, file: SeenFile) -> None:
        """Load the aborted transactions of a file of the view, once all of it is decided."""
        if self._isolation is Isolation.UNCOMMITTED or file.counted in self._known:
            return
        number = seen.number_of(file.counted)
        if number is not None and number + 1 < len(seen.files):
            base_offset, end_offset = file.counted.base_offset, seen.files[number + 1].counted.base_offset
            if end_offset <= seen.end_offset:
                self._known[file.counted] = seen.view.aborted(base_offset, end_offset)

    def forget(self, wanted: Collection[CountedFile]) -> None:
        """Forget that of all files but these."""
        for counted in [counted for counted in self._known if counted not in wanted]:
            del self._known[counted]

    def of(self, seen: Seen, file: SeenFile) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions of a file that has left the log."""
        if self._isolation is Isolation.UNCOMMITTED:
            return ()
        known = self._known.get(file.counted)
        return seen.view.aborted(file.counted.base_offset, seen.end_offset) if known is None else known
