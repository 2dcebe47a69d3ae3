"""The manifest of a run: what it is a copy of, each of its files with a checksum, and what the file was copied from.

It is a file of JSON lines at the top of the run: what the run is, a line for each partition, written once the partition
is complete and on disk, and at the end the files outside of partitions, with a checksum of all lines before. So an
unfinished run says what of it is usable, and a later run finds the files that it can share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from kafkafs.backup.errors import BackupError, DamagedRunError
from kafkafs.backup.manifest_lines import (
    LINE_BYTES_MAX,
    VERSION,
    RunPartition,
    RunTail,
    check_version,
    line_of,
    parse_line,
)
from storage.files import TEMPORARY_SUFFIX, FileRange, copy_ranges
from storage.log_dir import RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from storage.files import Directory, ReadableFile, WritableFile
    from storage.log_dir import Partition

_PIECE_BYTES: Final = 1024 * 1024
_LINES_MAX: Final = 500_000  # of each, Python keeps up to a kilobyte
_TEMPORARY_NAME: Final = f"{RUN_MANIFEST_NAME}{TEMPORARY_SUFFIX}"


class ManifestWriter:
    """Writes the manifest of a new run, line by line; an error may leave a part of the last line."""

    def __init__(self, directory: Directory, head: Mapping[str, object]) -> None:
        self._file: WritableFile = directory.open_writing(RUN_MANIFEST_NAME, create=True, exclusive=True)
        self._position = 0
        self._hash = hashlib.sha256()
        self._write({"version": VERSION, **head})

    def add(self, partition: RunPartition) -> None:
        """Add a partition, whose files are complete and on disk."""
        self._write(partition.to_json())

    def finish(self, tail: Mapping[str, object]) -> None:
        """Write the last line, and bring the file to disk."""
        self._write({"isComplete": True, **tail, "linesSha256": self._hash.hexdigest()})
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def narrow(self, directory: Directory) -> None:
        """Go on in a file that grants no more than what is made by way of this directory, which is the same one."""
        copy_ranges([FileRange(directory, RUN_MANIFEST_NAME, 0, self._position)], directory, _TEMPORARY_NAME)
        directory.rename(_TEMPORARY_NAME, RUN_MANIFEST_NAME)
        self._file.close()
        self._file = directory.open_writing(RUN_MANIFEST_NAME)

    def _write(self, said: Mapping[str, object]) -> None:
        line = line_of(said)
        if len(line) > LINE_BYTES_MAX:
            reason = f"a line of the manifest would have {len(line)} bytes, and one is read up to {LINE_BYTES_MAX}"
            raise BackupError(reason, path=self._file.path)
        self._file.write_at(self._position, [line])
        self._position += len(line)
        self._hash.update(line)


@dataclass(slots=True)
class Manifest:
    """The manifest of a run. Its partitions are read from the file when they are asked for.

    `tail` is what the last line says; None for a run that was not finished.
    """

    directory: Directory
    tail: RunTail | None = None
    _positions: dict[Partition, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Directory) -> Self:
        """Read a run's manifest; raises `DamagedRunError` if it is not what kafkafs writes, and `OSError`.

        Of a run that was not finished the whole lines count.
        """
        manifest = cls(directory)
        lines, number = hashlib.sha256(), 0
        with directory.open_reading(RUN_MANIFEST_NAME) as file:
            for number, (position, line) in enumerate(_lines(file), 1):
                try:
                    manifest._take(number, position, line, lines.hexdigest)
                except ValueError as error:
                    raise _damaged(file.path, str(error)) from None
                lines.update(line)
        if not number:
            raise _damaged(directory.path_of(RUN_MANIFEST_NAME), "it is empty")
        return manifest

    def _take(self, number: int, position: int, line: bytes, sha256_before: Callable[[], str]) -> None:
        """Take in the next line; raises `ValueError`."""
        if self.tail is not None:
            raise ValueError("lines follow its end")
        if number > _LINES_MAX:
            raise ValueError(f"it has more than {_LINES_MAX} lines")
        said = parse_line(line)
        if number == 1:
            check_version(said)
        elif said.get("isComplete") is True:
            if said.get("linesSha256") != sha256_before():
                raise ValueError("its lines do not have the checksum in its last line")
            self.tail = tail = RunTail.from_json(said)
            self._positions = {
                each: at for each, at in self._positions.items() if f"{each[0]}-{each[1]}" not in tail.removed
            }
        else:
            found = RunPartition.from_json(said)
            self._positions[found.topic, found.partition] = (position, len(line))

    def partitions(self) -> Iterator[RunPartition]:
        """Yield the partitions in the order in which they were copied."""
        for partition in self._positions:
            found = self.partition(partition)
            assert found is not None
            yield found

    def names(self) -> set[str]:
        """Return the names of the partitions' directories."""
        return {f"{topic}-{number}" for topic, number in self._positions}

    def lacking(self, partitions: AbstractSet[Partition]) -> Iterator[RunPartition]:
        """Yield the partitions of the run that are not among these."""
        for each in self._positions.keys() - partitions:
            found = self.partition(each)
            assert found is not None
            yield found

    def partition(self, partition: Partition) -> RunPartition | None:
        """Return a partition, None if the run does not have it."""
        place = self._positions.get(partition)
        if place is None:
            return None
        with self.directory.open_reading(RUN_MANIFEST_NAME) as file:
            try:
                found = RunPartition.from_json(parse_line(file.read_at(*place)))
            except ValueError as error:
                raise _damaged(file.path, str(error)) from None
            if (found.topic, found.partition) != partition:
                raise _damaged(file.path, "it was changed while it was in use")
        return found


def _damaged(path: str, reason: str) -> DamagedRunError:
    return DamagedRunError(f"the manifest of the run is damaged: {reason}", path=path)


def _lines(file: ReadableFile) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file, each with its position."""
    begin, position = 0, 0
    parts: list[bytes] = []  # of a line that begins there
    while piece := file.read_at(position, _PIECE_BYTES):
        position += len(piece)
        first, *more = piece.split(b"\n")
        parts.append(first)
        for each in more:
            line = b"".join([*parts, b"\n"])
            yield begin, line
            begin += len(line)
            parts = [each]
        if position - begin > LINE_BYTES_MAX:
            raise _damaged(file.path, f"a line in it has more than {LINE_BYTES_MAX} bytes")


def sha256_of(directory: Directory, name: str, size_bytes: int) -> str:
    """Return the checksum of a file's first bytes as `sha256sum` prints it, of all if it is no longer."""
    found = hashlib.sha256()
    with directory.open_reading(name) as file:
        position = 0
        while position < size_bytes and (piece := file.read_at(position, min(_PIECE_BYTES, size_bytes - position))):
            found.update(piece)
            position += len(piece)
    return found.hexdigest()
