"""The text of one real file, as its dump prints it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from kafkafs.content.patience import LOOK_S, Patience
from kafkafs.content.piece import PART, UNSETTLED, gathered
from kafkafs.content.pieces import DumpPieces, NamedForm
from kafkafs.dump.dump_by_kind import DumpOptions, dump_of
from kafkafs.dump.file_kinds import FileKind, base_offset
from kafkafs.tree.errors import GoneError, NotThereError
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.rendered_run import RenderedRun, RunReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from kafkafs.content import CountedText, SizeCache
    from kafkafs.content.counted_file import CountedFile
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Reading
    from storage.files import Directory, FileStatus, ReadableFile

_INDEX_COST: Final = 512
"""How many bytes of a log are counted in the time of one index byte: each entry takes a lookup in the log."""

_ENTRY_COST: Final = 64
"""The same for a byte of a checkpoint, a snapshot or a transaction index, whose entries need no lookup."""

_WAIT_S: Final = 0.5  # for others who are counting
_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX})


class LogText:
    """The dump of a log, which grows with it."""

    def __init__(self, source: LogSource, name: str, sizes: SizeCache) -> None:
        self._source = source
        self._directory = source.log.directory
        self._name = name
        self._path = source.directory / name
        self._sizes = sizes
        self._counted = sizes.text(source.files, self._path, base_offset(name) or 0)

    def size_bytes(self, status: FileStatus) -> int | None:
        """The size of the dump of the file as it is now, None while it is unknown."""
        with self._open() as file:
            counted = self._counted.look(file, status)
            return self._size_bytes(counted, file, status)

    def open(self) -> LogTextReading:
        """Open the file; if the size is unknown it is counted from now on."""
        file, counted, status = self._looked_at()
        if self._size_bytes(counted, file, status) is None:
            self._sizes.begin(self._counted)
        return LogTextReading(self._source, self._counted, counted, file, status)

    def contents(self) -> Iterator[Buffer]:
        """Yield the whole dump in order, and count nothing before it is made."""
        file, counted, status = self._looked_at()
        with closing(LogTextReading(self._source, self._counted, counted, file, status)) as reading:
            yield from reading.contents()

    def _looked_at(self) -> tuple[ReadableFile, CountedFile, FileStatus]:
        """Open the file; return it with its counts and its status."""
        file = self._open()
        status = self._directory.status(self._name)
        if status is None:
            file.close()
            raise NotThereError(f"{self._path} is gone")
        return file, self._counted.look(file, status), status

    def warm(self, is_cancelled: Callable[[], bool]) -> None:
        """Return when the size is known."""
        self._sizes.count(self._counted, is_cancelled)

    @property
    def counted_bytes(self) -> int:
        """Return how many bytes of the log were counted."""
        return self._counted.counted_bytes

    def _open(self) -> ReadableFile:
        try:
            return self._directory.open_reading(self._name)
        except FileNotFoundError:
            raise NotThereError(f"{self._path} is gone") from None

    def _size_bytes(self, counted: CountedFile, file: ReadableFile, status: FileStatus) -> int | None:
        if self._counted.uncounted_bytes(counted, status) > self._source.options.counted_bytes_max:
            return None
        return _counted_bytes(self._counted, counted, file, status)


class LogTextReading(RunReading):
    """The dump of an open log. It can be read to its end even if the log is unlinked."""

    def __init__(
        self, source: LogSource, text: CountedText, counted: CountedFile, file: ReadableFile, status: FileStatus
    ) -> None:
        self._files = source.files
        self._text = text
        self._counted = counted
        self._file = file
        self._status = status
        self._counted_bytes_max = source.options.counted_bytes_max
        self._sizing = Lock()  # held while the size is found, in one thread, so that no other closes the file
        self._is_open = True
        self._size_bytes: int | None = None
        self._rendered = RenderedRun(self._pieces_from)

    def size_bytes(self) -> int | None:
        """The size of the dump of the open file as it is now; once it is closed, the last known one."""
        with self._sizing:
            if self._is_open:
                status = self._status_now()
                is_long = self._text.uncounted_bytes(self._counted, status) > self._counted_bytes_max
                found = None if is_long else _counted_bytes(self._text, self._counted, self._file, status)
                self._size_bytes = found
        self._let_go()
        return self._size_bytes

    def read(self, position: int, size_bytes: int, patience: Patience | None = None) -> Buffer:
        """The bytes from the position; raises `GoneError` if the file was truncated.

        Without a limit it is never short before the counted size: the kernel would show zeros instead.
        """
        data = self._rendered.read(position, size_bytes, patience)
        if patience is not None and patience.is_limited:
            return data
        end = min(position + size_bytes, self._counted.end.rendered)
        while (missing_at := position + memoryview(data).nbytes) < end:  # it may have been made of a shorter log
            more = self._rendered.read(missing_at, position + size_bytes - missing_at, patience)
            if not memoryview(more):
                raise self._gone()
            data = b"".join((data, more))
        return data

    def contents(self) -> Iterator[Buffer]:
        """Yield all bytes in order; raises as `read` does."""
        return (data for _, data in self._pieces_from(0))

    def close(self) -> None:
        """Close the file, at once or as soon as another thread has found its size."""
        super().close()
        self._is_open = False
        self._let_go()

    def _let_go(self) -> None:
        if not self._is_open and self._sizing.acquire(blocking=False):
            self._file.close()
            self._sizing.release()

    def _pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:
        counted = self._counted
        if not counted.is_still_in(self._file):
            raise self._gone()
        mark = counted.before_rendered(position)
        at, rendered = mark
        for piece in gathered(self._text.pieces(self._file, mark)):
            if piece.position != PART:
                counted.add(at, piece, self._file)
                at = piece.position
            yield rendered, piece.data
            rendered += len(memoryview(piece.data))

    def _gone(self) -> GoneError:
        return GoneError(f"{self._file.path}: what is read here was truncated since it was opened")

    def _status_now(self) -> FileStatus:
        """Return the status of the open file, by its name while it has one."""
        named = self._files.status(self._file.path)
        if named is not None and named.identity == self._status.identity:
            return named
        return replace(self._status, size_bytes=self._file.size_bytes())


def _counted_bytes(text: CountedText, counted: CountedFile, file: ReadableFile, status: FileStatus) -> int | None:
    """Return how many bytes the dump has, unless finding that takes longer than a `stat` may."""
    patience = text.looks.begin()
    size_bytes = text.size_bytes(counted, file, status, patience.is_lost, wait_s=_WAIT_S)
    if size_bytes is None:
        text.looks.end(patience)
    return size_bytes


def log_text_bytes(directory: Directory, name: str) -> int | None:
    """Return the size of the dump of a log's file, unless finding that takes longer than a `stat` may."""
    size_bytes = 0
    patience = Patience(LOOK_S)
    with directory.open_reading(name) as file:
        for piece in DumpPieces().of(file, 0, file.size_bytes(), only_sizes=True, is_cancelled=patience.is_lost):
            size_bytes += piece.size_bytes
            if piece.position == UNSETTLED:
                break
    return None if patience.is_lost() else size_bytes


