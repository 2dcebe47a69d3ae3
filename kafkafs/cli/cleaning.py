"""What the commands share that delete and compact: what they open, which partitions, and the names of fields."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from storage.clock import Clock
from storage.files import Files
from storage.store.server_properties import read_server_properties
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.store.checkpoints import Partition

_LEFT_OUT = frozenset({"device", "inode"})  # which tell files apart as long as they are there, and nobody else


server_properties_option = click.option(
    "--server-properties",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A broker's settings, which hold where a topic says nothing.",
)


def opened_store(paths: Sequence[Path], server_properties: Path | None, *, is_changed: bool) -> Store:
    """The store with the settings of a broker, if there are such: open for writing if it is to be changed."""
    files = Files()
    return Store.open(
        paths,
        mode=Mode.READ_WRITE if is_changed else Mode.READ_ONLY,
        files=files,
        clock=Clock(),
        broker_settings={} if server_properties is None else read_server_properties(files, server_properties),
    )


def chosen_partitions(store: Store, topics: Sequence[str]) -> list[Partition]:
    """The partitions of some topics, or of all if none are named; raises `UnknownPartitionError` for no topic."""
    names = dict.fromkeys(topics or store.topics.inventory.topics)
    return [(topic, partition) for topic in names for partition in store.topics.partitions(topic)]


def counted(number: int, what: str) -> str:
    """A number of things, for people."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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
