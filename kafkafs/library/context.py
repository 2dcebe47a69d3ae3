"""The open store that its topics and partitions share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from threading import Event, Lock, get_ident
from typing import TYPE_CHECKING

from storage.errors import StoreLockedError
from storage.store import Mode

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
    process_id: int = field(default_factory=os.getpid)
    appending: dict[tuple[str, int], Turn] = field(default_factory=dict)
    """Held while a thread appends to a partition, so that the records of one call lie together."""

    @property
    def is_anothers(self) -> bool:
        """True if another process opened the store for writing, and this one is forked from it."""
        return self.store.mode is Mode.READ_WRITE and self.process_id != os.getpid()

    def check_process(self) -> None:
        """Raise `StoreLockedError` if another process writes the store: this one knows of no record that it appends."""
        if self.is_anothers:
            raise StoreLockedError(
                f"process {self.process_id}, from which this one is forked, has it open for writing: open it here",
                path=self.store.log_dirs[0].path,
            )


class Turn:
    """A lock that refuses the thread which holds it, where that would wait for itself."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        if self._holder == get_ident():
            raise RuntimeError("rows that are being appended to a partition cannot append to it themselves")
        self._lock.acquire()
        self._holder = get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = None
        self._lock.release()
