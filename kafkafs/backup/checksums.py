"""The checksums of files, as `sha256sum` prints them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage.files import Directory

_PIECE_BYTES: Final = 1024 * 1024


def sha256_of(directory: Directory, name: str, size_bytes: int) -> str:
    """Return the checksum of a file's first bytes, all of them if it is no longer."""
    found = hashlib.sha256()
    with directory.open_reading(name) as file:
        position = 0
        while position < size_bytes and (piece := file.read_at(position, min(_PIECE_BYTES, size_bytes - position))):
            found.update(piece)
            position += len(piece)
    return found.hexdigest()
