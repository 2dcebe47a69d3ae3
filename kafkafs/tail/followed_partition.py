"""One partition that is followed: what it has to print, look after look."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from kafkafs.library.following import Follower
from kafkafs.library.reading import LogReader
from kafkafs.tail.beginnings import From
from storage.errors import LogChangedError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.find.matching import Matching
    from kafkafs.library.context import Context
    from kafkafs.tail.beginnings import Beginning
    from kafkafs.tail.targets import Followed
    from storage.record import Record


class FollowedPartition:
    """The records of a partition from a beginning on, each as a line; with `matching` only those that match.

    Rolls, compactions and moves change nothing. What is deleted unread, or cut off after it was read, is a warning in
    the log, and following goes on where the log does: from its start if another topic has the name.
    """

    def __init__(
        self,
        context: Context,
        followed: Followed,
        line: Callable[[Record], bytes],
        *,
        beginning: Beginning,
        matching: Matching | None,
    ) -> None:
        records_of = None if matching is None else matching.records
        self._reader = LogReader(context, followed.topic, followed.partition, records_of=records_of)
        self._line = line
        self._beginning = beginning
        self._left_out = beginning.number - 1 if isinstance(beginning, From) else 0
        self._follower: Follower | None = None
        self.records = 0

    def new(self) -> Iterator[bytes]:
        """Yield the lines of the records that were appended since the last call.

        Nothing comes of a partition that is away, and what changes faster than it can be read comes later. Raises
        `CorruptBatchError` at damage, after the records before it.
        """
        try:
            if self._follower is None:
                self._follower = Follower(self._reader, self._beginning.offset(self._reader), fails=False)
            yield from map(self._line, self._counted(chain.from_iterable(self._follower.poll())))
        except (UnknownPartitionError, LogChangedError):
            return

    def _counted(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            if self._left_out:
                self._left_out -= 1
                continue
            self.records += 1
            yield record
