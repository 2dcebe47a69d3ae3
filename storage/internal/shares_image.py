"""The state that the records of `__share_group_state` build up: the progress of share groups in partitions.

`SharesImage.apply` takes the records of one partition of the topic in the order of their offsets. All records about a
group and a partition are in one partition of the topic, so images of several add up. Decoding is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.internal.measuring import table_bytes

if TYPE_CHECKING:
    from uuid import UUID

    from storage.internal.outcome import Fields

SharePartition = tuple[str, "UUID", int]
"""A group, and a partition by its topic's id and its number."""

_SNAPSHOT: Final = "ShareSnapshot"
_UNSET: Final = -1


class ShareStart(NamedTuple):
    """The offset from which a share group has records left to process, by its coordinator.

    `start_offset` is -1 before the group has read anything. `delivered` counts the records after it that are done
    already; it is -1 if a broker before 4.2 wrote the state.
    """

    start_offset: int
    delivered: int


@dataclass(slots=True)
class SharesImage:
    """The states in one partition of `__share_group_state`, up to `end_offset`."""

    starts: dict[SharePartition, ShareStart] = field(default_factory=dict)
    end_offset: int = 0

    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        return table_bytes(self.starts)

    def apply(self, name: str, key: Fields, value: Fields | None, offset: int) -> None:
        """Apply the next record: `name` is its schemas' without `Key` and `Value`; no value is a tombstone.

        An update without a start offset leaves the known one.
        """
        self.end_offset = offset + 1
        partition = key["groupId"], key["topicId"], key["partition"]
        if value is None:
            self.starts.pop(partition, None)
            return
        start_offset = value["startOffset"]
        known = self.starts.get(partition)
        if name != _SNAPSHOT and start_offset == _UNSET and known is not None:
            start_offset = known.start_offset
        self.starts[partition] = ShareStart(start_offset, value["deliveryCompleteCount"])
