"""The real files of a log's directory as they are, and beside each that can be dumped its text."""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkafs.dump.file_kinds import FileKind, base_offset, kind_of
from kafkafs.locator.paths import TEXT_SUFFIX, SegmentPath
from kafkafs.tree.errors import NotThereError, TreeError
from kafkafs.tree.node import Attributes, Directory, Entry, File, Stranger
from kafkafs.tree.raw_reading import RawReading
from kafkafs.tree.segment_text import EntryText, LogText, log_text_bytes
from kafkafs.tree.stream_file import unknown_xattr
from kafkafs.tree.walking import SHORT_BYTES, is_written_elsewhere
from storage.errors import StorageError
from storage.files import LARGE_DIRECTORY_BYTES, check_may_list, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from kafkafs.content import SizeCache
    from kafkafs.locator.paths import PartitionDirectoryPath
    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Node, Reading
    from storage.files import Directory as RealFiles
    from storage.files import FileStatus, ReadableFile

_LOOKS: Final = 1000
"""At how many files of a large directory is looked at a time: the first of a million names are listed soon."""
_KNOWN_MAX: Final = 1024
"""How many names' kinds are known: thousands of logs have the same names."""
_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX})


@lru_cache(_KNOWN_MAX)
def dumped_kind(name: str) -> FileKind | None:
    """Return the kind of a file that has a twin; None for any other."""
    kind = kind_of(name)
    return None if kind in _INDEXES and base_offset(name) is None else kind


class SegmentDirectory(Directory):
    """The directory `segments`."""

    def __init__(self, path: PartitionDirectoryPath, source: LogSource, sizes: SizeCache) -> None:
        super().__init__(path, identity=source.identity)
        self._source = source
        self._sizes = sizes

    def attributes(self) -> Attributes:
        """Report the real directory's time."""
        return segments_attributes(self._source)

    def names(self) -> Iterator[str]:
        """The files by name, each followed by its twin."""
        return (entry.name for entry in self.walked(is_sized=False))

    def entries(self) -> Iterator[Entry]:
        """Yield the same names, with the types of what is no file."""
        return (entry._replace(attributes=None) for entry in self.walked(is_sized=False))

    def walked(self, *, is_sized: bool) -> Iterator[Entry]:
        """Yield the same names with what the file system says of the files."""
        source = self._source
        directory = source.find_directory()
        with directory.held():
            own = directory.own_status()
            is_large = own is not None and own.size_bytes >= LARGE_DIRECTORY_BYTES
            few = [] if is_large else sorted(directory.statuses().items())
        logs_bytes = sum(status.size_bytes for name, status in few if dumped_kind(name) is FileKind.LOG)
        is_sized = is_sized and not is_large and is_written_elsewhere(source) and logs_bytes <= SHORT_BYTES
        for name, status in _looks_at(directory) if is_large else few:
            if status.is_directory:
                continue
            if not status.is_file:
                yield Entry(name, type=status.type)
                continue
            attributes = _attributes(status, self._source, name)
            yield Entry(name, attributes)
            kind = dumped_kind(name)
            if kind is not None and directory.refusal(name, status) is None:
                text = attributes._replace(size_bytes=None, disk_blocks=1)
                is_told = is_sized and status.size_bytes <= SHORT_BYTES
                yield Entry(f"{name}{TEXT_SUFFIX}", self._sized(text, name, kind, status) if is_told else text)

    def _sized(self, text: Attributes, name: str, kind: FileKind, status: FileStatus) -> Attributes | None:
        """Return the attributes of a file's text with its size; None for an error."""
        source = self._source
        try:
            if kind is FileKind.LOG:
                return text._replace(size_bytes=log_text_bytes(source.log.directory, name))
            return text._replace(size_bytes=EntryText(source, name, kind).size_bytes(status))
        except (StorageError, TreeError, OSError):
            return None


def _looks_at(directory: RealFiles) -> Iterator[tuple[str, FileStatus]]:
    """Yield the names in a large directory with what the file system says of them, after some looks each."""
    check_may_list(LARGE_DIRECTORY_BYTES)
    names = in_order(directory.names())
    while some := list(islice(names, _LOOKS)):
        with directory.held():
            looks = [(name, directory.status(name)) for name in some]
        yield from ((name, status) for name, status in looks if status is not None)


