"""Recovering a log: from what a crash left in its directory to what a closed log has there.

Rules and outcome are a broker's, except that damage costs no more than what lies after it in the log
(`docs/recovery.md`). Recovery may itself be interrupted anywhere, and begun again.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from storage.clock import Interval
from storage.errors import CorruptBatchError, CorruptIndexError
from storage.log.epoch_entries import EpochStart
from storage.log.epochs import LeaderEpochs
from storage.log.leftovers import remove_leftovers
from storage.log.listed_names import is_of_log
from storage.log.recover.epochs import EpochsRecovery, framed_batches
from storage.log.recover.producers import ProducersRecovery
from storage.log.recover.report import FoundLog, RecoveryReport, Repair, Step
from storage.log.recover.snapshots import RecoveredSnapshots
from storage.record.layout import LARGEST_OFFSET_DELTA
from storage.segment.checked_scan import CheckedScan, lacks_offsets
from storage.segment.finishing_check import is_finished, whole_end
from storage.segment.index.builder import IndexBuilder, IndexChange
from storage.segment.names import SEGMENT_KINDS, FileName, FileSuffix, Kind, check_few_segments, live_offsets, parsed
from storage.segment.scan import LogScan
from storage.segment.segment import Segment
from storage.segment.sound_batch_search import find_sound_batch
from storage.segment.splitting import split_segment
from storage.segment.writable_segment import remove_segment_files

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.producers.producers import ProducerStates

logger = logging.getLogger(__name__)

_STARTS_MAX: Final = 100_000  # how many starts of epochs are kept until the file is written again
_INDEXES: Final = SEGMENT_KINDS[1:]
_CHANGES: Final = {
    IndexChange.MADE: (Repair.REBUILT, "it was missing"),
    IndexChange.TRIMMED: (Repair.TRIMMED, "its end was not used yet"),
    IndexChange.REPLACED: (Repair.REBUILT, "its entries are not those of the log"),
}


def recover_log(
    clock: Clock,
    directory: Directory,
    config: TopicConfig,
    *,
    is_clean: bool,
    recovery_point: int = 0,
    start_offset: int = 0,
    allows_offset_gaps: bool = False,
    producer_expiration_ms: int,
    done: list[Step] | None = None,
) -> RecoveryReport:
    """Repair the directory so that it is a closed log's, all of it on disk.

    Segments below the recovery point, or all of a log that was closed (`is_clean`), are trusted to be on disk: there
    recovery only repairs missing files and leftovers, and reads only the directory and the log's end. Of the other
    segments it reads every batch. The log begins at `start_offset`, taken from a checkpoint, or later. A log that ends
    before it is emptied.

    A log that was only appended to lacks no offsets, so segments after a gap are dropped. They are kept if the log
    `allows_offset_gaps`, because it was or may have been compacted.

    Raises `TooManySegmentsError`, or `SpecialFileError` if there is a file in the directory that kafkafs does not open,
    before any change. After another error, `done` has the steps that were taken.
    """
    report = RecoveryReport(done)
    recovery = _Recovery(
        clock, directory, config, start_offset, producer_expiration_ms, report, allows_offset_gaps=allows_offset_gaps
    )
    with directory.held():
        names = directory.names()
        check_few_segments(names, directory)  # before what takes long for a million files
        refuse_strangers(directory)
        recovery.report.steps += remove_leftovers(directory, names)
        recovery.look(names)
        recovery.repair(None if is_clean else recovery_point)
        recovery.trim_to_bounds(is_clean=is_clean)
    return recovery.report


def refuse_strangers(directory: Directory) -> None:
    """Raise `SpecialFileError` for a link, FIFO or the like of any name, or a foreign hard link as a log's file."""
    strangers = directory.strangers(is_of_log)
    if strangers:
        raise strangers[min(strangers)]


