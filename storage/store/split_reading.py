"""Reading splits as Arrow record batches, wherever and whenever that is.

Every record of a split is given once, in the order of the log, as long as the log has it: whether its segment was
replaced by a compaction since, or deleted, or the log was truncated, is noticed. What is gone is told, and so is
damage. Which columns there are is said by `storage.record.columns`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from storage.config import TopicConfig
from storage.errors import CorruptBatchError, FramingError, LogChangedError, RecordsGoneError, UnknownPartitionError
from storage.partition.aborted_batches import AbortedBatches
from storage.partition.followed_log import FollowedLog
from storage.record.batch import RecordBatch
from storage.record.columns import DEFAULT_COLUMNS, read_columns
from storage.record.reading import read_batches
from storage.segment.log_file import LogScan
from storage.segment.sound_batch_search import position_behind
from storage.segment.zero_tail import is_zero
from storage.store.splits import splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    import pyarrow as pa

    from storage.clock import Clock
    from storage.files import Files, ReadableFile
    from storage.record.reading import Batch
    from storage.store.splits import OnLoss, Split

    OnDamage: TypeAlias = Callable[[CorruptBatchError], None]

_WINDOW_BYTES: Final = 4 * 1024 * 1024
_PLANS_MAX: Final = 8  # how often a log may change under somebody who is about to read it


class SplitReader:
    """Reads any number of splits, one at a time.

    `on_loss` is told what is gone, `on_damage` each damaged place; if they do not raise, what is left is read.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        on_loss: OnLoss,
        on_damage: OnDamage | None = None,
    ) -> None:
        self._files = files
        self._clock = clock
        self._columns = columns
        self._on_loss = on_loss
        self._on_damage = on_damage

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The records of a split. Raises a `CorruptBatchError` at damage, unless there is somebody to be told of it."""
        offset = split.start_offset
        pieces = [split]
        for _ in range(_PLANS_MAX):
            for piece in pieces:
                file = self._open(piece)
                if file is None:
                    break
                with file:
                    reading = _Reading(file, piece, self._columns, self._on_damage)
                    yield from reading.record_batches()
                    offset = reading.next_offset
                    if reading.is_cut_short:
                        break
            else:
                return
            pieces = self._found_anew(split, offset)
        raise LogChangedError(
            f"{split.place} changes faster than it can be read; try again once its files stay for a while",
            path=split.place.directory,
            offset=offset,
        )

    def _open(self, split: Split) -> ReadableFile | None:
        """The split's file; None if it is not what it was any more."""
        try:
            file = self._files.open_reading(split.path)
        except FileNotFoundError:
            return None
        try:
            size_bytes = file.size_bytes()
            if (
                (size_bytes < split.end if split.log_bytes is None else size_bytes != split.log_bytes)
                or file.read_at(split.start, len(split.header)) != split.header
                or file.read_at(split.end, len(split.following)) != split.following
            ):
                file.close()
                return None
        except BaseException:
            file.close()
            raise
        return file

    def _found_anew(self, split: Split, offset: int) -> list[Split]:
        """The splits of what is left of one from an offset on."""
        log = FollowedLog(
            self._files, self._clock, split.place.directory, TopicConfig.resolve({}), producer_expiration_ms=0
        )
        try:
            found = splits_of(
                log,
                split.place,
                offset,
                split.end_offset,
                size_bytes=max(split.size_bytes, 1),
                checks_end=False,
                on_loss=self._on_loss,
            )
        except UnknownPartitionError:
            gone = f"the records of {split.place} from offset {offset} up to {split.end_offset} are gone with all of it"
            self._on_loss(RecordsGoneError(gone, path=split.place.directory))
            return []
        finally:
            log.close()
        return [each.leaving_out(split.aborted) for each in found]


class _Reading:
    """One reading of a split's file; `next_offset` is where to go on if it `is_cut_short`."""

    def __init__(self, file: ReadableFile, split: Split, columns: Sequence[str], on_damage: OnDamage | None) -> None:
        self.next_offset = split.start_offset
        self.is_cut_short = False
        self._file = file
        self._split = split
        self._columns = columns
        self._on_damage = on_damage
        self._aborted = AbortedBatches(split.aborted) if split.aborted else None
        self._position = split.start
        self._due_offset = split.base_offset  # below which no further batch may begin
        self._is_done = False

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Everything that the split has."""
        split = self._split
        while self._position < split.end and not self._is_done:
            try:
                yield from self._sound_run()
            except CorruptBatchError as error:
                self._pass_over(error.located(path=self._file.path))
            else:
                break
        if not self.is_cut_short:
            self.next_offset = split.end_offset

    def _sound_run(self) -> Iterator[pa.RecordBatch]:
        """What there is up to the end, or to damage."""
        scan = LogScan(self._file, start=self._position, end=self._split.end, window_bytes=_WINDOW_BYTES)
        run: list[Batch] = []
        try:
            for batch in scan:
                if run and (batch.region is not run[0].region or self._is_aborted(batch)):
                    yield from self._columns_of(run)
                    run = []
                self._check_place(batch)
                if isinstance(batch, RecordBatch) and batch.base_offset >= self._split.end_offset:
                    self._is_done = True
                    break
                if self._is_aborted(batch):
                    self._behind(batch)
                else:
                    run.append(batch)
                    self._due_offset = batch.last_offset + 1
        except CorruptBatchError:
            yield from self._columns_of(run)
            raise
        yield from self._columns_of(run)
        if not self._is_done:
            self._check_end(scan)

    def _is_aborted(self, batch: Batch) -> bool:
        return self._aborted is not None and self._aborted.has(batch)

    def _columns_of(self, run: Sequence[Batch]) -> Iterator[pa.RecordBatch]:
        """The records of batches that lie one behind the other in one window."""
        if not run:
            return
        first, last = run[0], run[-1]
        region, size_bytes = first.region, last.position + last.size_bytes - first.position
        skipped = len(region) - len(region.view(0, len(region)))
        yield from read_columns(
            region.view(skipped, len(region)),
            end=size_bytes,
            origin=first.position,
            columns=self._columns,
            first_offset=self._split.start_offset,
            end_offset=self._split.end_offset,
        )
        self._behind(last)

    def _behind(self, batch: Batch) -> None:
        self._position = batch.position + batch.size_bytes
        self._due_offset = batch.last_offset + 1
        self.next_offset = max(self.next_offset, self._due_offset)
