"""Names in a log directory: of topics, and of the directories of their partitions.

`orders-0` is a partition. With an id and a suffix after that it is one that is being deleted, a stray, or a copy on its
way from another log directory.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import InvalidTopicError, TopicExistsError

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUSTER_METADATA: Final = "__cluster_metadata"
"""The log of a KRaft cluster about itself, which is laid out as a topic and belongs to its controllers."""
COMPACTED_BY_BROKERS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that brokers keep their own books in, and always compact."""
BROKERS_OWN: Final = COMPACTED_BY_BROKERS | {CLUSTER_METADATA}
"""Topics that clients only read: a broker refuses to append to them and to delete their records."""

_TOPIC_CHARACTERS_MAX: Final = 249
_DIRECTORY_CHARACTERS_MAX: Final = 255
_PARTITION_MAX: Final = 2**31 - 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_DOTS: Final = frozenset({".", ".."})


class DirectoryState(StrEnum):
    """The suffix of a partition's directory, which says what becomes of it."""

    CURRENT = ""
    DELETE = "-delete"  # to be removed
    STRAY = "-stray"  # of a topic that the broker's cluster does not have, or has elsewhere
    FUTURE = "-future"  # to stand in for the one in another log directory, once it has all of its records

    @property
    def is_recovered(self) -> bool:
        """True if a broker recovers such a directory when it starts: all but those that are to be removed."""
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
        return name._replace(topic=self.topic[: _DIRECTORY_CHARACTERS_MAX - len(name._behind_topic())])

    def _behind_topic(self) -> str:
        behind_partition = f".{self.unique_id}{self.state}" if self.state else ""
        return f"-{self.partition}{behind_partition}"


def parse_directory_name(name: str) -> DirectoryName | None:
    """Parse the name of a directory in a log directory; None if no partition is called so."""
    match = _NAME.fullmatch(name)
    if match is None or not is_topic_name(match[1]) or int(match[2]) > _PARTITION_MAX:
        return None
    return DirectoryName(match[1], int(match[2]), DirectoryState(match[4] or ""), match[3] or "")


def is_topic_name(text: str) -> bool:
    """True if a topic can have this name."""
    return len(text) <= _TOPIC_CHARACTERS_MAX and _TOPIC.fullmatch(text) is not None and text not in _DOTS


def check_new_topic(name: str, existing: Iterable[str]) -> None:
    """Raise `InvalidTopicError` unless a topic of this name can be made beside those that exist."""
    if not name or name in _DOTS or len(name) > _TOPIC_CHARACTERS_MAX:
        raise InvalidTopicError(
            f"{name!r} cannot be the name of a topic: it must have from 1 to {_TOPIC_CHARACTERS_MAX} characters "
            "and be neither '.' nor '..'"
        )
    if not _TOPIC.fullmatch(name):
        raise InvalidTopicError(
            f"{name!r} cannot be the name of a topic: it may have ASCII letters, digits, '.', '_' and '-' only"
        )
    for other in existing:
        if other == name:
            raise TopicExistsError(f"there is a topic {name} already")
        if _metric_name(other) == _metric_name(name):
            raise TopicExistsError(
                f"{name} collides with the topic {other}: in the names of a broker's metrics, '.' and '_' are the same"
            )


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")
