"""The manifest of a run: what it is a copy of, each of its files with a checksum, and what the file was copied from.

It is a file of JSON lines at the top of the run: what the run is, a line for each partition, written once the partition
is complete and on disk, and at the end the files outside of partitions, with a checksum of all lines before. So an
unfinished run says what of it is usable, and a later run finds the files that it can share.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from kafkafs.backup.errors import DamagedRunError
from storage.log_dir import RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from storage.files import Directory, ReadableFile, WritableFile
    from storage.log_dir import Partition

_VERSION: Final = 1
_PIECE_BYTES: Final = 1024 * 1024
_LINE_BYTES_MAX: Final = 256 * 1024 * 1024  # a partition of a million files


class SourceFile(NamedTuple):
    """What tells whether a file of a store is still the one that was copied: its inode, size and time of change."""

    inode: int
    size_bytes: int
    changed_ns: int


class RunFile(NamedTuple):
    """A file of a run. `source` is None for one that was made for the run, or whose source was changing."""

    name: str
    size_bytes: int
    sha256: str
    source: SourceFile | None = None

    def to_json(self) -> dict[str, object]:
        """Return the file as the manifest has it."""
        said: dict[str, object] = {"name": self.name, "bytes": self.size_bytes, "sha256": self.sha256}
        return said if self.source is None else {**said, "source": list(self.source)}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Return the file that the manifest describes."""
        source = said.get("source")
        return cls(
            str(said["name"]),
            int(said["bytes"]),
            str(said["sha256"]),
            None if source is None else SourceFile(*map(int, source)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPartition:
    """A partition of a run: its offsets, its files, and what was found damaged in the source and copied as it is.

    `high_watermark` is what the copy was to go up to; None if it goes to the end of the log. `above_high_watermark` is
    how many offsets of the log were left out for it; 0 in the manifest of a version that did not count them.
    """

    topic: str
    partition: int
    topic_id: str | None
    log_dir: str
    start_offset: int
    end_offset: int
    high_watermark: int | None
    above_high_watermark: int
    first_dirty_offset: int | None
    files: tuple[RunFile, ...]
    damage: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(file.size_bytes for file in self.files)

    def to_json(self) -> dict[str, object]:
        """Return the partition as a line of the manifest."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "topicId": self.topic_id,
            "logDir": self.log_dir,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "highWatermark": self.high_watermark,
            "aboveHighWatermark": self.above_high_watermark,
            "firstDirtyOffset": self.first_dirty_offset,
            "damage": list(self.damage),
            "files": [file.to_json() for file in self.files],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Return the partition that a line of the manifest describes."""
        return cls(
            topic=str(said["topic"]),
            partition=int(said["partition"]),
            topic_id=said["topicId"],
            log_dir=str(said["logDir"]),
            start_offset=int(said["startOffset"]),
            end_offset=int(said["endOffset"]),
            high_watermark=said["highWatermark"],
            above_high_watermark=int(said.get("aboveHighWatermark", 0)),
            first_dirty_offset=said["firstDirtyOffset"],
            damage=tuple(map(str, said["damage"])),
            files=tuple(map(RunFile.from_json, said["files"])),
        )


class ManifestWriter:
    """Writes the manifest of a new run, line by line; an error may leave a part of the last line."""

    def __init__(self, directory: Directory, head: Mapping[str, object]) -> None:
        self._file: WritableFile = directory.open_writing(RUN_MANIFEST_NAME, create=True, exclusive=True)
        self._position = 0
        self._hash = hashlib.sha256()
        self._write({"version": _VERSION, **head})

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

    def _write(self, said: Mapping[str, object]) -> None:
        line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        self._file.write_at(self._position, [line])
        self._position += len(line)
        self._hash.update(line)


@dataclass(slots=True)
class Manifest:
    """The manifest of a run. Its partitions are read from the file when they are asked for.

    `head` and `tail` are the first and the last line; `tail` is None for a run that was not finished.
    """

    directory: Directory
    head: Mapping[str, Any] = field(default_factory=dict)
    tail: Mapping[str, Any] | None = None
    _positions: dict[Partition, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Directory) -> Self:
        """Read a run's manifest; raises `DamagedRunError` if it is not what kafkafs writes, and `OSError`.

        Of a run that was not finished the whole lines count.
        """
        manifest = cls(directory)
        lines = hashlib.sha256()
        with directory.open_reading(RUN_MANIFEST_NAME) as file:
            for position, line in _lines(file):
                if manifest.tail is not None:
                    raise manifest._damaged("lines follow its end")
                said = manifest._parsed(line)
                if position == 0:
                    manifest._take_head(said)
                elif said.get("isComplete") is True:
                    if said.get("linesSha256") != lines.hexdigest():
                        raise manifest._damaged("its lines do not have the checksum in its last line")
                    manifest.tail = said
                    removed = set(said.get("removed", ()))
                    manifest._positions = {
                        each: at for each, at in manifest._positions.items() if f"{each[0]}-{each[1]}" not in removed
                    }
                else:
                    partition = manifest._partition(said)
                    manifest._positions[partition.topic, partition.partition] = (position, len(line))
                lines.update(line)
        if not manifest.head:
            raise manifest._damaged("it is empty")
        return manifest

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
            return self._partition(self._parsed(file.read_at(*place)))

    def top_files(self) -> list[RunFile]:
        """Return the files outside of partitions."""
        assert self.tail is not None
        try:
            return [RunFile.from_json(each) for each in self.tail["files"]]
        except (LookupError, ValueError, TypeError, AttributeError):
            raise self._damaged("a file in it has no name, size or checksum") from None

    def _take_head(self, said: Mapping[str, Any]) -> None:
        if said.get("version") != _VERSION:
            raise self._damaged(f"its version is {str(said.get('version'))[:20]}, known is {_VERSION}")
        self.head = said

    def _partition(self, said: Mapping[str, Any]) -> RunPartition:
        try:
            return RunPartition.from_json(said)
        except (LookupError, ValueError, TypeError, AttributeError):
            raise self._damaged("a partition in it lacks a field") from None

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            said: object = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise self._damaged("a line in it is no JSON object")
        return said

    def _damaged(self, reason: str) -> DamagedRunError:
        return DamagedRunError(f"the manifest of the run is damaged: {reason}", path=self.directory.path)


def _lines(file: ReadableFile) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file, each with its position."""
    position, buffer = 0, b""
    while piece := file.read_at(position + len(buffer), _PIECE_BYTES):
        buffer += piece
        *whole, rest = buffer.split(b"\n")
        for line in whole:
            yield position, line + b"\n"
            position += len(line) + 1
        buffer = rest
        if len(buffer) > _LINE_BYTES_MAX:
            raise DamagedRunError("the manifest of the run is damaged: a line in it does not end", path=file.path)


def sha256_of(directory: Directory, name: str, size_bytes: int) -> str:
    """Return the checksum of a file's first bytes as `sha256sum` prints it, of all if it is no longer."""
    found = hashlib.sha256()
    with directory.open_reading(name) as file:
        position = 0
        while position < size_bytes and (piece := file.read_at(position, min(_PIECE_BYTES, size_bytes - position))):
            found.update(piece)
            position += len(piece)
    return found.hexdigest()
