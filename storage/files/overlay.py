"""Planned changes of files: they are kept in memory, and not one byte of the files below changes.

Recovery runs over them to say what it would do. Written data takes memory; cutting, renaming and removing take none.
A plan does not go on to write: making and removing directories, allocating and mapping raise `UnsupportedOperation`.
"""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Final, NoReturn

from storage.errors import SymbolicLinkError
from storage.files.opened import FileStatus, ReadableFile, WritableFile
from storage.files.ownership import Access, access_of, terms_of_file
from storage.files.paths import PathDirectory
from storage.files.system import Files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.files.directory import Directory
    from storage.files.opened import FileLock, MappedRegion

_PAGE_BYTES: Final = 64 * 1024


class OverlayFiles(Files):
    """The files of another `Files`, with the changes that were made here."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._contents: dict[str, _Content | None] = {}  # by path, None for what was removed

    def add_root(self, directory: str | os.PathLike[str]) -> Directory:
        """Name a directory as a user did, and return it."""
        self._files.add_root(directory)
        return super().add_root(directory)

    def directory(self, path: str | os.PathLike[str]) -> PathDirectory:
        """Return the directory of a path, which need not exist."""
        return PathDirectory(self, path)

    def parent(self, path: str | os.PathLike[str]) -> tuple[PathDirectory, str]:
        """Return the directory of a file, and the file's name in it."""
        parent, name = os.path.split(path)
        return PathDirectory(self, parent), name

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        """Open an existing file for reading."""
        name = os.fspath(path)
        if name not in self._contents:
            return self._files.open_reading(path)
        return _OverlayFile(name, self._present(name))

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        """Open a file for writing, or make an empty one; `exclusive` refuses one that exists."""
        name = os.fspath(path)
        exists = self.status(name) is not None
        if exists and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if not exists and create:
            parent, leaf = os.path.split(name)
            terms = terms_of_file(self.directory(parent), leaf, os.geteuid())
            made = Access(os.geteuid(), os.getegid(), terms.making_mode)
            self._contents[name] = _Content(self._files, None, 0, terms.settled(made))
        return _OverlayFile(name, self._present(name))

    def _present(self, name: str) -> _Content:
        """Return the contents of an existing file, to be changed."""
        if name not in self._contents:
            status = self._files.status(name)
            if status is not None and status.is_link:
                raise SymbolicLinkError(name)
            if status is not None:
                self._contents[name] = _Content(self._files, name, status.size_bytes, access_of(status))
        content = self._contents.get(name)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return content

    def status(self, path: str | os.PathLike[str]) -> FileStatus | None:
        """Return what is known of a path. A file that was made or changed here has no time."""
        name = os.fspath(path)
        if name not in self._contents:
            return self._files.status(path)
        content = self._contents[name]
        if content is None:
            return None
        access = content.access
        return FileStatus(
            content.size_bytes, 0, False, (0, id(content)), uid=access.uid, gid=access.gid, mode=access.mode
        )

    def names(self, directory: str | os.PathLike[str]) -> list[str]:
        """List the names in a directory, in no order."""
        names = set(self._files.names(directory))
        for path, content in self._contents.items():
            parent, leaf = os.path.split(path)
            if parent == os.fspath(directory):
                names.discard(leaf)
                if content is not None:
                    names.add(leaf)
        return list(names)

    def links(self, directory: str | os.PathLike[str]) -> list[str]:
        """List the symbolic links in a directory, in no order."""
        parent = os.fspath(directory)
        return [name for name in self._files.links(directory) if f"{parent}/{name}" not in self._contents]

    def rename(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        """Rename a file. A file that has the new name is replaced."""
        content = self._present(os.fspath(old))
        self._contents[os.fspath(old)] = None
        self._contents[os.fspath(new)] = content

    def remove(self, path: str | os.PathLike[str]) -> None:
        """Unlink a file."""
        self._present(os.fspath(path))
        self._contents[os.fspath(path)] = None

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: there is no disk to wait for."""

    def make_directory(self, path: str | os.PathLike[str], *, like: str | os.PathLike[str] | None = None) -> None:  # noqa: ARG002 -- as in Files
        """Refuse."""
        _refuse(path)

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        """Refuse."""
        _refuse(path)

    def lock(self, path: str | os.PathLike[str]) -> FileLock:
        """Refuse: a plan keeps no other process out."""
        _refuse(path)

    def check_can_give(self, directory: str | os.PathLike[str]) -> None:
        """Do nothing: a planned file needs no owner."""

    def is_locked(self, path: str | os.PathLike[str]) -> bool:
        """Return True if another process has that lock."""
        return self._files.is_locked(path)

    def free_bytes(self, path: str | os.PathLike[str]) -> int:
        """Return the space that the path's file system has left."""
        return self._files.free_bytes(path)


class _Content:
    """The bytes of a file: written pages, over the beginning of a file that does not change."""

    def __init__(self, files: Files, base: str | None, size_bytes: int, access: Access) -> None:
        self.size_bytes = size_bytes
        self.access = access
        self._files = files
        self._base = base
        self._base_bytes = size_bytes  # of the file below, as many as are still to be seen
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
            with self._files.open_reading(self._base) as file:
                below = file.read_at(start, min(_PAGE_BYTES, self._base_bytes - start))
        return below.ljust(_PAGE_BYTES, b"\0")

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

    def map(self, size_bytes: int) -> MappedRegion:  # noqa: ARG002 -- as in WritableFile
        """Refuse."""
        _refuse(self.path)


def _refuse(path: str | os.PathLike[str]) -> NoReturn:
    raise io.UnsupportedOperation(f"{os.fspath(path)}: who plans does not go on writing")
