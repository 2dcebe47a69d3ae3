"""Small files by their paths; `Directory` says what is promised of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from storage.errors import StorageError
    from storage.files.system import Files


def read_small_file(files: Files, path: str | os.PathLike[str], refusal: type[StorageError]) -> bytes:
    """Do as `Directory.read_small` with the file of a path."""
    directory, name = files.parent(path)
    return directory.read_small(name, refusal)


def replace_file(files: Files, path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Do as `Directory.replace` with the file of a path."""
    directory, name = files.parent(path)
    directory.replace(name, data, sync=sync)
