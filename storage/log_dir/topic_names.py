"""What a topic may be called, and which names a broker cannot tell apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from storage.errors import InvalidTopicError, TopicExistsError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME_CHARACTERS_MAX: Final = 249
CLUSTER_METADATA: Final = "__cluster_metadata"
"""The log of a KRaft cluster about itself, which is laid out as a topic and belongs to its controllers."""
COMPACTED_BY_BROKERS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that brokers keep their own books in, and always compact."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_DOTS: Final = frozenset({".", ".."})


def is_topic_name(text: str) -> bool:
    """Whether a topic can have this name."""
    return len(text) <= NAME_CHARACTERS_MAX and _NAME.fullmatch(text) is not None and text not in _DOTS


def check_new_topic(name: str, existing: Iterable[str]) -> None:
    """Raise `InvalidTopicError` unless a topic of this name can be made beside those that exist."""
    if not name or name in _DOTS or len(name) > NAME_CHARACTERS_MAX:
        raise InvalidTopicError(
            f"{name!r} cannot be the name of a topic: it must have from 1 to {NAME_CHARACTERS_MAX} characters "
            "and be neither '.' nor '..'"
        )
    if not _NAME.fullmatch(name):
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
