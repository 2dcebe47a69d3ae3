"""Producer snapshots: `.snapshot` files with the states of all producers before the offset in their name.

A snapshot keeps only the last batch of a producer. Its entries are in ascending order of producer ids; a broker's are
in the order of its hash table, and no reader depends on it. `producers` decides when to write one.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptSnapshotError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.log.producers.state import CachedBatch, ProducerState
from storage.record.kernel.crc32c import crc32c
from storage.record.layout import NO_SEQUENCE
from storage.segment.names import FileName, FileSuffix, Kind, live_offsets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from storage.files import Directory

_VERSION: Final = 1
_new: Final = tuple.__new__  # takes half the time of a named tuple's own, of which there may be a million
_NONE: Final = -1
_HEADER: Final = Struct(">hI")  # version, CRC-32C of everything after these
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(
    ">"
    "q"  # producer id
    "h"  # producer epoch
    "i"  # last sequence, -1 for none
    "q"  # last offset, -1 for none
    "i"  # offset delta: how far before the last offset the last batch begins
    "q"  # timestamp of the last batch or marker
    "i"  # coordinator epoch of the last marker, -1 for none
    "q"  # first offset of the open transaction, -1 for none
)


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Encode a snapshot."""
    entries = [_encode(state) for state in sorted(states, key=lambda state: state.producer_id)]
    covered = b"".join((_COUNT.pack(len(entries)), *entries))
    return _HEADER.pack(_VERSION, crc32c(covered)) + covered


def decode_snapshot(data: bytes) -> list[ProducerState]:
    """Return the states in a snapshot, in its order; raises `CorruptSnapshotError`."""
    return list(snapshot_entries(data))


