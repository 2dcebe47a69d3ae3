"""Planned changes of the files in a directory: they are kept in memory, and not one byte of the files changes.

Recovery runs over them to say what it would do. Written data takes memory; cutting, renaming and removing take none. A
plan does not write on disk: making and removing directories, allocating and mapping raise `UnsupportedOperation`.
"""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Final, NoReturn

from storage.files.directory import Directory
from storage.files.opened import Access, FileStatus, ReadableFile, WritableFile, access_of
from storage.files.ownership import terms_of_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.errors import SpecialFileError
    from storage.files.lock import FileLock
    from storage.files.opened import FileRegion

_PAGE_BYTES: Final = 64 * 1024


class OverlayDirectory(Directory):
    """The files of another directory, with changes that are only made here. No file moves out of it or into it."""

    def __init__(self, below: Directory) -> None:
        super().__init__(below.path)
        self._below = below
        self._contents: dict[str, _Content | None] = {}  # by name; None for a removed file

    @property
    def above(self) -> Directory | None:
        """The log directory that holds this partition's directory."""
        return self._below.above

    @property
    def is_of_store(self) -> bool:
        """True if new files in it are given to its owner."""
        return self._below.is_of_store

    def at(self, name: str) -> OverlayDirectory:
        """Return the directory of this name in it, without any changes."""
        return OverlayDirectory(self._below.at(name))

    def open_reading(self, name: str) -> ReadableFile:
        """Open a file that exists for reading."""
        if name not in self._contents:
            return self._below.open_reading(name)
        return _OverlayFile(self.path_of(name), self._present(name))

    def open_writing(self, name: str, *, create: bool = False, exclusive: bool = False) -> WritableFile:
        """Open a file for writing, or make an empty one; `exclusive` refuses one that exists."""
        exists = self.status(name) is not None
        if exists and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path_of(name))
        if not exists and create:
            terms = terms_of_file(self, name, os.geteuid())
            made = Access(os.geteuid(), os.getegid(), terms.making_mode)
            self._contents[name] = _Content(None, 0, terms.settled(made))
        return _OverlayFile(self.path_of(name), self._present(name))

    def _present(self, name: str) -> _Content:
        """Return the contents of an existing file, for changes."""
        if name not in self._contents:
            status = self._below.status(name)
            if status is not None:
                if (refusal := self.refusal(name, status)) is not None:
                    raise refusal
                self._contents[name] = _Content((self._below, name), status.size_bytes, access_of(status))
        content = self._contents.get(name)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path_of(name))
        return content

    def status(self, name: str) -> FileStatus | None:
        """Return the known status of a file. A file that was made or changed here has no time."""
        if name not in self._contents:
            return self._below.status(name)
        content = self._contents[name]
        if content is None:
            return None
        access = content.access
        return FileStatus(
            content.size_bytes, 0, False, (0, id(content)), uid=access.uid, gid=access.gid, mode=access.mode
        )

    def own_status(self) -> FileStatus | None:
        """Return the file system's answer about its path now."""
        return self._below.own_status()

    def refusal(self, name: str, status: FileStatus, place: int = -1) -> SpecialFileError | None:
        """Return the error that opening a file of this status raises, None for a file or directory of its own."""
        return self._below.refusal(name, status, place)

    def reached_status(self) -> FileStatus | None:
        """Return the file system's answer about the directory in which its files are reached."""
        return self._below.reached_status()

    def names(self) -> list[str]:
        """List the names in it, in no order."""
        present = (name for name, content in self._contents.items() if content is not None)
        return [*(name for name in self._below.names() if name not in self._contents), *present]

    def statuses(self) -> dict[str, FileStatus]:
        """Return the known status of each name in it, in no order."""
        below = {name: status for name, status in self._below.statuses().items() if name not in self._contents}
        changed = ((name, self.status(name)) for name in self._contents)
        return below | {name: status for name, status in changed if status is not None}

    def link_target(self, name: str) -> str:
        """Return what a link in it says, without following it."""
        return self._below.link_target(name)

    def rename(self, old: str, new: str, into: Directory | None = None) -> None:
        """Rename a file in it. A file that has the new name is replaced."""
        if into is not None and into is not self:
            _refuse(into.path)
        content = self._present(old)
        self._contents[old] = None
        self._contents[new] = content

    def link(self, name: str, into: Directory, new: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        _refuse(self.path_of(name))

    def make_link(self, name: str, target: str) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        _refuse(self.path_of(name))

    def remove(self, name: str) -> None:
        """Unlink a file."""
        self._present(name)
        self._contents[name] = None

    def sync(self) -> None:
        """Do nothing: there is no disk to wait for."""

    def make(self, *, like: Directory | None = None) -> None:  # noqa: ARG002 -- as in Directory
        """Refuse."""
        _refuse(self.path)

    def remove_directory(self, name: str) -> None:
        """Refuse."""
        _refuse(self.path_of(name))

    def lock(self, name: str) -> FileLock:
        """Refuse: a plan keeps no other process out."""
        _refuse(self.path_of(name))

    def is_locked(self, name: str) -> bool:
        """Return True if another process has that lock."""
        return self._below.is_locked(name)

    def free_bytes(self) -> int:
        """Return the space that its file system has left."""
        return self._below.free_bytes()

    def check_can_give(self) -> None:
        """Do nothing: a planned file needs no owner."""

    def access_list(self, name: str) -> bytes | None:
        """Return the POSIX access list of a file that is not changed here."""
        return None if name in self._contents else self._below.access_list(name)


class _Content:
    """The bytes of a file: written pages, over the beginning of a file that does not change."""

    def __init__(self, base: tuple[Directory, str] | None, size_bytes: int, access: Access) -> None:
        self.size_bytes = size_bytes
        self.access = access
        self._base = base
        self._base_bytes = size_bytes  # the bytes of the file below that are still visible
        self._pages: dict[int, bytearray] = {}

    def read(self, position: int, size_bytes: int) -> bytes:
        end = min(position + size_bytes, self.size_bytes)
        parts = []
        while position < end:
            number, start = divmod(position, _PAGE_BYTES)
            part = self._page(number)[start : start + end - position]
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def _page(self, number: int) -> bytes | bytearray:
        page = self._pages.get(number)
        if page is not None:
            return page
        start = number * _PAGE_BYTES
        below = b""
        if self._base is not None and start < self._base_bytes:
            directory, name = self._base
            with directory.open_reading(name) as file:
                below = file.read_at(start, min(_PAGE_BYTES, self._base_bytes - start))
        return below.ljust(_PAGE_BYTES, b"\0")

    def data_from(self, position: int) -> int:
        pages = (max(number * _PAGE_BYTES, position) for number in self._pages if (number + 1) * _PAGE_BYTES > position)
        first = min(pages, default=self.size_bytes)
        if self._base is not None and position < self._base_bytes:
            directory, name = self._base
            with directory.open_reading(name) as file:
                below = file.data_from(position)
            first = min(first, below if below < self._base_bytes else self.size_bytes)
        return max(min(first, self.size_bytes), position)

    def write(self, position: int, data: memoryview) -> None:
        while data:
            number, start = divmod(position, _PAGE_BYTES)
            page = self._pages.setdefault(number, bytearray(self._page(number)))
            part = data[: _PAGE_BYTES - start]
            page[start : start + len(part)] = part
            position += len(part)
            data = data[len(part) :]
        self.size_bytes = max(self.size_bytes, position)

    def resize(self, size_bytes: int) -> None:
        if size_bytes < self.size_bytes:
            self._base_bytes = min(self._base_bytes, size_bytes)
            last, within = divmod(size_bytes, _PAGE_BYTES)
            self._pages = {number: page for number, page in self._pages.items() if number * _PAGE_BYTES < size_bytes}
            if last in self._pages:
                self._pages[last][within:] = bytes(_PAGE_BYTES - within)
        self.size_bytes = size_bytes


class _OverlayFile(WritableFile):
    """A file of an overlay."""

    def __init__(self, path: str, content: _Content) -> None:
        super().__init__(path, -1)
        self._content = content

    def size_bytes(self) -> int:
        """Return the file's length now."""
        return self._content.size_bytes

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read bytes from the position."""
        return self._content.read(position, size_bytes)

    def data_from(self, position: int) -> int:
        """Return the first position from this one on that is not in a hole."""
        return self._content.data_from(position)

    def hole_from(self, position: int) -> int:
        """Return the file's length: its holes are not told of."""
        return max(self._content.size_bytes, position)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write the buffers one after the other."""
        for buffer in buffers:
            data = memoryview(buffer).cast("B")
            if data:
                self._content.write(position, data)
            position += data.nbytes

    def truncate(self, size_bytes: int) -> None:
        """Set the file's length."""
        self._content.resize(size_bytes)

    def allocate(self, size_bytes: int, *, begin: int = 0) -> None:  # noqa: ARG002 -- as in WritableFile
        """Refuse."""
        _refuse(self.path)

    def set_modified(self, modified_ms: int) -> None:
        """Do nothing: a changed file has no time here."""

    def sync(self) -> None:
        """Do nothing: there is no disk to wait for."""

    def region(self, size_bytes: int) -> FileRegion:  # noqa: ARG002 -- as in WritableFile
        """Refuse."""
        _refuse(self.path)


def _refuse(path: str) -> NoReturn:
    raise io.UnsupportedOperation(f"{path}: a plan does not write")
