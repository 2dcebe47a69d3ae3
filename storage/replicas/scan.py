"""A partition's directory read from end to end: which of its batches are sound, and what is in their place elsewhere.

Nothing is believed but the batches: no index, no recovery point, no clean-shutdown marker. The directory may be on a
failing disk: a file that cannot be read is damage from there to its end. No byte of it changes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import CorruptBatchError, CorruptCheckpointError
from storage.log.epochs import EpochStart, LeaderEpochs
from storage.record.layout import NO_LEADER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from storage.segment.names import FileName, FileSuffix, Kind, parse_name, segments_named
from storage.segment.scan import GappedScan, LogScan, check_order, check_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from storage.files import Directory
    from storage.record.reading import Batch

_OFFSET_END = 2**63 - 1


class Run(NamedTuple):
    """Sound batches one after another in a file, with offsets from `first_offset` up to `next_offset`."""

    name: str
    base_offset: int  # of the segment
    begin: int
    end: int
    first_offset: int
    next_offset: int


class Damage(NamedTuple):
    """Bytes of a file, from a position on, that are no sound batch. `offset` is the one due there."""

    name: str
    position: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The sound part of a directory.

    `late_offset` is where the first batch with a record at or after the time that was asked for begins, None if there
    is none; then the scan ended before it, and nothing after it counts. `epochs` are the leader epochs of the batches
    and, as far as the batches go, of `leader-epoch-checkpoint`. `last_epoch` is that of the last batch, -1 if it has
    none. `checkpoint_epochs` are all of `leader-epoch-checkpoint`, none if that is damaged. `lacks_offsets` is true if
    the log has the gaps that compaction leaves.
    """

    directory: Directory
    base_offset: int
    runs: tuple[Run, ...]
    damages: tuple[Damage, ...]
    epochs: tuple[EpochStart, ...]
    last_epoch: int
    checkpoint_epochs: tuple[EpochStart, ...]
    late_offset: int | None
    lacks_offsets: bool
    largest_timestamp: int
    largest_producer_id: int
    size_bytes: int
    modified_ms: dict[str, int]

    @property
    def end_offset(self) -> int:
        """The offset after the last sound batch."""
        return self.runs[-1].next_offset if self.runs else self.base_offset


