"""Putting new segments in the place of old ones, in steps that a crash may interrupt anywhere.

New segments are written beside the old ones as `.cleaned`. Once all of them are on disk they are renamed to `.swap`,
the one with the highest base first; the last of these renames is the commit point. While a `.cleaned` is left, the old
segments count and the new ones are void; afterwards the new ones count. After a crash `finish_replacements` completes
or discards them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import CorruptBatchError
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, parsed
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from storage.files import Directory
    from storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Leftover(NamedTuple):
    """A file that a crash left. It was renamed to `became`, or removed if that is None."""

    name: str
    became: str | None
    reason: str


def replace_segments(directory: Directory, new: Sequence[int], old: Sequence[Segment]) -> list[str]:
    """Replace old segments, which ascend, by those that are on disk as `.cleaned`: all of them or none.

    Without new ones the old ones are deleted in order, and a crash may leave the last of them.

    Returns the names of the old segments' files, which bear the suffix `.deleted`; the caller removes them. Their
    readers go on. When this returns, the names are on disk.
    """
    for base_offset in sorted(new, reverse=True):
        _rename(directory, base_offset, FileSuffix.CLEANED, FileSuffix.SWAP)
    directory.sync()
    deleted = [name for segment in old for name in segment.own_files.delete()]
    for base_offset in sorted(new):
        _rename(directory, base_offset, FileSuffix.SWAP, FileSuffix.LIVE)
    directory.sync()
    return deleted


def _rename(directory: Directory, base_offset: int, before: FileSuffix, after: FileSuffix) -> None:
    """Rename the files that a segment has."""
    for kind in SEGMENT_KINDS:
        name = FileName(base_offset, kind, before)
        if directory.status(str(name)) is not None:
            directory.rename(str(name), str(name.with_suffix(after)))


def finish_replacements(directory: Directory, names: Iterable[str]) -> list[Leftover]:
    """Complete or discard the replacements that a crash interrupted, and remove `.deleted` files.

    `names` are the names in the directory.
    """
    finishing = _Finishing(directory, names)
    for name in finishing.having(FileSuffix.DELETED):
        finishing.remove(name, "it was about to be removed")
    finishing.remove_incomplete()
    finishing.remove_replaced()
    # The logs go first: while one is left, a replacement that begins again would replace the files in place.
    for name in sorted(finishing.having(FileSuffix.SWAP), key=lambda name: name.kind is not Kind.LOG):
        finishing.put_in_place(name)
    if finishing.leftovers:
        directory.sync()
    return finishing.leftovers


class _Finishing:
    """A directory while its leftovers are removed, and the changes made so far."""

    def __init__(self, directory: Directory, names: Iterable[str]) -> None:
        self.leftovers: list[Leftover] = []
        self._directory = directory
        self._names = dict.fromkeys(sorted(parsed(names), key=str))  # in order

    def having(self, suffix: FileSuffix) -> list[FileName]:
        return [name for name in self._names if name.suffix is suffix]

    def remove(self, name: FileName, reason: str) -> None:
        self._directory.remove(str(name))
        del self._names[name]
        self.leftovers.append(Leftover(str(name), None, reason))

    def remove_incomplete(self) -> None:
        """Remove new segments if one of them is not complete."""
        cleaned = self.having(FileSuffix.CLEANED)
        if cleaned:
            void = [
                name for name in self.having(FileSuffix.SWAP) if name.offset >= min(each.offset for each in cleaned)
            ]
            # The swap files go first: with the last `.cleaned` gone, those left would count as complete.
            for name in (*void, *cleaned):
                self.remove(name, "it belongs to a replacement that was not complete")

    def remove_replaced(self) -> None:
        """Remove the segments that complete new segments replace."""
        swapped = [name.offset for name in self.having(FileSuffix.SWAP) if name.kind is Kind.LOG]
        if swapped:
            end = max(_next_offset(self._directory, FileName(offset, Kind.LOG, FileSuffix.SWAP)) for offset in swapped)
            for name in self.having(FileSuffix.LIVE):
                if min(swapped) <= name.offset < end:
                    self.remove(name, "it is replaced")

    def put_in_place(self, name: FileName) -> None:
        live = name.with_suffix(FileSuffix.LIVE)
        self._directory.rename(str(name), str(live))
        self.leftovers.append(Leftover(str(name), str(live), "a replacement that was complete is in place"))


def _next_offset(directory: Directory, log: FileName) -> int:
    """Return the offset after the last batch of a log."""
    next_offset = log.offset
    with directory.open_reading(str(log)) as file:
        try:
            for batch in LogScan(file):
                next_offset = batch.last_offset + 1
        except CorruptBatchError as error:
            logger.warning("only what lies before this is known to be replaced: %s", error)
    return next_offset
