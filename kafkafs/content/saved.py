"""Counts, saved as files in a directory of the user's own.

These files only save work: one that cannot be written, is incomplete or of another version is ignored. Together they
have a largest size; beyond it the oldest are removed.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import zlib
from array import array
from contextlib import suppress
from pathlib import Path
from struct import Struct, error
from typing import TYPE_CHECKING, Final

from kafkafs.content.counted_file import CountedFile, Mark, Probe
from storage.files import TEMPORARY_SUFFIX, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from storage.files import Files

TOTAL_BYTES_MAX: Final = 64 * 1024 * 1024
SUFFIX: Final = ".sizes"

_MAGIC: Final = b"kafkafs sizes 2\n"  # with the version
_CHECKSUM: Final = Struct("<I")
_KEY: Final = Struct("<I")
# Base offset, device, inode, rendered end, end position, end offset, probe position, size of the header, marks.
_FILE: Final = Struct("<qQQqqqqII")

logger = logging.getLogger(__name__)


def cache_directory(environment: Mapping[str, str]) -> Path | None:
    """Return kafkafs' directory in the user's cache directory; None if nothing says where that is."""
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():
        return base / "kafkafs"
    home = Path(environment.get("HOME", ""))
    return home / ".cache" / "kafkafs" if home.is_absolute() else None


class SavedSizes:
    """The files in one directory, by key."""

    def __init__(self, files: Files, directory: Path, *, total_bytes_max: int = TOTAL_BYTES_MAX) -> None:
        self._files = files
        self._directory = directory
        self._total_bytes_max = total_bytes_max

    def load(self, key: str) -> list[CountedFile]:
        """Return the last saved counts, empty if there are none."""
        try:
            data = self._files.read(self._path(key))
        except OSError:
            return []
        try:
            return list(_decoded(data, key))
        except (ValueError, error):
            logger.info("%s is incomplete, so its file is counted again", self._path(key))
            return []

    def save(self, key: str, counted: Iterable[CountedFile]) -> None:
        """Replace the saved counts, if possible."""
        data = _encoded(key, counted)
        try:
            self._make_directory()
            replace_file(self._files, self._path(key), data, sync=False)
            self._remove_oldest()
        except OSError as problem:
            logger.debug("sizes are not kept: %s", problem)

    def _path(self, key: str) -> Path:
        return self._directory / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}{SUFFIX}"

    def _make_directory(self) -> None:
        for directory in (self._directory.parent, self._directory):
            if self._files.status(directory) is None:
                with suppress(FileExistsError):
                    self._files.make_directory(directory)

    def _remove_oldest(self) -> None:
        names = [name for name in self._files.names(self._directory) if name.endswith((SUFFIX, TEMPORARY_SUFFIX))]
        paths = [self._directory / name for name in names]
        found = [
            (status.modified_ms, status.size_bytes, path) for path in paths if (status := self._files.status(path))
        ]
        left_bytes = sum(size_bytes for _, size_bytes, _ in found) - self._total_bytes_max
        for _, size_bytes, path in sorted(found):
            if left_bytes <= 0:
                return
            with suppress(FileNotFoundError):
                self._files.remove(path)
            left_bytes -= size_bytes


def _encoded(key: str, counted: Iterable[CountedFile]) -> bytes:
    name = key.encode("utf-8", "surrogateescape")
    parts = [_KEY.pack(len(name)), name]
    for each in counted:
        # Counts may grow meanwhile, but never change.
        probe, end, end_offset = each.probe, each.end, each.end_offset
        positions, rendered = each.marks
        parts.append(
            _FILE.pack(
                each.base_offset,
                *each.identity,
                end.rendered,
                end.position,
                end_offset,
                probe.position,
                len(probe.header),
                len(positions),
            )
        )
        parts += probe.header, _little(positions).tobytes(), _little(rendered).tobytes()
    body = b"".join(parts)
    return b"".join([_MAGIC, _CHECKSUM.pack(zlib.crc32(body)), body])


def _decoded(data: bytes, key: str) -> Iterator[CountedFile]:
    """Yield the file's counts; raises `ValueError` or `struct.error` if it is not ours, or incomplete."""
    body = data[len(_MAGIC) + _CHECKSUM.size :]
    if not data.startswith(_MAGIC) or _CHECKSUM.pack(zlib.crc32(body)) != data[len(_MAGIC) : -len(body) or None]:
        raise ValueError("the file does not have its checksum")
    (key_bytes,) = _KEY.unpack_from(body)
    at = _KEY.size + key_bytes
    if body[_KEY.size : at] != key.encode("utf-8", "surrogateescape"):
        raise ValueError("the file is about something else")
    while at < len(body):
        base, device, inode, rendered, position, end_offset, probe, header_bytes, marks = _FILE.unpack_from(body, at)
        at += _FILE.size
        header = body[at : at + header_bytes]
        at += header_bytes
        arrays = array("q"), array("q")
        for each in arrays:
            each.frombytes(body[at : at + marks * each.itemsize])
            at += marks * each.itemsize
        marked = _little(arrays[0]), _little(arrays[1])
        counted = CountedFile.restored(base, (device, inode), marked, Mark(position, rendered), Probe(probe, header))
        counted.end_offset = end_offset
        yield counted


def _little(numbers: array[int]) -> array[int]:
    """The numbers with their bytes in the order of the file, or back."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
