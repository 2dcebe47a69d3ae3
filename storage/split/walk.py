"""The walk through the batches of a split, at any time after it was cut.

Every batch of a split comes once, in the order of the log, as long as the log has it. A walk notices if a compaction
has replaced the segment, or if it was deleted, or the log truncated. It reports lost records, and damage. What is made
of the batches is up to each `SplitPass`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from storage.config import TopicConfig
from storage.errors import CorruptBatchError, FramingError, LogChangedError, RecordsCutOffError, UnknownPartitionError
from storage.log.followed_log import FollowedLog
from storage.offset_text import offsets_text
from storage.segment.index.zero_tail import is_zero
from storage.segment.scan import GappedScan, LogScan, check_order, check_place
from storage.split.splits import splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from storage.clock import Clock
    from storage.files import Files, ReadableFile
    from storage.record.kernel.pinned_buffer import PinnedBuffer
    from storage.record.reading import Batch
    from storage.split.splits import OnLoss, Split

    OnDamage: TypeAlias = Callable[[CorruptBatchError], None]

T = TypeVar("T")

SPLIT_WINDOW_BYTES: Final = 4 * 1024 * 1024
_PLANS_MAX: Final = 8  # how often a log may change before its reader gives up


class SplitWalk(ABC, Generic[T]):
    """Walks through any number of splits, one at a time, and yields what a `SplitPass` makes of their batches.

    It calls `on_loss` with what is gone and `on_damage` with each damaged place; unless they raise, it reads the rest.
    Memory stays within the larger of `window_bytes` and a batch, and what a batch comes to.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        *,
        on_loss: OnLoss,
        on_damage: OnDamage | None = None,
        window_bytes: int = SPLIT_WINDOW_BYTES,
    ) -> None:
        self._files = files
        self._clock = clock
        self._on_loss = on_loss
        self._on_damage = on_damage
        self._window_bytes = window_bytes

    @abstractmethod
    def _pass(self, file: ReadableFile, split: Split) -> SplitPass[T]:
        """Return the pass through a file that still holds the split."""

    def read(self, split: Split) -> Iterator[T]:
        """Read all of a split. Raises a `CorruptBatchError` at damage, unless there is an `on_damage`."""
        offset = split.start_offset
        pieces = [split]
        for _ in range(_PLANS_MAX):
            for piece in pieces:
                file = self._open(piece)
                if file is None:
                    break
                with file:
                    passing = self._pass(file, piece)
                    try:
                        yield from passing.all(self._window_bytes)
                    except FileNotFoundError:  # of an object; the rest is where the log has it now
                        passing.is_cut_short = True
                    offset = passing.next_offset
                    if passing.is_cut_short:
                        break
            else:
                return
            pieces = self._cut_again(split, offset)
        raise LogChangedError(
            f"{split.place} changes faster than it can be read; try again once its files stay for a while",
            path=split.place.directory,
            offset=offset,
        )

    def _open(self, split: Split) -> ReadableFile | None:
        """Open the split's file; None if it no longer holds the split.

        An object, unlike a file, may be gone while it is open.
        """
        try:
            file = self._files.partition(split.place.directory).open_reading(split.log_name)
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
        except FileNotFoundError:
            file.close()
            return None
        except BaseException:
            file.close()
            raise
        return file

    def _cut_again(self, split: Split, offset: int) -> list[Split]:
        """Cut what is left of a split from an offset on."""
        directory = self._files.partition(split.place.directory)
        log = FollowedLog(self._clock, directory, TopicConfig.resolve({}), producer_expiration_ms=0)
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
            gone = f"records of {split.place} are gone with all of it: {offsets_text(offset, split.end_offset)}"
            self._on_loss(RecordsCutOffError(gone, path=split.place.directory))
            return []
        finally:
            log.close()
        return [replace(each, aborted=split.aborted, is_committed=split.is_committed) for each in found]


