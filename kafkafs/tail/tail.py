"""All partitions that some paths mean, followed together, in the order in which they have something to print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.tail.beginnings import From
from kafkafs.tail.followed_partition import FollowedPartition
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from kafkafs.find.matching import Matching
    from kafkafs.library.context import Context
    from kafkafs.tail.beginnings import Beginning
    from kafkafs.tail.targets import Followed, Target
    from storage.log_dir import Inventory
    from storage.record import Record

    Form: TypeAlias = Callable[[Followed], Callable[[Record], bytes]]  # of the records of a partition

_FROM_START = From(1)


class Tail:
    """The partitions that targets match now, from a beginning on, and those that come later, from their starts.

    A log that cannot be read any further is left, and told to `report` with the reason; the others are followed all
    the same. `failures` are so many.
    """

    def __init__(
        self,
        context: Context,
        targets: Sequence[Target],
        form: Form,
        beginning: Beginning,
        matching: Matching | None,
        report: Callable[[Exception], None],
    ) -> None:
        self.failures = 0
        self._context = context
        self._targets = targets
        self._form = form
        self._matching = matching
        self._report = report
        self._inventory: Inventory | None = None
        self._partitions: dict[Followed, FollowedPartition] = {}
        self._left: set[Followed] = set()
        self._take_in(beginning)

    @property
    def records(self) -> int:
        """How many records were printed so far."""
        return sum(each.records for each in self._partitions.values())

    @property
    def is_over(self) -> bool:
        """True if every log was left because it cannot be read any further."""
        return bool(self._left) and len(self._left) == len(self._partitions)

    def look(self) -> Iterator[Iterator[bytes]]:
        """Yield for one partition after another the new lines since the last look, each to be read at once."""
        self._context.store.look_again()
        self._take_in(_FROM_START)
        for followed, partition in self._partitions.items():
            if followed not in self._left:
                yield self._guarded(followed, partition)

    def _take_in(self, beginning: Beginning) -> None:
        inventory = self._context.store.topics.inventory
        if inventory is not self._inventory:
            for target in self._targets:
                for followed in target.matches(inventory):
                    if followed not in self._partitions:
                        self._partitions[followed] = FollowedPartition(
                            self._context,
                            followed,
                            self._form(followed),
                            beginning=beginning,
                            matching=self._matching,
                        )
            self._inventory = inventory

    def _guarded(self, followed: Followed, partition: FollowedPartition) -> Iterator[bytes]:
        try:
            yield from partition.new()
        except (StorageError, OSError) as error:
            self.failures += 1
            self._left.add(followed)
            self._report(error)
