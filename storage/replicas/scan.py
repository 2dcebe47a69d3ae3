"""A partition's directory read from end to end: which of its batches are sound, and what is in their place elsewhere.

Nothing is believed but the batches: no index, no recovery point, no clean-shutdown marker. The directory may be on a
failing disk: a file that cannot be read is damage from there to its end, but for one that the user may not read. No
byte of it changes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage.errors import CorruptBatchError, CorruptCheckpointError, MisplacedBatchError
from storage.log.epochs import LeaderEpochs
from storage.offset_text import offsets_text
from storage.record.layout import LARGEST_OFFSET_DELTA, NO_PRODUCER_ID, NO_TIMESTAMP
from storage.replicas.digests import DigestMaker
from storage.replicas.epoch_order import EpochOrder
from storage.replicas.order import Damage, RunOrder
from storage.segment.names import FileName, FileSuffix, Kind, parsed, segments_named
from storage.segment.scan import GappedScan, LogScan, check_place
from storage.verify.batch_check import check_batch
from storage.verify.finding import FindingKind
from storage.verify.log_check import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from storage.files import Directory
    from storage.log.epoch_entries import EpochStart
    from storage.record.reading import Batch
    from storage.replicas.digests import Digests
    from storage.replicas.epoch_order import OddEpoch
    from storage.replicas.order import LostOffsets, Run

_OFFSET_END = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The sound part of a directory.

    `damages` has every byte range that is no sound batch in its place, and `tail` what follows the last one at the
    end of the log: part of a batch, or zeros, as a broker leaves them that died.

    `late_offset` is where the first batch with a record at or after the time that was asked for begins, None if there
    is none; then the scan ended before it, and nothing after it counts. `epochs` are the leader epochs of the batches
    and, as far as the batches go, of `leader-epoch-checkpoint`; `odd_epochs` are those that contradict them.
    `last_epoch` is that of the last batch, -1 if it has none. `checkpoint_epochs` are all of
    `leader-epoch-checkpoint`, none if that is damaged. `digests` are those of all batches with their checksum, also of
    those left out. `lacks_offsets` is true if the log has the gaps that compaction leaves.
    """

    directory: Directory
    base_offset: int
    runs: tuple[Run, ...]
    damages: tuple[Damage, ...]
    tail: Damage | None
    epochs: Sequence[EpochStart]
    odd_epochs: tuple[OddEpoch, ...]
    last_epoch: int
    checkpoint_epochs: Sequence[EpochStart]
    digests: Digests
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
    decodes: bool = False,
    is_compacted: bool = False,
    lost: Sequence[LostOffsets] = (),
    advance: Callable[[int], object] = lambda _: None,
) -> Replica:
    """Read a partition's directory; raises `OSError` if it cannot be listed, or the user may not read a file.

    With `undeletes`, segments before the first one that were renamed to be deleted count too. With `decodes`, batches
    are no sound ones whose records do not decode, or whose offsets no index has room for. Between the segments of a log
    that `is_compacted` no segment is missing. Offsets that it lacks and that salvage has `lost` are damage; compaction
    did not remove them. `advance` is given the size of each file that was read.
    """
    scan = _Scan(directory, until_ms, decodes, is_compacted, lost)
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
        deleted = (name for name in parsed(names) if (name.kind, name.suffix) == (Kind.LOG, FileSuffix.DELETED))
        found = sorted((each.offset, str(each), False) for each in deleted if each.offset < first) + found
    for index, (base_offset, file, is_swap) in enumerate(found):
        next_base = found[index + 1][0] if index + 1 < len(found) else _OFFSET_END
        yield base_offset, file, _OFFSET_END if is_swap else next_base, is_swap