class _Recovery:
    def __init__(
        self,
        clock: Clock,
        directory: Directory,
        config: TopicConfig,
        start_offset: int,
        producer_expiration_ms: int,
        report: RecoveryReport,
        *,
        allows_offset_gaps: bool,
    ) -> None:
        self._may_lack = allows_offset_gaps
        self.report = report
        self._clock = clock
        self._directory = directory
        self._config = config
        self._start_offset = start_offset
        self._expiration_ms = producer_expiration_ms
        self._names: set[FileName] = set()
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochs(directory)
        self._epochs_recovery = EpochsRecovery(directory, self.report.steps.append)
        self._starts: list[EpochStart] = []  # of epochs that the batches have and the file lacks
        self._snapshots: RecoveredSnapshots | None = None
        self._producers: ProducersRecovery | None = None
        self._end_offset: int | None = None  # None until the log's end is read
        self._report_due = Interval()

    def _add(self, repair: Repair, name: object, reason: str, lost_bytes: int = 0, **place: int | None) -> None:
        self.report.steps.append(Step(repair, str(name), reason, lost_bytes, **place))

    def repair(self, recovery_point: int | None) -> None:
        """Repair every segment. Without a recovery point all are trusted."""
        self._epochs = self._epochs_recovery.load(self._segments)
        segments = self._segments
        believed = len(segments) if recovery_point is None else self._believed(recovery_point)
        index = 0
        while index < believed:
            faulty = self._faulty_indexes(segments[index])
            if faulty:
                believed += self._rebuild_indexes(index, faulty)
            index += 1
        if segments and believed == len(segments):
            self._end_offset = whole_end(segments[-1])
            if self._end_offset is None:
                believed -= 1
        if recovery_point is not None:
            self.report.trusted_segments = believed
        self._recover(believed)
        self._write_epochs()

    def _believed(self, recovery_point: int) -> int:
        """Return the number of trusted segments: as for a broker, those before the one that has the recovery point.

        A segment that ends exactly there may have been flushed before it was finished; then it is read. One that looks
        finished is brought to disk, as its finishing may not be there yet.
        """
        segments = self._segments
        believed = max(sum(segment.base_offset <= recovery_point for segment in segments) - 1, 0)
        if believed and segments[believed].base_offset == recovery_point:
            before = segments[believed - 1]
            if not self._faulty_indexes(before):
                if not is_finished(before):
                    return believed - 1
                self._sync(before, *_INDEXES)
        return believed

    def look(self, listed: Sequence[str] = ()) -> None:
        """Note the files of the directory. `listed` serves if no file was changed since."""
        texts = self._directory.names() if self.report.steps else listed
        check_few_segments(texts, self._directory)
        self._names = {name for name in parsed(texts) if name.suffix is FileSuffix.LIVE}
        bases = sorted(name.offset for name in self._names if name.kind is Kind.LOG)
        self._segments = [Segment(self._directory, base_offset) for base_offset in bases]
        if self._snapshots is None:
            self._snapshots = RecoveredSnapshots(self._directory, live_offsets(texts, Kind.SNAPSHOT))
        self._producers = ProducersRecovery(
            self._directory,
            self._segments,
            self._snapshots,
            start_offset=self._start_offset,
            expiration_ms=self._expiration_ms,
            now_ms=self._clock.now_ms(),
        )

    def _faulty_indexes(self, segment: Segment) -> Collection[Kind]:
        """Return the indexes of the segment that are seen to be unusable without reading the log.

        If the offset index or the transaction index is unusable, all are returned, as a broker rebuilds all then.
        """
        if FileName(segment.base_offset, Kind.OFFSET_INDEX) not in self._names:
            return _INDEXES
        if FileName(segment.base_offset, Kind.TRANSACTION_INDEX) in self._names:
            try:
                segment.transaction_index.check()
            except CorruptIndexError:
                return _INDEXES
            finally:
                segment.unload()
        return () if FileName(segment.base_offset, Kind.TIME_INDEX) in self._names else (Kind.TIME_INDEX,)

    def _rebuild_indexes(self, index: int, faulty: Collection[Kind]) -> int:
        """Rebuild indexes of a trusted segment; return how many segments follow it now that were parts of it."""
        assert self._producers is not None
        segment = self._segments[index]
        producers = self._producers.before_trusted(index)
        building = IndexBuilder(segment.base_offset, self._config)
        scan = self._scan(segment, building, producers)
        added = self._split(index) if scan.overflows else 0
        self._write_indexes(self._segments[index], building, _INDEXES if added else faulty)
        return added

    def _write_indexes(self, segment: Segment, building: IndexBuilder, kinds: Collection[Kind] = _INDEXES) -> None:
        for kind, change in building.write(segment, kinds).items():
            repair, reason = _CHANGES[change]
            self._add(repair, FileName(segment.base_offset, kind), reason)

    def _recover(self, first: int) -> None:
        """Read the segments after the trusted ones, and keep their sound batches. One that is split ends before it."""
        segments = self._segments
        if first == len(segments):
            return
        assert self._snapshots is not None
        assert self._producers is not None
        producers = self._producers.before_unsure(first)
        if segments[first].base_offset in self._snapshots.offsets:
            self._snapshots.sync_found(segments[first].base_offset)
        for index in count(first):
            segment = segments[index]
            producers.set_end_offset(segment.base_offset)
            producers.take_snapshot()
            building = IndexBuilder(segment.base_offset, self._config)
            scan = self._scan(segment, building, producers)
            trailing_bytes = scan.trailing_bytes
            if scan.overflows:
                self._split(index)
                segment, trailing_bytes = segments[index], 0
            producers.set_end_offset(scan.next_offset)
            self._end_offset = scan.next_offset
            following = segments[index + 1] if index + 1 < len(segments) else None
            # If the next segment goes on here, no batch is missing, and the bytes that are cut never were the log's.
            is_end = (
                following is not None
                and following.base_offset != scan.next_offset
                and (trailing_bytes > 0 or not self._allows_offset_gaps(segment, following))
            )
            if is_end:
                reason = f"the log ends before it, at offset {scan.next_offset}"
                self._drop(segments[index + 1 :], reason, are_missed=True)
            if trailing_bytes:
                self._cut(segment, scan, are_missed=is_end or following is None)
            else:
                self._sync(segment)
            self._write_indexes(segment, building)
            if is_end or following is None:
                break
        producers.take_snapshot()

    def _scan(self, segment: Segment, building: IndexBuilder, producers: ProducerStates) -> CheckedScan:
        """Read the segment, and apply every batch that is kept to indexes, epochs and producers."""
        with segment.open_log() as file:
            scan = CheckedScan(file, segment.base_offset, self._end_of(segment))
            add, starts = building.add, self._starts
            latest_epoch = starts[-1].epoch if starts else self._epochs.latest_epoch
            for batch in scan:
                add(batch, batch.position)
                epoch = batch.leader_epoch
                if epoch != latest_epoch and epoch >= 0 and (latest_epoch is None or epoch > latest_epoch):
                    starts.append(EpochStart(epoch, batch.base_offset))
                    latest_epoch = epoch
                if batch.producer_id >= 0:
                    with suppress(CorruptBatchError):  # an unreadable marker ends no transaction
                        ended = producers.apply(batch)
                        if ended is not None and (aborted := ended.index_entry()) is not None:
                            building.add_aborted(aborted)
        if len(starts) > _STARTS_MAX:
            self._write_epochs()
        self.report.scanned_segments += 1
        self.report.scanned_bytes += scan.position
        self._say_progress()
        return scan

    def _write_epochs(self) -> None:
        self._epochs.assign_all(self._starts)
        self._starts.clear()

    def _end_of(self, segment: Segment) -> int | None:
        """Return where the next segment begins; None for the last one."""
        following = bisect_right(self._segments, segment.base_offset, key=lambda each: each.base_offset)
        return self._segments[following].base_offset if following < len(self._segments) else None

    def _say_progress(self) -> None:
        if self._report_due.is_over():
            done, count = self.report.scanned_segments, len(self._segments)
            logger.info("%s is being recovered: %d segments read, of %d", self._directory.name, done, count)

    def _allows_offset_gaps(self, before: Segment, after: Segment) -> bool:
        """True if offsets may be missing between two whole segments.

        They may if the first cannot hold the second's first batch, or after compaction: segments have gaps then too.
        """
        first = next(framed_batches(after), None)
        if first is not None and first.last_offset - before.base_offset > LARGEST_OFFSET_DELTA:
            return True
        if not self._may_lack:
            self._may_lack = self._config.compact or any(
                lacks_offsets(segment.base_offset, framed_batches(segment)) for segment in self._segments
            )
        return self._may_lack

    def _drop(self, segments: list[Segment], reason: str, *, are_missed: bool = False) -> None:
        """Drop the log's last segments, the very last first, so that a crash leaves no segment after a gap.

        Readers miss the batches in them, unless all lie before the log's start.
        """
        for segment in reversed(segments):
            size_bytes = segment.size_bytes
            sound = self._sound_offset(segment, 0, segment.base_offset) if are_missed else None
            remove_segment_files(self._directory, segment.base_offset)
            name = FileName(segment.base_offset, Kind.LOG)
            place = {"position": 0, "offset": segment.base_offset, "next_good_offset": sound}
            self._add(Repair.DROPPED, name, reason, size_bytes, **place)
        self._directory.sync()

    def _cut(self, segment: Segment, scan: CheckedScan, *, are_missed: bool) -> None:
        """Cut the log after the last batch that is kept. Readers miss the batches that are cut, or another has them."""
        sound = self._sound_offset(segment, scan.position, scan.next_offset) if are_missed else None
        with self._directory.open_writing(segment.name(Kind.LOG)) as log:
            log.truncate(scan.position)
            log.sync()
        name = FileName(segment.base_offset, Kind.LOG)
        reason = "the last batch is not complete" if scan.error is None else scan.error.reason
        place = {"position": scan.position, "offset": scan.next_offset, "next_good_offset": sound}
        self._add(Repair.CUT, name, reason, scan.trailing_bytes, **place)

    def _sound_offset(self, segment: Segment, position: int, next_offset: int) -> int | None:
        """Return the base offset of the segment's first sound batch from a position on; None if there is none."""
        with segment.open_log() as file:
            end = file.size_bytes()
            found = find_sound_batch(file, position, end, base_offset=segment.base_offset, next_offset=next_offset)
            return None if found is None else next(iter(LogScan(file, start=found))).read_first_offset()

    def _sync(self, segment: Segment, *kinds: Kind) -> None:
        """Bring the log to disk, and its indexes of these kinds that exist."""
        for kind in (Kind.LOG, *kinds):
            if FileName(segment.base_offset, kind) in self._names:
                with self._directory.open_writing(segment.name(kind)) as file:
                    file.sync()

    def _split(self, index: int) -> int:
        """Split a segment, of which the first part ends where its scan did; return how many others there are.

        No part has an index.
        """
        segment = self._segments[index]
        bases = split_segment(
            self._directory, segment.base_offset, self._end_of(segment), other_segments=len(self._segments) - 1
        )
        self._segments[index : index + 1] = [Segment(self._directory, base) for base in bases]
        self._names -= {FileName(segment.base_offset, kind) for kind in _INDEXES}
        self._names |= {FileName(base, Kind.LOG) for base in bases}
        reason = f"its offsets are too many for an index; it is now {len(bases)} segments"
        self._add(Repair.SPLIT, FileName(segment.base_offset, Kind.LOG), reason)
        return len(bases) - 1

    def trim_to_bounds(self, *, is_clean: bool) -> None:
        """Empty a log that ends before its start, and trim producers and epochs to the log."""
        if self.report.steps:
            self.look()
        segments, snapshots = self._segments, self._snapshots
        bases = [each.base_offset for each in segments]
        assert snapshots is not None
        assert not segments or self._end_offset is not None
        end_offset = self._start_offset if not segments or self._end_offset is None else self._end_offset
        if end_offset < self._start_offset:
            bases.clear()
            self._drop(segments, f"the log ends at {end_offset}, and is to begin at {self._start_offset}")
            snapshots.remove_all(snapshots.offsets)
            self._epochs.clear()
            end_offset = self._start_offset
        else:
            checkpointed_start = self._start_offset
            if segments:
                self._start_offset = max(self._start_offset, segments[0].base_offset)
            if is_clean:  # opening the log removes readable strays, as a broker's opening does
                strays = snapshots.strays(bases)
                snapshots.remove_all([offset for offset in strays if not snapshots.is_readable(offset)])
            else:
                snapshots.remove_strays(bases)
                snapshots.leave_before_start(self._start_offset, checkpointed_start, end_offset)
                self._epochs.truncate_from_start(self._start_offset)
            if not is_clean or self.report.lost_bytes:  # the epoch of a leader without a batch begins at the log's end
                self._epochs.truncate_from_end(end_offset)
        self.report.steps += snapshots.settle("no segment of the log goes on from it")
        self._epochs_recovery.finish(self._epochs)
        self.report.start_offset, self.report.end_offset = self._start_offset, end_offset
        self.report.found = FoundLog(tuple(bases), end_offset, tuple(snapshots.offsets), self._epochs.entries)
