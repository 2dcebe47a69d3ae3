"""The store that hostile ones are made of, and what a case is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS: Final = 60
VALUE_BYTES: Final = 100
SECRET: Final = b"a secret that is no part of the store\n"
TERABYTE: Final = 2**40


class Scale(Enum):
    """How much a case takes: `SAMPLE` a second or less to make, `FULL` up to half a minute."""

    SAMPLE = 1
    FULL = 100

    def of(self, full: int) -> int:
        """Return a number for this scale, of the number at full scale."""
        return full if self is Scale.FULL else full // 100


@dataclass(frozen=True)
class HostileStore:
    """A store, and a directory outside of it. `victim` is the partition that cases change, of a topic of that name."""

    path: Path
    outside: Path

    @property
    def victim(self) -> Path:
        """The directory of the partition with the damage."""
        return self.path / "victim-0"

    @property
    def secret(self) -> Path:
        """A file outside the store."""
        return self.outside / "secret"

    @property
    def log(self) -> Path:
        """The victim's only segment."""
        return self.victim / f"{0:020}.log"

    def beside_log(self, suffix: str) -> Path:
        """Return the file of another kind of the victim's segment."""
        return self.log.with_suffix(suffix)


@dataclass(frozen=True)
class Case:
    """A named case. What it `changes` in a store happens when it is made; `kind` groups cases for a choice of some."""

    name: str
    kind: str
    changes: Callable[[HostileStore, Scale], None]

    def make(self, directory: Path, scale: Scale = Scale.SAMPLE) -> HostileStore:
        """Make the store in a directory, where nothing of that name may be yet."""
        store = sound_store(directory)
        self.changes(store, scale)
        return store


def sound_store(directory: Path) -> HostileStore:
    """Make a store of the topics `sound` and `victim`, closed properly, and files outside of it."""
    store = HostileStore(directory / "store", directory / "outside")
    store.outside.mkdir(parents=True)
    store.secret.write_bytes(SECRET)
    with Store.create([store.path], files=Files(), clock=Clock()) as opened:
        for topic in ("sound", "victim"):
            opened.topics.create(topic, 1)
            log = opened.log_to_write(topic, 0)
            for first in range(0, RECORDS, 10):
                rows = [
                    (Clock().now_ms(), b"key %d" % n, b"%d" % n * VALUE_BYTES, (("header", b"%d" % n),))
                    for n in range(first, first + 10)
                ]
                (batch,) = batches_of_rows(rows, base_offset=None)
                log.append_as_leader(batch, leader_epoch=0)
    return store
