"""The open store that its topics and partitions share."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.clock import Clock
    from storage.files import Files
    from storage.log import Isolation
    from storage.store import Store


@dataclass(frozen=True, slots=True)
class Context:
    """An open store, and how it is read. `closed` is set once the store is closed, which ends every follower."""

    store: Store
    files: Files
    clock: Clock
    isolation: Isolation
    closed: Event = field(default_factory=Event)
    appending: dict[tuple[str, int], Lock] = field(default_factory=dict)
    """Held while a thread appends to a partition, so that the records of one call lie together."""