@dataclass(slots=True)
class _Scan:
    """A scan under way."""

    directory: Directory
    until_ms: int | None
    decodes: bool
    is_compacted: bool
    lost: Sequence[LostOffsets]
    base_offset: int | None = None
    late_offset: int | None = None
    lacks_offsets: bool = False
    largest_timestamp: int = NO_TIMESTAMP
    largest_producer_id: int = NO_PRODUCER_ID
    is_after_swap: bool = False
    tail: Damage | None = None
    missing: list[Damage] = field(default_factory=list)
    order: RunOrder = field(default_factory=RunOrder)
    epochs: EpochOrder = field(default_factory=EpochOrder)
    digests: DigestMaker = field(default_factory=DigestMaker)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    _position: int = 0  # after the last batch of the file

    def modified_and_size(self, name: str) -> tuple[int, int]:
        """Return the time and the size of a file."""
        return self.files.get(name, (0, 0))

    def add(self, base_offset: int, name: str, next_base: int, *, is_swap: bool) -> None:
        """Read the next segment."""
        due_offset = self.order.due_offset
        if self.base_offset is None:
            self.base_offset = base_offset
            self.order.go_on_at(base_offset)
        elif base_offset < due_offset and self.is_after_swap:
            return  # the segments before it have its records: a crash kept it from being removed
        elif base_offset > due_offset:
            damages = self.order.damages
            if not damages or damages[-1].offset != due_offset:  # otherwise the segment before has lost its end
                reason = "no segment with these offsets is there"
                file = str(FileName(due_offset, Kind.LOG))
                if not self._note_lost(base_offset, file):
                    self.missing.append(Damage(file, 0, None, due_offset, FindingKind.OFFSET_GAP, reason))
            self.order.go_on_at(base_offset)
        self.is_after_swap = is_swap
        self._position = 0
        try:
            status = self.directory.status(name)
            if status is not None:
                self.files[name] = (status.modified_ms, status.size_bytes)
            self._read(base_offset, name, next_base)
        except PermissionError:
            raise  # another user may read all of it
        except OSError as error:
            self.order.close()
            reason = error.strerror or type(error).__name__
            due_offset = self.order.due_offset
            found = Damage(name, self._position, None, due_offset, FindingKind.UNREADABLE, reason)
            self.order.damages.append(found)

    def _read(self, base_offset: int, name: str, next_base: int) -> None:
        segment = (name, base_offset)
        bound = min(next_base, base_offset + LARGEST_OFFSET_DELTA + 1) if self.decodes else next_base
        with self.directory.open_reading(name) as file:
            scan = GappedScan(LogScan(file), base_offset)
            while not scan.is_done:
                damaged: Batch | None = None
                try:
                    for batch in scan:
                        damaged = batch
                        first_offset = self._checked(batch)
                        check_place(batch, base_offset, bound)
                        if first_offset < base_offset:  # of a wrapper check_place sees the last offset only
                            raise MisplacedBatchError(
                                f"its first record has the offset {first_offset}, and the segment begins at "
                                f"{base_offset}",
                                position=batch.position,
                                offset=first_offset,
                            )
                        damaged = None
                        if self._is_late(batch):
                            self.order.close()
                            return
                        self._take(batch, segment, first_offset)
                except CorruptBatchError as error:
                    self.order.close()
                    self._skip(scan, error, damaged, segment, is_last=next_base == _OFFSET_END)
            self.order.close()

    def _checked(self, batch: Batch) -> int:
        """Return the offset by which the batch is put in order; raises `CorruptBatchError` unless it is sound."""
        if self.decodes:
            return check_batch(batch).first_offset
        if not batch.crc_matches:
            batch.check_crc()
        return batch.base_offset if self.order.is_open else batch.read_first_offset()

    def _skip(
        self,
        scan: GappedScan,
        error: CorruptBatchError,
        damaged: Batch | None,
        segment: tuple[str, int],
        *,
        is_last: bool,
    ) -> None:
        """Note the bytes that are no sound batch, and go on after them."""
        name, base_offset = segment
        scan.next_offset = self.order.surely_due_offset
        gap = scan.gap_of(error, damaged)
        if gap.end is None and not gap.is_unused:
            scan.next_offset = base_offset  # the offsets of more than one batch before it may be too high
            gap = scan.gap_of(error, damaged)
        scan.resume(gap)
        reason, offset = gap.error.reason, self.order.due_offset
        if gap.end is not None:
            kind = FindingKind.FRAMING if gap.is_overrun else kind_of(gap.error)
            self.order.damages.append(Damage(name, gap.position, gap.end, offset, kind, reason))
            return
        kind = FindingKind.ZERO_TAIL if gap.is_unused else FindingKind.TORN_TAIL
        found = Damage(name, gap.position, scan.end, offset, kind, reason)
        # A broker that died leaves the beginning of a batch, or zeros, at the end of its last segment.
        if is_last and (gap.is_unused or gap.is_overrun):
            self.tail = found
        elif not gap.is_unused:
            self.order.damages.append(found)

    def _is_late(self, batch: Batch) -> bool:
        if self.until_ms is None or batch.max_timestamp < self.until_ms or batch.count == 0:
            return False
        self.late_offset = batch.read_first_offset()
        return True

    def _take(self, batch: Batch, segment: tuple[str, int], first_offset: int) -> None:
        order = self.order
        if self.lost:
            self._note_lost(batch.read_first_offset(), segment[0])
        if order.is_open and batch.count is not None and not self.lacks_offsets:
            self.lacks_offsets = batch.base_offset > order.due_offset or (
                batch.count <= batch.last_offset - batch.base_offset
            )
        self._position = batch.position + batch.size_bytes
        order.add(segment, batch.position, self._position, first_offset, batch.last_offset + 1)
        self.largest_timestamp = max(self.largest_timestamp, batch.max_timestamp)
        self.largest_producer_id = max(self.largest_producer_id, batch.producer_id)
        self.epochs.add(batch, segment[0])
        self.digests.add(batch)

    def _note_lost(self, next_offset: int, name: str) -> bool:
        """Return True if salvage lost the offsets before the next one that is here, and note them."""
        due_offset = self.order.due_offset
        known = (each.end is not None and each.begin <= due_offset < next_offset <= each.end for each in self.lost)
        if not any(known):
            return False
        self.order.close()
        self._note_salvaged(name, offsets_text(due_offset, next_offset))
        return True

    def _note_salvaged(self, name: str, lost: str) -> None:
        reason, offset = f"the log was salvaged without {lost}", self.order.due_offset
        self.order.damages.append(Damage(name, self._position, None, offset, FindingKind.OFFSET_GAP, reason))

    def _note_lost_end(self) -> None:
        """Note what salvage lost after the end of the log."""
        end_offset = self.order.due_offset
        for each in self.lost if self.late_offset is None else ():
            if each.begin == end_offset:
                text = "what followed" if each.end is None else offsets_text(each.begin, each.end)
                self._note_salvaged(str(FileName(end_offset, Kind.LOG)), text)

    def replica(self) -> Replica:
        """Return what was found."""
        self._note_lost_end()
        lacks = self.lacks_offsets
        missing = () if lacks or self.is_compacted else self.missing
        damages = sorted([*self.order.damages, *missing], key=lambda each: (each.offset, each.position))
        known: Sequence[EpochStart] = ()
        with suppress(CorruptCheckpointError, OSError):
            known = LeaderEpochs.load(self.directory).entries
        self.epochs.settle(self.order.left_out)
        epochs = self.epochs.starts(known)
        runs = self.order.runs
        return Replica(
            directory=self.directory,
            base_offset=self.base_offset or 0,
            runs=runs,
            damages=tuple(damages),
            tail=self.tail,
            epochs=epochs,
            odd_epochs=self.epochs.odd(epochs),
            last_epoch=self.epochs.last_epoch,
            checkpoint_epochs=known,
            digests=self.digests.digests(),
            late_offset=self.late_offset,
            lacks_offsets=lacks,
            largest_timestamp=self.largest_timestamp,
            largest_producer_id=self.largest_producer_id,
            size_bytes=sum(run.end - run.begin for run in runs),
            modified_ms={name: modified_ms for name, (modified_ms, _) in self.files.items()},
        )
