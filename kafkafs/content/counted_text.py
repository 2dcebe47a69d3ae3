"""How many bytes the dump of a log's file has, as far as it was counted.

What a dump prints for a file's end that is no batch may change as the file grows. So the end is counted again whenever
the file has changed, and the batches before it are not.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.content.counted_file import CountedFile, Mark
from kafkafs.content.patience import Looks
from kafkafs.content.piece import UNSETTLED
from kafkafs.content.pieces import DumpPieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kafkafs.content.piece import Piece
    from storage.files import Files, FileStatus, ReadableFile


class _Tail(NamedTuple):
    """The rest after the counted batches of a file that had this status."""

    status: FileStatus
    size_bytes: int


class CountedText:
    """The dump of the file at a path. `number` tells it from that of another file that had the path before."""

    def __init__(
        self, files: Files, path: Path, base_offset: int, restored: Iterable[CountedFile] = (), *, key: str = ""
    ) -> None:
        self.key = key
        self.looks = Looks()
        self.number = 0
        self._files = files
        self._path = path
        self._base_offset = base_offset
        self._known: CountedFile | None = next(iter(restored), None)
        self._tail: _Tail | None = None
        self._pieces = DumpPieces()
        self._looking = Lock()  # held while the file is looked at
        self._counting = Lock()  # held while its batches are counted

    def look(self, file: ReadableFile, status: FileStatus) -> CountedFile:
        """Return the counts of the open file with this status."""
        with self._looking:
            known = self._known
            if known is not None and known.identity == status.identity and known.is_still_in(file):
                return known
            if known is not None:
                known.is_void = True
                self.number += 1
            self._tail = None
            self._known = known = CountedFile(self._base_offset, status.identity)
            return known

    def uncounted_bytes(self, counted: CountedFile, status: FileStatus) -> int:
        """Return how many bytes of the file are still to be counted."""
        tail = self._tail
        done = counted.end.position if tail is None else max(counted.end.position, tail.status.size_bytes)
        return max(status.size_bytes - done, 0)

    def size_bytes(
        self,
        counted: CountedFile,
        file: ReadableFile,
        status: FileStatus,
        is_cancelled: Callable[[], bool] = lambda: False,
        *,
        wait_s: float = -1,
    ) -> int | None:
        """Count the rest, and return how many bytes the dump has.

        Return None if that was cancelled, or if others counted for too long.
        """
        if not self._counting.acquire(timeout=wait_s):
            return None
        try:
            tail = self._tail
            if tail is not None and tail.status == status and not counted.is_void:
                return counted.end.rendered + tail.size_bytes
            if is_cancelled():
                return None
            at, tail_bytes = counted.end.position, 0
            for piece in self._pieces.of(file, at, status.size_bytes, only_sizes=True, is_cancelled=is_cancelled):
                if piece.position == UNSETTLED:
                    tail_bytes += piece.size_bytes
                    break
                counted.add(at, piece, file)
                at = piece.position
            if is_cancelled():
                return None
            with self._looking:
                if counted is self._known:
                    self._tail = _Tail(status, tail_bytes)
            return counted.end.rendered + tail_bytes
        finally:
            self._counting.release()

    def pieces(self, file: ReadableFile, mark: Mark) -> Iterator[Piece]:
        """The dump of an open file from a place on."""
        return self._pieces.of(file, mark.position, file.size_bytes(), only_sizes=False)

    def count_all(self, is_cancelled: Callable[[], bool]) -> None:
        """Count the file as it is now."""
        status = self._files.status(self._path)
        if status is not None:
            with self._files.open_reading(self._path) as file:
                self.size_bytes(self.look(file, status), file, status, is_cancelled)

    @property
    def counted_bytes(self) -> int:
        """Return how many bytes of the file were counted."""
        return 0 if self._known is None else self._known.end.position

    def counted(self) -> list[CountedFile]:
        """Return the counts of the file, if there are any."""
        known = self._known
        return [known] if known is not None and known.probe.header else []
