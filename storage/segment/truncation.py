"""The place in a segment where its log may have been truncated since the segment began, as its batches tell.

A leader makes a follower truncate its log where the follower has records that the leader does not have. The leader's
records follow, and their leader epoch differs from the one before. So a log without such a change was not truncated,
except perhaps at its end, where no records have followed yet.

In three cases any place counts: batches without an epoch, as before Kafka 0.11; damage; and an epoch that is missing
between two others. The missing epoch's leader may have written records that were all truncated, so that the leader
before it seems to have gone on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.record.layout import NO_LEADER_EPOCH, NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.record.reading import Batch


class EarliestTruncation:
    """The first place of a segment at which its log may have been truncated; add its batches once, in order.

    A segment that `begins_epoch` may have been truncated to nothing.
    """

    def __init__(self, base_offset: int, *, begins_epoch: bool) -> None:
        self._base_offset = base_offset
        self._epoch: int | None = None
        self._largest = NO_TIMESTAMP
        self._place: tuple[int, int, int] | None = None  # offset, position, and the largest timestamp before
        if begins_epoch:
            self.lose()

    def add(self, batch: Batch, first_offset: int) -> None:
        """Add the next batch."""
        if self._place is not None:
            return
        epoch = batch.leader_epoch
        if epoch == NO_LEADER_EPOCH or (self._epoch is not None and epoch == self._epoch + 1):
            self._place = first_offset, batch.position, self._largest
        elif self._epoch is not None and epoch != self._epoch:
            self.lose()
        self._epoch = epoch
        self._largest = max(self._largest, batch.max_timestamp)

    def lose(self) -> None:
        """Record that the next batch is unknown, so that the log may have been truncated anywhere."""
        self._place = self._base_offset, 0, NO_TIMESTAMP

    def end(self, offset: int, position: int) -> None:
        """Record that the log ends there."""
        if self._place is None:
            self._place = offset, position, self._largest

    def explains(self, offset: int, *, position: int | None = None, timestamp: int | None = None) -> bool:
        """Return True if an index entry may come from before a truncation, by the batches added so far."""
        if self._place is None:
            return False
        first_offset, first_position, largest = self._place
        is_after = position is None or position >= first_position
        return is_after and offset >= first_offset and (timestamp is None or timestamp >= largest)
