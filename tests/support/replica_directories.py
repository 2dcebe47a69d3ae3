"""Replicas of a partition in memory, written batch by batch, and damaged where a test wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.record import BatchForm, batches_of_rows
from storage.record.compression import Codec
from storage.record.legacy_encoding import encode_entries, encode_wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory
    from storage.testing.memory_files import MemoryFiles

TIME_MS: Final = 1_700_000_000_000


class _Placed(NamedTuple):
    """A record of an old entry."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class Written(NamedTuple):
    """A batch: its leader epoch, and the timestamps of its records, of which there is one an offset.

    The values are the offsets after `history`. One of a `magic` below 2 is an old
    entry, compressed if it has several records.
    """

    epoch: int
    timestamps: tuple[int, ...] = (TIME_MS,)
    history: bytes = b""
    magic: int = 2

    def encode(self, offset: int) -> bytes:
        """Return the bytes of the batch that begins at the offset."""
        rows = [
            (time_ms, None, b"%s%d" % (self.history, offset + index), ())
            for index, time_ms in enumerate(self.timestamps)
        ]
        if self.magic < 2:
            records = [_Placed(offset + index, *row[:3]) for index, row in enumerate(rows)]
            if len(records) == 1:
                return encode_entries(records, self.magic)
            return encode_wrapper(records, self.magic, Codec.GZIP)
        (batch,) = batches_of_rows(rows, base_offset=offset, form=BatchForm(leader_epoch=self.epoch))
        return batch


@dataclass
class ReplicaDirectory:
    """A partition's directory with a segment for every so many batches. Equal batches have equal bytes."""

    files: MemoryFiles
    path: str
    batches: Sequence[Written]
    a_segment: int = 2

    def __post_init__(self) -> None:
        self.files.make_directory(self.path)
        self.places: list[tuple[str, int, int]] = []  # of each batch: its file, position and size
        self.offsets: list[int] = []
        offset, name, position = 0, "", 0
        for number, written in enumerate(self.batches):
            if number % self.a_segment == 0:
                name, position = f"{offset:020d}.log", 0
            batch = written.encode(offset)
            with self.files.open_writing(f"{self.path}/{name}", create=True) as file:
                file.write_at(position, [batch])
            self.places.append((name, position, len(batch)))
            self.offsets.append(offset)
            position += len(batch)
            offset += len(written.timestamps)
        self.end_offset = offset
        self.sync()

    def sync(self) -> None:
        """Bring all of it to disk."""
        for name in self.directory.names():
            with self.files.open_writing(f"{self.path}/{name}") as file:
                file.sync()
        self.directory.sync()

    @property
    def directory(self) -> Directory:
        return self.files.directory(self.path)

    def damage(self, number: int) -> None:
        """Change a byte in the middle of a batch."""
        name, position, size_bytes = self.places[number]
        with self.files.open_writing(f"{self.path}/{name}") as file:
            byte = file.read_at(position + size_bytes - 1, 1)
            file.write_at(position + size_bytes - 1, [bytes([byte[0] ^ 0xFF])])

    def lose_segment(self, number: int) -> None:
        """Remove the segment that has a batch."""
        self.files.remove(f"{self.path}/{self.places[number][0]}")
