"""The operations on paths that the modules of this room ask of `Files`, which stands above them."""

# ruff: noqa: D102 -- `Files` has the docstrings

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import os
    from typing import TypeAlias

    from storage.files.opened import FileLock, FileStatus, ReadableFile, WritableFile

    StrPath: TypeAlias = str | os.PathLike[str]


class Operations(Protocol):
    """`Files`, which says what each operation promises, as seen from the modules that it is made of."""

    def open_reading(self, path: StrPath, /) -> ReadableFile: ...

    def open_writing(self, path: StrPath, /, *, create: bool = ..., exclusive: bool = ...) -> WritableFile: ...

    def status(self, path: StrPath, /) -> FileStatus | None: ...

    def names(self, directory: StrPath, /) -> list[str]: ...

    def links(self, directory: StrPath, /) -> list[str]: ...

    def rename(self, old: StrPath, new: StrPath, /) -> None: ...

    def remove(self, path: StrPath, /) -> None: ...

    def make_directory(self, path: StrPath, /, *, like: StrPath | None = ...) -> None: ...

    def remove_directory(self, path: StrPath, /) -> None: ...

    def sync_directory(self, path: StrPath, /) -> None: ...

    def lock(self, path: StrPath, /) -> FileLock: ...

    def is_locked(self, path: StrPath, /) -> bool: ...

    def free_bytes(self, path: StrPath, /) -> int: ...

    def check_can_give(self, directory: StrPath, /) -> None: ...
