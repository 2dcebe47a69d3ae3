"""The readers that have a rendered log open, and which of its files stay open for them."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from kafkafs.content.held_files import HELD_FILES_MAX, Wanted

if TYPE_CHECKING:
    from kafkafs.content.file_places import FilePlaces
    from kafkafs.content.positions import Positions
    from kafkafs.content.seen import Seen, SeenFile


class Follower(Protocol):
    """A descriptor."""

    position: int
    """Its next position, if that is known."""


class Followers:
    """The descriptors of one log in one form, by the positions that they read by. Any thread may use this."""

    def __init__(self, places: FilePlaces) -> None:
        self._places = places
        self._lock = Lock()  # held while followers change, and while files are chosen for them
        self._followers: dict[Positions, list[Follower]] = {}

    def enter(self, positions: Positions, follower: Follower) -> None:
        """Add a reader."""
        with self._lock:
            positions.is_followed = True
            self._followers.setdefault(positions, []).append(follower)

    def leave(self, positions: Positions, follower: Follower) -> None:
        """Remove a reader; harmless if it was not added."""
        with self._lock:
            others = self._followers.get(positions, [])
            if follower in others:
                others.remove(follower)
            if not others and self._followers.pop(positions, None) is not None:
                positions.is_followed = False
                self._places.hold(positions, ())

    def look(self, seen: Seen, newest: Positions) -> None:
        """Bring all positions up to a view, and hold the files of those that are followed."""
        with self._lock:
            if not self._followers:
                return
            wanted = []
            for positions in {newest: None, **self._followers}:
                with suppress(FileNotFoundError):  # their readers find a newer view
                    positions.extend(seen)
            for positions, followers in self._followers.items():
                files = positions.files(min(each.position for each in followers))[:HELD_FILES_MAX]
                self._places.know(seen, files)
                self._places.hold(positions, [_wanted(file, seen) for file in files if not file.counted.is_sealed])
                wanted += [file.counted for file in files]
            self._places.forget(set(wanted))


def _wanted(file: SeenFile, seen: Seen) -> Wanted:
    has_left = seen.number_of(file.counted) is None
    return Wanted(file.counted.identity, seen.newest(file).segment, file.end if has_left else 0)
