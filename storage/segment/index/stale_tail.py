"""The end of an index that is of a log as it was before it was truncated.

A follower that truncates its log forgets the entries at and above that offset, but leaves them in the file: new entries
overwrite them one by one, and what is left goes when the segment rolls or closes. Until then the file holds entries of
the log as it is, and after them entries that point nowhere, or to batches that came in place of theirs. The broker does
not read those, and neither does it after a crash, when it builds the index again.

Readers of the file cannot tell where the broker has come to, so they believe no entry before they have looked at the
log where it points to.
"""

from __future__ import annotations


class StaleTail:
    """Parts entries that are told in their order, as right or wrong, where the fewest of them contradict the parting.

    Wrong entries before it are damage, and right ones after it mere coincidence: new batches of the same sizes. Of
    several places that are equally good it is the last, so that one wrong entry among right ones is damage.

    `begin` is where the first wrong entry after the parting lies; None if there is none.
    """

    begin: int | None = None

    def __init__(self) -> None:
        self._excess = 0  # of wrong entries over right ones since the parting

    def right(self) -> bool:
        """The next entry is right; says whether the wrong ones that were told so far are damage for sure."""
        self._excess = max(self._excess - 1, 0)
        if self._excess > 0:
            return False
        self.begin = None
        return True

    def wrong(self, at: int) -> None:
        """The next entry, which lies there, is wrong."""
        self._excess += 1
        if self.begin is None:
            self.begin = at
