"""What the commands share that delete and compact: which partitions, and how a plan's fields are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.store.checkpoints import Partition
    from storage.store.store import Store

_LEFT_OUT = frozenset({"device", "inode"})  # which tell files apart as long as they are there, and nobody else


def chosen_partitions(store: Store, topics: Sequence[str]) -> list[Partition]:
    """The partitions of some topics, or of all if none are named; raises `UnknownPartitionError` for no topic."""
    names = dict.fromkeys(topics or store.topics.inventory.topics)
    return [(topic, partition) for topic in names for partition in store.topics.partitions(topic)]


def row_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan or a report says of itself, under the names that fields have in every row of ours."""
    return {camel(key): _value(value) for key, value in said.items() if key not in _LEFT_OUT}


def camel(name: str) -> str:
    """A field's name as it is in the envelope; what is counted in bytes alone is called so."""
    first, *others = name.removeprefix("size_").split("_")
    return first + "".join(word.capitalize() for word in others)


def _value(value: object) -> object:
    if isinstance(value, dict):
        return row_of(value)
    return [_value(each) for each in value] if isinstance(value, list | tuple) else value
