"""Which directories a path lies in, whichever links lead there.

What is made from a store may not lie in it: no broker starts on a log directory with another store in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from storage.files import Directory, Files

Home = TypeVar("Home")


class Place(NamedTuple):
    """A directory that is there, and its identity."""

    directory: Directory
    identity: tuple[int, int]


def places_above(files: Files, path: Path) -> Iterator[Place]:
    """Yield the directory at a path and all that it lies in, as far as they are there, the innermost first."""
    real = Path(os.path.realpath(path))
    for place in (real, *real.parents):
        directory = files.directory(place)
        status = directory.own_status()
        if status is not None and status.is_directory:
            yield Place(directory, status.identity)


def home_of(files: Files, path: Path, homes: Mapping[tuple[int, int], Home]) -> Home | None:
    """Return which of these, by the identities of their directories, a path is or lies in; None if it is in none."""
    return next((homes[place.identity] for place in places_above(files, path) if place.identity in homes), None)