def scan_replica(
    directory: Directory,
    *,
    until_ms: int | None = None,
    undeletes: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> Replica:
    """Read a partition's directory; raises `OSError` if it cannot be listed.

    With `undeletes`, segments before the first one that were renamed to be deleted count too. `advance` is given the
    size of each file that was read.
    """
    scan = _Scan(directory, until_ms)
    for base_offset, name, next_base, is_swap in _segments(directory, undeletes=undeletes):
        scan.add(base_offset, name, next_base, is_swap=is_swap)
        advance(scan.modified_and_size(name)[1])
        if scan.late_offset is not None:
            break
    return scan.replica()


def _segments(directory: Directory, *, undeletes: bool) -> Iterator[tuple[int, str, int, bool]]:
    """Yield base offset, file, the next segment's base offset and whether it is a swap file, in order."""
    names = directory.names()
    found = [(each.base_offset, each.name(Kind.LOG), each.is_swap) for each in segments_named(names)]
    if undeletes:
        first = found[0][0] if found else _OFFSET_END
        parsed = (name for text in names if (name := parse_name(text)) is not None)
        deleted = (name for name in parsed if (name.kind, name.suffix) == (Kind.LOG, FileSuffix.DELETED))
        found = sorted((each.offset, str(each), False) for each in deleted if each.offset < first) + found
    for index, (base_offset, file, is_swap) in enumerate(found):
        next_base = found[index + 1][0] if index + 1 < len(found) else _OFFSET_END
        yield base_offset, file, _OFFSET_END if is_swap else next_base, is_swap


@dataclass(slots=True)
class _Scan:
    """A scan under way."""

    directory: Directory
    until_ms: int | None
    base_offset: int | None = None
    due_offset: int = 0
    late_offset: int | None = None
    lacks_offsets: bool = False
    largest_timestamp: int = NO_TIMESTAMP
    largest_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_LEADER_EPOCH
    is_after_swap: bool = False
    runs: list[Run] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    missing: list[Damage] = field(default_factory=list)
    epochs: list[EpochStart] = field(default_factory=list)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    _begin: int | None = None  # of the run under way
    _end: int = 0
    _first_offset: int = 0

    def modified_and_size(self, name: str) -> tuple[int, int]:
        """Return the time and the size of a file."""
        return self.files.get(name, (0, 0))

    def add(self, base_offset: int, name: str, next_base: int, *, is_swap: bool) -> None:
        """Read the next segment."""
        if self.base_offset is None:
            self.base_offset = self.due_offset = base_offset
        elif base_offset < self.due_offset and self.is_after_swap:
            return  # the segments before it have its records: a crash kept it from being removed
        elif base_offset > self.due_offset:
            reason = "no segment with these offsets is there"
            self.missing.append(Damage(str(FileName(self.due_offset, Kind.LOG)), 0, self.due_offset, reason))
            self.due_offset = base_offset
        self.is_after_swap = is_swap
        try:
            status = self.directory.status(name)
            if status is not None:
                self.files[name] = (status.modified_ms, status.size_bytes)
            self._read(base_offset, name, next_base)
        except OSError as error:
            self._close(name, base_offset)
            reason = error.strerror or type(error).__name__
            self.damages.append(Damage(name, self._end, self.due_offset, reason))

    def _read(self, base_offset: int, name: str, next_base: int) -> None:
        self._begin, self._end = None, 0
        with self.directory.open_reading(name) as file:
            scan = GappedScan(LogScan(file), base_offset)
            while not scan.is_done:
                damaged: Batch | None = None
                try:
                    for batch in scan:
                        damaged = batch
                        if not batch.crc_matches:
                            batch.check_crc()
                        check_place(batch, base_offset, next_base)
                        check_order(batch, self.due_offset)
                        damaged = None
                        if self._is_late(batch):
                            self._close(name, base_offset)
                            return
                        self._take(batch)
                except CorruptBatchError as error:
                    self._close(name, base_offset)
                    scan.next_offset = self.due_offset
                    gap = scan.gap_of(error, damaged)
                    # A broker that died leaves the beginning of a batch, or zeros, at the end of its last segment.
                    if gap.end is not None or not (gap.is_unused or (gap.is_overrun and next_base == _OFFSET_END)):
                        self.damages.append(Damage(name, gap.position, self.due_offset, gap.error.reason))
                    scan.resume(gap)
            self._close(name, base_offset)

    def _is_late(self, batch: Batch) -> bool:
        if self.until_ms is None or batch.max_timestamp < self.until_ms or batch.count == 0:
            return False
        self.late_offset = batch.read_first_offset()
        return True

    def _take(self, batch: Batch) -> None:
        if self._begin is None:
            self._begin, self._first_offset = batch.position, batch.read_first_offset()
        elif batch.count is not None and not self.lacks_offsets:
            self.lacks_offsets = batch.base_offset != self.due_offset or (
                batch.count <= batch.last_offset - batch.base_offset
            )
        self._end = batch.position + batch.size_bytes
        self.due_offset = batch.last_offset + 1
        self.largest_timestamp = max(self.largest_timestamp, batch.max_timestamp)
        self.largest_producer_id = max(self.largest_producer_id, batch.producer_id)
        if batch.leader_epoch > self.last_epoch:
            self.last_epoch = batch.leader_epoch
            self.epochs.append(EpochStart(batch.leader_epoch, batch.base_offset))

    def _all_epochs(self, known: Iterable[EpochStart]) -> tuple[EpochStart, ...]:
        """Return the epochs of the batches and of the checkpoint, whose entries say more where batches are gone."""
        starts = {each.epoch: each.offset for each in self.epochs}
        for each in known:
            if each.epoch <= self.last_epoch:
                starts[each.epoch] = min(each.offset, starts.get(each.epoch, each.offset))
        return tuple(EpochStart(epoch, offset) for epoch, offset in sorted(starts.items()))

    def _close(self, name: str, base_offset: int) -> None:
        """End the run under way."""
        if self._begin is not None:
            self.runs.append(Run(name, base_offset, self._begin, self._end, self._first_offset, self.due_offset))
            self._begin = None

    def replica(self) -> Replica:
        """Return what was found."""
        lacks = self.lacks_offsets
        damages = self.damages if lacks else sorted([*self.damages, *self.missing], key=lambda each: each.offset)
        known: tuple[EpochStart, ...] = ()
        with suppress(CorruptCheckpointError, OSError):
            known = LeaderEpochs.load(self.directory).entries
        return Replica(
            directory=self.directory,
            base_offset=self.base_offset or 0,
            runs=tuple(self.runs),
            damages=tuple(damages),
            epochs=self._all_epochs(known),
            last_epoch=self.last_epoch,
            checkpoint_epochs=known,
            late_offset=self.late_offset,
            lacks_offsets=lacks,
            largest_timestamp=self.largest_timestamp,
            largest_producer_id=self.largest_producer_id,
            size_bytes=sum(run.end - run.begin for run in self.runs),
            modified_ms={name: modified_ms for name, (modified_ms, _) in self.files.items()},
        )
