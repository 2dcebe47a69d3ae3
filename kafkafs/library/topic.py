"""One topic of an open store."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import index
from typing import TYPE_CHECKING, Literal, SupportsIndex

from kafkafs.library.following import Follower, followed
from kafkafs.library.merging import merged
from kafkafs.library.partition import Partition
from kafkafs.library.selection import parse_offset
from storage.errors import UnknownPartitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafkafs.library.context import Context
    from kafkafs.library.record import Record
    from kafkafs.library.selection import Offsets, Times


class Topic(Mapping[int, Partition]):
    """A topic: `store["orders"]`, a mapping of the numbers of the partitions that the store has now to them.

    It reads as its partitions do, and each range is that of every partition.
    """

    def __init__(self, context: Context, name: str) -> None:
        self.name = name
        self._context = context

    def __repr__(self) -> str:
        return f"<kafkafs.Topic {self.name}>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getitem__(self, number: int) -> Partition:
        numbers = self._numbers()
        if number not in numbers:
            raise UnknownPartitionError(f"the topic {self.name} has no partition {number!r}")
        return Partition(self._context, self.name, numbers[numbers.index(number)])

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers())

    def __len__(self) -> int:
        return len(self._numbers())

    def _numbers(self) -> list[int]:
        self._context.store.look_again()
        return sorted(self._context.store.topics.partitions(self.name))

    def records(
        self,
        *,
        offsets: Offsets | None = None,
        times: Times | None = None,
        order: Literal["partition", "time"] = "partition",
    ) -> Iterator[Record]:
        """Iterate over the records of a range, partition after partition, or merged by their timestamps.

        The records of a partition stay in the order of its log, so a merge is in the order of time as far as they are.
        A merge holds up to 64 MiB of records, and at least 16 KiB or a record of each partition.
        """
        if order not in ("partition", "time"):
            raise ValueError(f"{order!r} is no order: it is 'partition' or 'time'")
        partitions = list(self.values())
        if order == "time":
            return merged([(each.reader, each.reader.range(offsets, times)) for each in partitions])
        return chain.from_iterable([each.records(offsets=offsets, times=times) for each in partitions])

    def to_batches(
        self, *, offsets: Offsets | None = None, times: Times | None = None, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return the records of a range as Arrow record batches, partition after partition."""
        from kafkafs.library.columns import ALL_COLUMNS, record_batches

        ranges = [(each.reader, each.reader.range(offsets, times)) for each in self.values()]
        return record_batches(self._context, ranges, ALL_COLUMNS if columns is None else columns)

    def to_arrow(
        self, *, offsets: Offsets | None = None, times: Times | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the records of a range as an Arrow table, all in memory."""
        return self.to_batches(offsets=offsets, times=times, columns=columns).read_all()

    def follow(
        self,
        offsets: Mapping[int, int] | None = None,
        *,
        timeout: float | None = None,
        fail_on_data_loss: bool = True,
    ) -> Iterator[Record]:
        """Iterate over the records of every partition from its offset on, or from the ends now, and those that come.

        `offsets` are where to go on, by partition; a partition that it does not name is read from its start, also one
        that comes later. All else is as of a partition's `follow`.
        """
        followers: dict[int, Follower] = {}

        def begin(number: int, partition: Partition, offset: int) -> None:
            followers[number] = Follower(partition.reader, offset, fails=fail_on_data_loss)

        named = {} if offsets is None else _places(offsets)
        for number, partition in self.items():
            start = partition.end_offset if offsets is None else named.get(number, partition.start_offset)
            begin(number, partition, start)

        def current() -> Sequence[Follower]:
            for number in self._numbers():
                if number not in followers:
                    partition = self[number]
                    begin(number, partition, named.get(number, partition.start_offset))
            return list(followers.values())

        return followed(self._context, current, timeout)


def _places(offsets: Mapping[int, int]) -> dict[int, int]:
    """Return the offsets to go on at, by partition; raise `TypeError` or `ValueError` for what is none."""
    if not isinstance(offsets, Mapping):
        raise TypeError(f"a topic is followed from a mapping of partitions to offsets, not {type(offsets).__name__}")
    for number in offsets:
        if not isinstance(number, SupportsIndex):
            raise TypeError(f"a partition is an int, not {number!r}, so its offset would be passed over")
    return {index(number): parse_offset(offset) for number, offset in offsets.items()}
