"""Hostile stores: each case is a store that kafkafs made and somebody then changed on the disk, by one function.

    case = CASES["links in a partition"]
    store = case.make(directory, Scale.SAMPLE)

Besides what the case changes, each store has the topic `sound`, which nothing happens to, and each function gets a
directory `outside` beside the store, in which nothing may be touched. `runs` drives commands and mounts over a store.
"""

from __future__ import annotations

from hostile.bombs import BOMB_CASES
from hostile.commits import COMMIT_CASES
from hostile.files import FILE_CASES
from hostile.numbers import NUMBER_CASES
from hostile.store import Case, HostileStore, Scale

__all__ = ["CASES", "Case", "HostileStore", "Scale"]

CASES: dict[str, Case] = {
    case.name: case for cases in (FILE_CASES, NUMBER_CASES, COMMIT_CASES, BOMB_CASES) for case in cases
}
"""Every case by its name."""
