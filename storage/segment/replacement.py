"""Putting new segments in the place of old ones, in steps that a crash may interrupt anywhere.

New segments are written beside the old ones as `.cleaned`. Once all of them are on disk they become `.swap`, the one
with the highest base first, and with the last of these names they are the log. So while a `.cleaned` is left, the old
segments count and everything new is void; afterwards the new ones do. What a crash interrupts, `finish_replacements`
brings to the one end or the other.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import CorruptBatchError
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, parse_name
from storage.segment.scan import LogScan

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from storage.files import Files
    from storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Leftover(NamedTuple):
    """A file that a crash had left. It was renamed to `became`, or removed if that is None."""

    name: str
    became: str | None
    reason: str


def replace_segments(
    files: Files, directory: str | os.PathLike[str], new: Sequence[int], old: Sequence[Segment]
) -> list[Path]:
    """Have the segments that stand as `.cleaned` and are on disk replace old ones, which ascend: all of them or none.

    Without new ones the old ones go one after the other, the first one first, and a crash may leave the last of them.

    Returns the old segments' files, which bear the suffix `.deleted` and are the caller's to remove; those who read
    the old segments go on with them. When it returns, the names are on disk.
    """
    directory = Path(directory)
    for base_offset in sorted(new, reverse=True):
        _rename(files, directory, base_offset, FileSuffix.CLEANED, FileSuffix.SWAP)
    files.sync_directory(directory)
    deleted = [path for segment in old for path in segment.own_files.delete()]
    for base_offset in sorted(new):
        _rename(files, directory, base_offset, FileSuffix.SWAP, FileSuffix.LIVE)
    files.sync_directory(directory)
    return deleted


def _rename(files: Files, directory: Path, base_offset: int, before: FileSuffix, after: FileSuffix) -> None:
    """Rename what there is of a segment."""
    for kind in SEGMENT_KINDS:
        name = FileName(base_offset, kind, before)
        if files.status(directory / str(name)) is not None:
            files.rename(directory / str(name), directory / str(name.with_suffix(after)))


def finish_replacements(files: Files, directory: str | os.PathLike[str], names: Iterable[str]) -> list[Leftover]:
    """End what a crash interrupted, as far as it had got, and remove what was about to be removed.

    `names` are those in the directory.
    """
    finishing = _Finishing(files, Path(directory), names)
    for name in finishing.having(FileSuffix.DELETED):
        finishing.remove(name, "it was about to be removed")
    finishing.remove_incomplete()
    finishing.remove_replaced()
    # The logs go first: while one is left, a replacement that begins again would replace the files in place.
    for name in sorted(finishing.having(FileSuffix.SWAP), key=lambda name: name.kind is not Kind.LOG):
        finishing.put_in_place(name)
    if finishing.leftovers:
        files.sync_directory(directory)
    return finishing.leftovers


class _Finishing:
    """A directory that is being leftovers, and what has been done to it."""

    def __init__(self, files: Files, directory: Path, names: Iterable[str]) -> None:
        self.leftovers: list[Leftover] = []
        self._files = files
        self._directory = directory
        self._names = [name for text in sorted(names) if (name := parse_name(text)) is not None]

    def having(self, suffix: FileSuffix) -> list[FileName]:
        return [name for name in self._names if name.suffix is suffix]

    def remove(self, name: FileName, reason: str) -> None:
        self._files.remove(self._directory / str(name))
        self._names.remove(name)
        self.leftovers.append(Leftover(str(name), None, reason))

    def remove_incomplete(self) -> None:
        """Remove new segments as long as one of them is not complete."""
        cleaned = self.having(FileSuffix.CLEANED)
        if cleaned:
            void = [
                name for name in self.having(FileSuffix.SWAP) if name.offset >= min(each.offset for each in cleaned)
            ]
            # The swap files go first: with the last `.cleaned` gone, those left would count as complete.
            for name in (*void, *cleaned):
                self.remove(name, "it belongs to a replacement that was not complete")

    def remove_replaced(self) -> None:
        """Remove what new segments, which are complete, replace."""
        swapped = [name.offset for name in self.having(FileSuffix.SWAP) if name.kind is Kind.LOG]
        if swapped:
            end = max(
                _next_offset(self._files, self._directory / str(FileName(offset, Kind.LOG, FileSuffix.SWAP)), offset)
                for offset in swapped
            )
            for name in self.having(FileSuffix.LIVE):
                if min(swapped) <= name.offset < end:
                    self.remove(name, "it is replaced")

    def put_in_place(self, name: FileName) -> None:
        live = name.with_suffix(FileSuffix.LIVE)
        self._files.rename(self._directory / str(name), self._directory / str(live))
        self.leftovers.append(Leftover(str(name), str(live), "a replacement that was complete is in place"))


def _next_offset(files: Files, path: Path, base_offset: int) -> int:
    """Return the offset after the last batch of a log."""
    next_offset = base_offset
    with files.open_reading(path) as file:
        try:
            for batch in LogScan(file):
                next_offset = batch.last_offset + 1
        except CorruptBatchError as error:
            logger.warning("only what lies before this is known to be replaced: %s", error)
    return next_offset