class EntryText:
    """The dump of a file other than a log. It is made whole whenever the file has changed."""

    def __init__(self, source: LogSource, name: str, kind: FileKind) -> None:
        self._files = source.files
        self._directory = source.log.directory
        self._name = name
        self._kind = kind
        cost = _INDEX_COST if kind in _INDEXES else _ENTRY_COST
        self._made_bytes_max = source.options.counted_bytes_max // cost

    def size_bytes(self, status: FileStatus) -> int | None:
        """The size of the dump as it is now, None if making it would take too long."""
        if status.size_bytes > self._made_bytes_max:
            return None
        return sum(len(data) for data in self._runs())

    def contents(self) -> Iterator[Buffer]:
        """Yield the whole dump in order."""
        return self._runs()

    def open(self) -> Reading:
        """Open the dump: of the present file, or of a large file as it is when it is read."""
        status = self._directory.status(self._name)
        if status is None or status.size_bytes > self._made_bytes_max:
            return _EntryReading(self._runs)
        return BytesReading(b"".join(self._runs()))

    def warm(self, is_cancelled: Callable[[], bool]) -> None:
        """Do nothing: the size is known at once, or never."""

    @property
    def counted_bytes(self) -> int:
        """Return 0: nothing is ever counted."""
        return 0

    def _runs(self) -> Iterator[bytes]:
        try:
            file = self._directory.open_reading(self._name)
        except FileNotFoundError:
            raise NotThereError(f"{self._directory.path_of(self._name)} is gone") from None
        with file:
            for run in dump_of(self._kind, self._files, file, DumpOptions(form=NamedForm())):
                yield b"\n".join([*run, b""])


class _EntryReading(RunReading):
    """An open dump of unknown size."""

    def __init__(self, runs: Callable[[], Iterator[bytes]]) -> None:
        self._runs = runs
        self._rendered = RenderedRun(self._pieces_from)

    def size_bytes(self) -> int | None:
        """Unknown."""
        return None

    def _pieces_from(self, position: int) -> Iterator[tuple[int, Buffer]]:  # noqa: ARG002 -- there is but one place to begin
        at = 0
        for data in self._runs():
            yield at, data
            at += len(data)
