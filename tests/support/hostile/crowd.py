"""A store of many hostile partitions beside a sound one."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING, Final

from hostile.bombs import (
    BOMB_RECORDS,
    CODECS,
    HEADERS,
    LEGACY_RECORDS,
    VALUE_BYTES,
    headers_batch,
    legacy_records,
    records_batch,
    value_batch,
)
from hostile.store import TERABYTE, sound_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hostile.store import HostileStore, Scale

CROWD_PREFIX: Final = "hostile-"
_BOMBS: Final = 3
_NOISE_BYTES: Final = 1024 * 1024
_SEGMENT: Final = f"{0:020}.log"


def crowded_store(directory: Path, partitions: int, scale: Scale) -> HostileStore:
    """Make a store with so many hostile topics of one partition, of each kind of bomb and file about as many."""
    store = sound_store(directory)
    makers = itertools.cycle(_segments(store, scale))
    for number in range(partitions):
        partition = store.path / f"{CROWD_PREFIX}{number}-0"
        partition.mkdir()
        next(makers)(partition / _SEGMENT)
    (store.path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return store


def _segments(store: HostileStore, scale: Scale) -> Iterator[Callable[[Path], object]]:
    """Yield what makes a segment at a path, once for each kind."""
    for codec in CODECS[1:]:
        for batch, full in ((headers_batch, HEADERS), (records_batch, BOMB_RECORDS), (value_batch, VALUE_BYTES)):
            bomb = batch(codec, scale.of(full))
            yield _holding(b"".join((number * full).to_bytes(8, "big") + bomb[8:] for number in range(_BOMBS)))
    yield _holding(legacy_records(1, CODECS[1], scale.of(LEGACY_RECORDS)))
    yield _holding(random.Random(1).randbytes(_NOISE_BYTES))
    yield os.mkfifo
    yield lambda path: path.symlink_to(store.secret)
    yield _terabyte


def _holding(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _terabyte(path: Path) -> None:
    path.touch()
    os.truncate(path, TERABYTE)
