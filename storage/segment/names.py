"""The names of files in a partition's directory, and the segments that a set of names makes up.

A segment's files bear its base offset in twenty digits. A producer snapshot bears the offset up to which it holds. A
second suffix marks a file that is being put in place, or is to be removed.

A replacement counts once it is complete: while a `.cleaned` file is left, the old segments are the log. After that the
`.swap` segments are, and hide the old ones in their range. Only their batches say how far that range goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import TooManySegmentsError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable, Iterator


class Kind(StrEnum):
    """The kind of a file, by its first suffix."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"


class FileSuffix(StrEnum):
    """The second suffix of a file: empty for a file in place."""

    LIVE = ""
    DELETED = ".deleted"  # to be removed, and still read by readers that hold the segment
    CLEANED = ".cleaned"  # being written, by a cleaning or a split that may be interrupted
    SWAP = ".swap"  # complete, and about to replace the old files


SEGMENT_KINDS: Final = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)
"""The files that make up a segment, in the order in which they are renamed."""

SEGMENTS_MAX: Final = 32_765
"""The most segments of a partition that are taken in: each takes about a kilobyte, and a look at all of them seconds.

A broker maps two indexes of a segment that it writes and holds its log open. Under Linux's usual limit of 65,530 maps
it can have no more than these in all of its partitions.
"""

_KNOWN_MAX: Final = 1024
"""How many names are known: thousands of logs have the same ones."""

_DIGITS: Final = 20
_NAME: Final = re.compile(
    rf"(\d{{{_DIGITS}}})"
    rf"({'|'.join(re.escape(kind) for kind in Kind)})({'|'.join(re.escape(suffix) for suffix in FileSuffix)})"
)


@dataclass(frozen=True, slots=True)
class FileName:
    """The parsed name of a segment's file."""

    offset: int
    kind: Kind
    suffix: FileSuffix = FileSuffix.LIVE

    def __str__(self) -> str:
        return f"{self.offset:020d}{self.kind}{self.suffix}"

    def with_suffix(self, suffix: FileSuffix) -> FileName:
        """Return the name of the same file with another suffix."""
        return FileName(self.offset, self.kind, suffix)


def parse_name(name: str) -> FileName | None:
    """Parse the name of a file in a partition's directory; None if it is no segment's.

    Of a million other names most take no more than a look at one character.
    """
    return _parsed(name) if name[_DIGITS : _DIGITS + 1] == "." else None


@lru_cache(_KNOWN_MAX)
def _parsed(name: str) -> FileName | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return FileName(int(match[1]), Kind(match[2]), FileSuffix(match[3]))


def parsed(texts: Iterable[str]) -> Iterator[FileName]:
    """Yield those of the names in a partition's directory that are segments', parsed."""
    for text in texts:
        if text[_DIGITS : _DIGITS + 1] == "." and (name := _parsed(text)) is not None:
            yield name


def live_offsets(texts: Iterable[str], kind: Kind) -> list[int]:
    """Return the offsets in the names of a kind's files that are in place, ascending; for logs the segments' bases."""
    return sorted(name.offset for name in parsed(texts) if name.kind is kind and name.suffix is FileSuffix.LIVE)


def check_few_segments(texts: Collection[str], directory: str | os.PathLike[str]) -> None:
    """Raise `TooManySegmentsError` if the names in a partition's directory are those of too many segments."""
    if len(texts) <= SEGMENTS_MAX:
        return
    count = sum(text.endswith(Kind.LOG) for text in texts)  # without parsing, which takes a second for a million
    if count > SEGMENTS_MAX:
        raise TooManySegmentsError(
            f"the partition has {count:,} segments, and no more than {SEGMENTS_MAX:,} are taken in", path=directory
        )


class SegmentNames(NamedTuple):
    """A segment that has a log, and the kinds of its files that still have the names of swap files."""

    base_offset: int
    swapped: frozenset[Kind]

    @property
    def is_swap(self) -> bool:
        """True if its log is still a swap file."""
        return Kind.LOG in self.swapped

    def name(self, kind: Kind) -> str:
        """Return the name of the segment's file of this kind, if it has one."""
        return _text(self.base_offset, kind, FileSuffix.SWAP if kind in self.swapped else FileSuffix.LIVE)


@lru_cache(_KNOWN_MAX)
def _text(offset: int, kind: Kind, suffix: FileSuffix) -> str:
    return str(FileName(offset, kind, suffix))


_NONE: Final[frozenset[Kind]] = frozenset()  # one for all segments: an empty set takes 200 bytes


def segments_named(texts: Iterable[str]) -> list[SegmentNames]:
    """Return the segments that these names make up, ascending. Those that a swap segment hides are among them."""
    names = {name for name in parsed(texts) if name.kind in SEGMENT_KINDS}
    incomplete_from = min((name.offset for name in names if name.suffix is FileSuffix.CLEANED), default=None)
    swapped: dict[int, set[Kind]] = {}
    for name in names:
        if name.suffix is FileSuffix.SWAP and (incomplete_from is None or name.offset < incomplete_from):
            swapped.setdefault(name.offset, set()).add(name.kind)
    for name in names:
        # Only a swap file that is the segment's log makes the live files those of the segment that it replaces.
        if name.suffix is FileSuffix.LIVE and Kind.LOG not in swapped.get(name.offset, ()):
            swapped.get(name.offset, set()).discard(name.kind)
    bases = {name.offset for name in names if name.kind is Kind.LOG and name.suffix is FileSuffix.LIVE}
    bases |= {offset for offset, kinds in swapped.items() if Kind.LOG in kinds}
    return [SegmentNames(offset, _swapped(swapped.get(offset, set()))) for offset in sorted(bases)]


def _swapped(kinds: set[Kind]) -> frozenset[Kind]:
    """Return the kinds of files that have the names of swap files: all of them if the log has."""
    if not kinds:
        return _NONE
    return frozenset(SEGMENT_KINDS) if Kind.LOG in kinds else frozenset(kinds)
