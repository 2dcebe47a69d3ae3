"""What a partition's directory is called, and what a name in a log directory says.

`orders-0` is a partition; with an id and a suffix behind it, it is one that is being deleted, that a broker does not
own, or that is being copied here from another log directory.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

from storage.log_dir.topic_names import is_topic_name

NAME_CHARACTERS_MAX: Final = 255
_PARTITION_MAX: Final = 2**31 - 1


class DirectoryState(StrEnum):
    """The suffix of a partition's directory, which says what becomes of it."""

    CURRENT = ""
    DELETE = "-delete"  # to be removed
    STRAY = "-stray"  # of a topic that the broker's cluster does not have, or has elsewhere
    FUTURE = "-future"  # to stand in for the one in another log directory, once it has all of its records

    @property
    def is_recovered(self) -> bool:
        """Whether a broker recovers such a directory when it starts: all but those that are to be removed."""
        return self is not DirectoryState.DELETE


_STATES: Final = "|".join(state for state in DirectoryState if state)
# Brokers take any unique id; they split what is before it at the last dash.
_NAME: Final = re.compile(rf"(.+)-(0|[1-9][0-9]{{0,9}})(?:\.([^.\s]+)({_STATES}))?", re.DOTALL)


class DirectoryName(NamedTuple):
    """The name of a partition's directory, taken apart.

    The topic of one that is deleted or stray may lack its end, which long names lose to the suffix.
    """

    topic: str
    partition: int
    state: DirectoryState = DirectoryState.CURRENT
    unique_id: str = ""

    def __str__(self) -> str:
        return f"{self.topic}{self._behind_topic()}"

    def becoming(self, state: DirectoryState, unique_id: str) -> DirectoryName:
        """The same directory in another state; a broker cuts the topic where the name gets too long, but for a copy."""
        name = DirectoryName(self.topic, self.partition, state, unique_id)
        if state is DirectoryState.FUTURE:
            return name
        return name._replace(topic=self.topic[: NAME_CHARACTERS_MAX - len(name._behind_topic())])

    def _behind_topic(self) -> str:
        behind_partition = f".{self.unique_id}{self.state}" if self.state else ""
        return f"-{self.partition}{behind_partition}"


def parse_directory_name(name: str) -> DirectoryName | None:
    """What the name of a directory in a log directory says; None if no partition is called so."""
    match = _NAME.fullmatch(name)
    if match is None or not is_topic_name(match[1]) or int(match[2]) > _PARTITION_MAX:
        return None
    return DirectoryName(match[1], int(match[2]), DirectoryState(match[4] or ""), match[3] or "")
