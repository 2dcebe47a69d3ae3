"""Small files that are replaced whole: whoever reads one, after whatever crash, finds the old contents or the new."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.files import Files

TEMPORARY_SUFFIX: Final = ".tmp"


def replace_file(files: Files, path: str | os.PathLike[str], data: bytes, *, sync: bool = True) -> None:
    """Give the file these contents, by way of a temporary file beside it.

    With `sync` they are on disk when this returns. Without, the death of the process still leaves the one or the
    other, but a loss of power can leave the file with any contents. An error leaves the old or the new ones, whole.
    """
    temporary = f"{os.fspath(path)}{TEMPORARY_SUFFIX}"
    try:
        with files.open_writing(temporary, create=True) as file:
            file.truncate(0)
            file.write_at(0, [data])
            if sync:
                file.sync()
        files.rename(temporary, path)
    except OSError:
        with suppress(OSError):
            files.remove(temporary)
        raise
    if sync:
        files.sync_directory(Path(path).parent)
