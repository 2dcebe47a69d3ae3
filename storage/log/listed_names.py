"""The names in the directory of a log that others change, listed at each look.

A directory may have a million names. Those of one that large are listed again only if its time has changed since. A
partition of too many segments is refused as long; if its last change was a moment ago, it is listed once more when that
was two seconds ago.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from storage.errors import TooManySegmentsError
from storage.files import check_may_list
from storage.log.epochs import EPOCHS_NAME
from storage.log.partition_metadata import PARTITION_METADATA_NAME
from storage.segment.names import check_few_segments, parse_name

if TYPE_CHECKING:
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.files import Directory

    Listing: TypeAlias = "tuple[int, list[str]]"
    """When the directory was changed, and its names in no order."""

FEW_NAMES: Final = 10_000
"""A directory of at most this many names is listed at each look."""
SETTLED_MS: Final = 2000
"""How old the last change is at least if the next one surely has another time, on any file system."""


class ListedNames:
    """The names of one directory. One thread at a time may use it."""

    __slots__ = ("_clock", "_identity", "_is_refusal_settled", "_listing", "_refusal")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._identity: tuple[int, int] | None = None  # of the directory that has the listing
        self._listing: Listing | None = None  # if it need not be made again while the directory's time is the same
        self._refusal: TooManySegmentsError | None = None  # in place of the listing's names
        self._is_refusal_settled = False  # if not, it is checked once more

    def listing(self, directory: Directory) -> Listing | None:
        """Return the names that are there now; None if the directory is gone.

        Raises `TooManySegmentsError`, and `MustWaitError` in a thread that may not list a large directory.
        """
        now_ms = self._clock.now_ms()
        status = directory.own_status()
        if status is None:
            return None
        known = self._listing
        is_settled = now_ms - status.modified_ms > SETTLED_MS
        if known is not None and (known[0], self._identity) == (status.modified_ms, status.identity):
            if self._refusal is None:
                return known
            if self._is_refusal_settled or not is_settled:
                raise self._refusal
        check_may_list(status.size_bytes)
        try:
            names = _names_in(directory)
            refusal = None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except TooManySegmentsError as error:
            names, refusal = [], error
        listing = status.modified_ms, names
        is_kept = refusal is not None or (is_settled and len(names) > FEW_NAMES)
        self._listing, self._identity = (listing, status.identity) if is_kept else (None, None)
        self._refusal, self._is_refusal_settled = refusal, is_settled
        if refusal is not None:
            raise refusal
        return listing


def is_of_log(name: str) -> bool:
    """True if a name in a partition's directory is that of a file of its log, such as a reader or a recovery opens."""
    return parse_name(name) is not None or name in (EPOCHS_NAME, PARTITION_METADATA_NAME)


def differ(one: Listing, other: Listing | None) -> bool:
    """Return True if two listings differ. Comparing a million names in one call would make other threads wait."""
    if other is None or one[0] != other[0] or len(one[1]) != len(other[1]):
        return True
    if one[1] is other[1]:
        return False
    pieces = (slice(start, start + FEW_NAMES) for start in range(0, len(one[1]), FEW_NAMES))
    return any(one[1][piece] != other[1][piece] for piece in pieces)


def _names_in(directory: Directory) -> list[str]:
    names = directory.names()
    if len(names) <= FEW_NAMES:
        # Most logs have the same names, and each keeps its own. Other threads go on meanwhile, unlike in a `map`.
        return [sys.intern(name) for name in names]
    check_few_segments(names, directory)
    return names
