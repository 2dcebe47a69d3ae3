"""Searching many logs of a store: one after another or merged by time, counted, cut short, with neighbours.

A log that cannot be read to its end is reported, with what was found before, and the others are searched all the same.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkafs.find.neighbours import with_neighbours
from kafkafs.find.search import Reach, Search
from storage.errors import StorageError, UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from kafkafs.damage import Damage
    from kafkafs.find.query import Query
    from kafkafs.locator.times import Time
    from storage.log import Isolation
    from storage.log_dir import Partition
    from storage.record import Record
    from storage.store import Store

    Line: TypeAlias = tuple[int, bytes]  # a record's timestamp, and what is printed of it
    Form: TypeAlias = Callable[[str, int], Callable[[Record], bytes]]  # of the records of a partition

T = TypeVar("T")


class Scope(NamedTuple):
    """The records that are searched: between two times as of `now_ms`, and those that a reader at a level sees."""

    since: Time | None
    until: Time | None
    isolation: Isolation
    now_ms: int


class StoreSearch:
    """One search of logs of a store.

    `matches` is how many records were found so far, `failures` how many logs could not be read to their ends. `report`
    is called with the reason of each, and with damage that is skipped.
    """

    def __init__(
        self, store: Store, query: Query, scope: Scope, damage: Damage, report: Callable[[Exception], None]
    ) -> None:
        self.matches = 0
        self.failures = 0
        self._store = store
        self._scope = scope
        self._search = Search(query, damage, report)
        self._report = report

    def count(self, partitions: Sequence[Partition]) -> int:
        """Return how many records match in all of the partitions: as many as `lines` yields."""
        for partition in partitions:
            for number in self._guarded(partition, self._search.counts):
                self.matches += number
        return self.matches

    def lines(
        self,
        partitions: Sequence[Partition],
        form: Form,
        *,
        by_time: bool = False,
        first: int | None = None,
        before: int = 0,
        after: int = 0,
    ) -> Iterator[bytes]:
        """Yield the lines of the records that match, up to the first so many, and of their neighbours."""

        def of(partition: Partition) -> Iterator[Line]:
            line = form(*partition)

            def found(reach: Reach) -> Iterator[Line]:
                records: Iterable[Record] = self._counted(self._search.records(reach), None if by_time else first)
                if before or after:
                    records = with_neighbours(reach, records, before, after)
                return ((record.timestamp, line(record)) for record in records)

            return self._guarded(partition, found)

        streams = map(of, partitions)
        if by_time:
            yield from (text for _, text in islice(merge(*streams, key=itemgetter(0)), first))
            return
        for stream in streams:
            yield from (text for _, text in stream)
            if first is not None and self.matches >= first:
                return

    def _counted(self, records: Iterator[Record], first: int | None) -> Iterator[Record]:
        for record in records:
            self.matches += 1
            yield record
            if first is not None and self.matches >= first:
                return

    def _guarded(self, partition: Partition, ask: Callable[[Reach], Iterator[T]]) -> Iterator[T]:
        """Yield the answers about a partition. One that is deleted meanwhile has none."""
        scope = self._scope
        try:
            view = self._store.log(*partition).view
            yield from ask(Reach.between(view, scope.since, scope.until, scope.isolation, scope.now_ms))
        except UnknownPartitionError:
            return
        except (StorageError, OSError) as error:
            self.failures += 1
            self._report(error)
