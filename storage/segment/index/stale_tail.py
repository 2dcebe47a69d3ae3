"""The end of an index whose entries are of a log before its truncation.

A follower that truncates its log forgets the entries at and above that offset, but leaves them in the file: new entries
overwrite them one by one, and the rest goes when the segment rolls or closes. Until then the file holds entries of the
current log, and after them entries that point nowhere, or to batches that replaced theirs. The broker does not read
those, not even after a crash, when it builds the index again.

Readers of the file cannot tell where the broker's entries end, so they trust no entry before they have read the log
where it points to.
"""

from __future__ import annotations


class StaleTail:
    """Splits entries, added in order as right or wrong, where the fewest of them contradict the split.

    Wrong entries before it are damage, and right ones after it mere coincidence: new batches of the same sizes. Of
    several places that are equally good it is the last, so that one wrong entry among right ones is damage.

    `begin` is where the first wrong entry after the split lies; None if there is none.
    """

    begin: int | None = None

    def __init__(self) -> None:
        self._excess = 0  # of wrong entries over right ones since the split

    def right(self) -> bool:
        """Add a right entry; return True if the wrong entries added so far are certainly damage."""
        self._excess = max(self._excess - 1, 0)
        if self._excess > 0:
            return False
        self.begin = None
        return True

    def wrong(self, at: int) -> None:
        """Add a wrong entry, which lies at `at`."""
        self._excess += 1
        if self.begin is None:
            self.begin = at