def segments_attributes(source: LogSource) -> Attributes:
    """Return what `stat` says of the directory `segments`."""
    status = source.find_directory().own_status()
    return Attributes(modified_ms=0 if status is None else status.modified_ms, access=source.access())


def _status(source: LogSource, path: SegmentPath) -> FileStatus:
    """Return the status of the real file; raises `NotThereError` if it is none."""
    status = source.log.directory.status(path.file)
    if status is None:
        status = source.find_directory().status(path.file)
    if status is None or status.is_directory:
        raise NotThereError(f"{path}: {source.directory} has no file {path.file}")
    return status


def _attributes(status: FileStatus, source: LogSource, name: str) -> Attributes:
    return Attributes(
        size_bytes=status.size_bytes,
        modified_ms=status.modified_ms,
        disk_blocks=status.disk_blocks,
        access=source.access_to(name, status),
    )


def segment_node(path: SegmentPath, source: LogSource) -> Node:
    """Return the node of a real file, or of what stands in its place; raises `NotThereError`."""
    status = _status(source, path)
    return RawSegmentFile(path, source, status) if status.is_file else _StrangeFile(path, source, status)


class _StrangeFile(Stranger):
    def __init__(self, path: SegmentPath, source: LogSource, status: FileStatus) -> None:
        directory = source.log.directory
        refusal = directory.refusal(path.file, status)
        assert refusal is not None
        target = f"{path.file}/(not followed)/{directory.link_target(path.file)}" if status.is_link else ""
        # The next file of the number may be of another type.
        super().__init__(path, refusal, identity=-status.identity[1], node_type=status.type, target=target)
        self._attributes = Attributes(
            len(os.fsencode(target)), status.modified_ms, access=source.access_to(path.file, status)
        )

    def attributes(self) -> Attributes:
        """Report the time of what is there."""
        return self._attributes


class RawSegmentFile(File):
    """A real file."""

    def __init__(self, path: SegmentPath, source: LogSource, status: FileStatus) -> None:
        super().__init__(path, identity=status.identity[1])
        self._file = status.identity
        self._directory = source.log.directory
        self._source = source
        self._path = path

    def attributes(self) -> Attributes:
        """Report what the file system says."""
        return _attributes(_status(self._source, self._path), self._source, self._path.file)

    def open(self) -> RawReading:
        """Open the file. It can be read to its end even if it is unlinked. Raises ESTALE if another has its name."""
        return RawReading(self._path, self._opened)

    def _opened(self) -> ReadableFile:
        try:
            file = self._directory.open_reading(self._path.file)
        except FileNotFoundError:
            file = self._source.find_directory().open_reading(self._path.file)
        # Rights were given to the file that was looked up, and another may have taken its name since.
        if file.identity() not in (None, self._file):
            file.close()
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self._directory.path_of(self._path.file))
        return file


class SegmentTextFile(File):
    """The text that kafka-dump-log prints of a real file, with the file's bare name in the first line."""

    def __init__(self, path: SegmentPath, source: LogSource, sizes: SizeCache) -> None:
        kind = dumped_kind(path.file)
        if kind is None:
            raise NotThereError(f"{path}: {path.file} is no file that can be dumped")
        status = _status(source, path)
        self._source = source
        self._path = path
        self._text = LogText(source, path.file, sizes) if kind is FileKind.LOG else EntryText(source, path.file, kind)
        super().__init__(path, identity=status.identity[1])

    def attributes(self) -> Attributes:
        """Report the real file's time."""
        status = _status(self._source, self._path)
        return Attributes(
            size_bytes=self._text.size_bytes(status),
            modified_ms=status.modified_ms,
            access=self._source.access_to(self._path.file, status),
        )

    def xattrs(self) -> dict[str, bytes]:
        """Report if the size is unknown."""
        return unknown_xattr(self._text.size_bytes(_status(self._source, self._path)))

    def open(self) -> Reading:
        """Open the text of the file, which may grow."""
        return self._text.open()

    def contents(self) -> Iterator[Buffer]:
        """Yield the text of the file as it is now."""
        return self._text.contents()

    def warm(self, is_cancelled: Callable[[], bool]) -> None:
        """Return when the size is known."""
        self._text.warm(is_cancelled)

    def counting(self) -> tuple[int, int]:
        """Return how many bytes of the real file were counted, and how many there are."""
        return self._text.counted_bytes, _status(self._source, self._path).size_bytes