def snapshot_entries(data: bytes) -> Iterator[ProducerState]:
    """Yield the states in a snapshot, in its order; raises `CorruptSnapshotError` before the first of them."""
    entries_at = _HEADER.size + _COUNT.size
    if len(data) < entries_at:
        raise CorruptSnapshotError(f"the snapshot ends after {len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"the snapshot's version is {version}, known is {_VERSION}")
    actual = crc32c(memoryview(data)[_HEADER.size :])
    if actual != crc:
        raise CorruptSnapshotError(f"the snapshot's bytes have CRC {actual:08x}, its header says {crc:08x}")
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    if len(data) != entries_at + count * _ENTRY.size:
        raise CorruptSnapshotError(f"the snapshot declares {count} producers and has {len(data)} bytes")
    yield from map(_decode, _ENTRY.iter_unpack(memoryview(data)[entries_at:]))


def read_snapshot(directory: Directory, name: str) -> bytes:
    """Read a snapshot's file for `decode_snapshot`; of an unknown version only the header.

    Raises `CorruptSnapshotError`, having read only the header, if the file does not have the size that the header says,
    or is larger than `SNAPSHOT_BYTES_MAX`.
    """
    entries_at = _HEADER.size + _COUNT.size
    with directory.open_reading(name) as file:
        size_bytes = file.size_bytes()
        header = file.read_at(0, entries_at)
        if len(header) == entries_at:
            if _HEADER.unpack_from(header)[0] != _VERSION:
                return header
            (count,) = _COUNT.unpack_from(header, _HEADER.size)
            if size_bytes != entries_at + count * _ENTRY.size:
                raise CorruptSnapshotError(f"the snapshot declares {count} producers and has {size_bytes} bytes")
            if size_bytes > SNAPSHOT_BYTES_MAX:
                raise CorruptSnapshotError(
                    f"the snapshot has {size_bytes} bytes, and one is read up to {SNAPSHOT_BYTES_MAX}"
                )
        return file.read_at(0, size_bytes)


class SnapshotFiles:
    """The snapshots in a partition's directory; `offsets` are those in their names, ascending.

    With `read_only` no file is ever changed: snapshots that would be removed are only left out of `offsets`.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        read_only: bool = False,
        offsets: Iterable[int] | None = None,
    ) -> None:
        """List the directory, unless the caller passes the snapshots' `offsets`."""
        self._directory = directory
        self._read_only = read_only
        self.offsets = live_offsets(directory.names(), Kind.SNAPSHOT) if offsets is None else sorted(offsets)
        # A dictionary, since an empty set takes three times its memory, and there is one for each log.
        self._unsynced: dict[int, None] = {}
        self._syncing = Lock()  # held until unsynced snapshots are on disk, so that no thread returns sooner

    @property
    def latest(self) -> int | None:
        """The offset of the newest snapshot."""
        return self.offsets[-1] if self.offsets else None

    def count(self, offset: int) -> int:
        """Return how many producers the snapshot of an offset may have, by its size."""
        status = self._directory.status(_name(offset))
        return 0 if status is None else min(status.size_bytes, SNAPSHOT_BYTES_MAX) // _ENTRY.size

    def read(self, offset: int) -> list[ProducerState]:
        """Return the states before an offset; raises `CorruptSnapshotError`."""
        name = _name(offset)
        try:
            return decode_snapshot(read_snapshot(self._directory, name))
        except CorruptSnapshotError as error:
            raise error.located(path=self._directory.path_of(name)) from None

    def write(self, offset: int, states: Iterable[ProducerState], *, sync: bool) -> None:
        """Write the states before an offset. Without `sync` a loss of power may take them until `sync` is called."""
        assert not self._read_only
        self._directory.replace(_name(offset), encode_snapshot(states), sync=sync)
        if not sync:
            self._unsynced[offset] = None
        self._add(offset)

    def sync(self) -> None:
        """Bring every snapshot that still exists to disk. Any thread may call this."""
        with self._syncing:
            is_changed = bool(self._unsynced)
            while self._unsynced:
                name = _name(self._unsynced.popitem()[0])
                with suppress(FileNotFoundError), self._directory.open_writing(name) as file:
                    file.sync()
            if is_changed:
                self._directory.sync()

    def remove(self, offset: int) -> None:
        """Remove a snapshot."""
        self.remove_all((offset,))

    def remove_all(self, offsets: Iterable[int]) -> None:
        """Remove several snapshots."""
        removed = frozenset(offsets)
        self.offsets = [offset for offset in self.offsets if offset not in removed]
        for offset in sorted(removed):
            self._remove_file(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """Rename the snapshot of a deleted segment, for removal together with that segment's files."""
        assert not self._read_only
        index = self._index(offset)
        if offset not in self.offsets[index : index + 1]:
            return None
        del self.offsets[index]
        deleted = _name(offset, FileSuffix.DELETED)
        self._directory.rename(_name(offset), deleted)
        return deleted

    def remove_strays(self, base_offsets: Collection[int]) -> None:
        """Remove the snapshots that belong to no segment, except the newest if it lies beyond the last segment's base.

        A clean shutdown wrote that one.
        """
        self.remove_all(self.strays(base_offsets))

    def strays(self, base_offsets: Collection[int]) -> list[int]:
        """Return the offsets of the snapshots that `remove_strays` would remove."""
        bases = frozenset(base_offsets)
        strays = [offset for offset in self.offsets if offset not in bases]
        if strays and strays[-1] >= max(bases, default=0):
            strays.pop()
        return strays

    def is_readable(self, offset: int) -> bool:
        """True if the states before an offset can be read."""
        try:
            self.read(offset)
        except (CorruptSnapshotError, FileNotFoundError):
            return False
        return True

    def _index(self, offset: int) -> int:
        """Return the index of an offset in `offsets`, or where it belongs there."""
        return bisect_left(self.offsets, offset)

    def _add(self, offset: int) -> None:
        index = self._index(offset)
        if offset not in self.offsets[index : index + 1]:
            self.offsets.insert(index, offset)

    def _remove_file(self, offset: int) -> None:
        if not self._read_only:
            with suppress(FileNotFoundError):
                self._directory.remove(_name(offset))


def _name(offset: int, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return str(FileName(offset, Kind.SNAPSHOT, suffix))


def _encode(state: ProducerState) -> bytes:
    last = state.batches[-1] if state.batches else CachedBatch(NO_SEQUENCE, _NONE, 0, state.last_timestamp)
    return _ENTRY.pack(
        state.producer_id,
        state.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        state.last_timestamp,
        state.coordinator_epoch,
        _NONE if state.transaction_offset is None else state.transaction_offset,
    )


def _decode(fields: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, transaction = fields
    batches: tuple[CachedBatch, ...] = ()
    if last_offset >= 0:
        batches = (_new(CachedBatch, (last_sequence, last_offset, offset_delta, timestamp)),)
    opens = transaction if transaction >= 0 else None
    return _new(ProducerState, (producer_id, epoch, coordinator_epoch, timestamp, opens, batches))