class SplitPass(ABC, Generic[T]):
    """One pass through a split's file; the next one begins at `next_offset` if this one `is_cut_short`."""

    def __init__(self, file: ReadableFile, split: Split, on_damage: OnDamage | None) -> None:
        self.next_offset = split.start_offset
        self.is_cut_short = False
        self._file = file
        self._split = split
        self._on_damage = on_damage
        self._position = split.start
        self._due_offset = split.base_offset  # no batch after the position may begin below it
        self._is_done = False
        self._is_one_before_doubtful = False

    @abstractmethod
    def _check(self, batch: Batch, due_offset: int) -> None:
        """Raise a `CorruptBatchError` if the batch cannot be where it is."""

    @abstractmethod
    def _ends_before(self, batch: Batch) -> bool:
        """Return True if neither this batch nor a later one is wanted."""

    @abstractmethod
    def _wants(self, batch: Batch) -> bool:
        """Return True if the batch, which is before the end, is wanted."""

    @abstractmethod
    def _of_run(self, run: Sequence[Batch], origin: int) -> Iterator[T]:
        """Yield the results of consecutive batches of one window, which begins at `origin` in the file."""

    def _check_order(self, batch: Batch, due_offset: int) -> None:
        """Raise a `CorruptBatchError` unless the batch has offsets of its split, after those of the one before.

        Offsets that are not after those make the batch before as doubtful as this one, since no checksum covers where a
        batch begins. With an `on_damage` that is only reported.
        """
        check_place(batch, self._split.base_offset, self._split.limit_offset)
        try:
            check_order(batch, due_offset)
        except CorruptBatchError as error:
            if self._on_damage is None:
                batch.check_crc()
                self._is_one_before_doubtful = True
                raise
            self._on_damage(error.located(path=self._file.path))

    def all(self, window_bytes: int) -> Iterator[T]:
        """Yield everything that the split has."""
        split = self._split
        scan = LogScan(self._file, start=split.start, end=split.end, window_bytes=window_bytes)
        gapped = GappedScan(scan, split.base_offset, end=split.end)
        while not self._is_done:
            try:
                yield from self._up_to_damage(gapped)
            except CorruptBatchError as error:
                if not self._is_passed_over(gapped, error.located(path=self._file.path)):
                    raise
        if not self.is_cut_short:
            self.next_offset = split.end_offset

    def _up_to_damage(self, scan: GappedScan) -> Iterator[T]:
        origin = scan.position
        window: PinnedBuffer | None = None
        run: list[Batch] = []
        try:
            for batch, window_begin in self._confirmed(scan):
                if batch.buffer is not window:
                    ended, run = run, []  # so that an error in it does not pass it once more
                    yield from self._passed(ended, origin)
                    window, origin = batch.buffer, window_begin
                if self._ends_before(batch):
                    break
                if self._wants(batch):
                    run.append(batch)
                else:
                    ended, run = run, []
                    yield from self._passed(ended, origin)
                    self._go_behind(batch)
            else:
                self.is_cut_short = scan.is_cut_short and not self._is_unused(scan.position)
        except CorruptBatchError:
            yield from self._passed(run, origin)
            raise
        yield from self._passed(run, origin)
        self._is_done = True

    def _confirmed(self, scan: GappedScan) -> Iterator[tuple[Batch, int]]:
        """The batches of a scan, each once the next one has shown that the offsets of both can be right.

        With each comes where in the file the buffer begins that holds it.
        """
        due_offset = self._due_offset
        last: tuple[Batch, int] | None = None
        try:
            for batch in scan:
                self._check(batch, due_offset)
                due_offset = batch.last_offset + 1
                if last is not None:
                    yield last
                last = batch, scan.window_begin
        except CorruptBatchError:
            if last is not None and not self._is_one_before_doubtful:
                yield last
            raise
        if last is not None:
            yield last

    def _passed(self, run: Sequence[Batch], origin: int) -> Iterator[T]:
        if run:
            yield from self._of_run(run, origin)
            self._go_behind(run[-1])

    def _go_behind(self, batch: Batch) -> None:
        self._position = batch.position + batch.size_bytes
        self._due_offset = batch.last_offset + 1
        self.next_offset = max(self.next_offset, self._due_offset)

    # Damage

    def _is_passed_over(self, scan: GappedScan, error: CorruptBatchError) -> bool:
        """Continue after damage if there is an `on_damage`; False if the error is to be raised.

        Raised in here, it would refer to itself by this call, and keep what was decoded until Python looks for cycles.
        """
        position = self._position if error.position is None else error.position
        if isinstance(error, FramingError) and self._is_unused(position):
            self._is_done = True
        elif scan.is_cut_short and position == scan.position:
            self._is_done = self.is_cut_short = True
        elif self._on_damage is None:
            return False
        else:
            self._on_damage(error)
            scan.next_offset = self._due_offset
            scan.resume(scan.gap_of(error, self._batch_at(position)))
            self._is_done = scan.is_done
        return True

    def _batch_at(self, position: int) -> Batch | None:
        with suppress(FramingError):
            return next(iter(LogScan(self._file, start=position, end=self._split.end)), None)
        return None

    def _is_unused(self, position: int) -> bool:
        """Return True if only the zeros of a preallocated file follow."""
        return not self._split.following and is_zero(self._file, position, self._split.end)
