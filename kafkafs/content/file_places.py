"""The accessible files of a log: its own, and those that have left it and are held for readers."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkafs.content.positions import Place
from storage.errors import CorruptBatchError, FramingError, UnknownPartitionError
from storage.segment import LogScan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from kafkafs.content.counted_file import CountedFile
    from kafkafs.content.held_files import HeldFiles, Wanted
    from kafkafs.content.known_aborted import KnownAborted
    from kafkafs.content.seen import Seen, SeenFile
    from storage.files import ReadableFile
    from storage.log import ReadableLog


class FilePlaces:
    """The files of one log, with the counts that tell where records lie. Any thread may ask.

    `count_to` counts a file up to a position, and returns the rendered bytes before it. `name` is for messages.
    """

    def __init__(
        self,
        log: ReadableLog,
        aborted: KnownAborted,
        held: HeldFiles,
        count_to: Callable[[Seen, SeenFile, int], int],
        name: Callable[[], str],
    ) -> None:
        self._log = log
        self._aborted = aborted
        self._held = held
        self._count_to = count_to
        self._name = name

    @property
    def name(self) -> str:
        """The log's name in messages."""
        return self._name()

    def hold(self, owner: object, wanted: Sequence[Wanted]) -> None:
        """Hold these files for an owner, as far as the budget goes."""
        self._held.want(owner, wanted)

    def know(self, seen: Seen, files: Collection[SeenFile]) -> None:
        """Load for files of the view what cannot be found out once they have left the log."""
        for file in files:
            self._aborted.know(seen, file)

    def forget(self, wanted: Collection[CountedFile]) -> None:
        """Forget the others."""
        self._aborted.forget(wanted)

    def is_held(self, file: SeenFile) -> bool:
        """True if the file stays accessible even if it leaves the log."""
        return self._held.has(file.counted.identity)

    @contextmanager
    def opened(self, file: SeenFile) -> Iterator[ReadableFile | None]:
        """Open the file; None unless all its counted batches are still in it."""
        with self._held.use(file.counted.identity) as held:
            if held is not None and file.counted.is_still_in(held):
                yield held
                return
        named = _named(file)
        if named is None:
            with suppress(UnknownPartitionError, OSError):
                _ = self._log.view  # which finds the files where the partition was moved to
                named = _named(file)
        if named is None:
            yield None
            return
        with named:
            yield named

    def left(self, file: SeenFile) -> SeenFile | None:
        """Return a former file of the log with its final end; None if it is inaccessible or was cut."""
        with self.opened(file) as opened:
            return None if opened is None else file._replace(end=_whole_end(opened, file.end), is_last=False)

    def find(self, seen: Seen, offset: int) -> Place | None:
        """The first batch that does not end below the offset, or the log's end; None if there are no files."""
        if not seen.files:
            return None
        if offset <= seen.view.start_offset:
            return Place(0, seen.start_position, seen.hidden)
        number = max(bisect_right(seen.files, offset, key=attrgetter("counted.base_offset")) - 1, 0)
        file = seen.files[number]
        try:
            batch = file.segment.find(offset, file.end)
            position = file.end if batch is None else batch.position
        except CorruptBatchError as error:
            position = file.end if error.position is None else error.position
        if position >= file.end and number + 1 < len(seen.files):
            return Place(number + 1, 0, 0)
        return Place(number, position, self._count_to(seen, file, position))


def _named(file: SeenFile) -> ReadableFile | None:
    """The file by its name, if that still leads to it."""
    try:
        opened = file.segment.open_log()
        status = file.segment.log_status()
    except FileNotFoundError:
        return None
    if status is not None and status.identity == file.counted.identity and file.counted.is_still_in(opened):
        return opened
    opened.close()
    return None


def _whole_end(file: ReadableFile, start: int) -> int:
    """Return where the whole batches from a position on end."""
    scan = LogScan(file, start=start)
    try:
        for _ in scan:
            pass
    except FramingError:
        pass
    return scan.position
