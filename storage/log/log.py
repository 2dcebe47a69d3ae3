"""One partition's log, for its one writer and any number of readers.

One thread at a time appends, rolls or truncates; readers see the log through `view` and never wait. A refused append
leaves the log as it was. Any other exception poisons the log: readers go on, but no change is accepted until recovery
has checked the files. `docs/concurrency.md` says what readers see. Opening and recovering a log, and choosing what to
delete or compact, are left to others.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from storage.errors import OffsetOutOfRangeError, StorageError
from storage.log.appending import Appended, place_followed, place_sent, read_sent_batch
from storage.log.flushing import Durability
from storage.log.log_writer import LogWriter
from storage.log.producers.state import AppendOrigin
from storage.log.readable_log import ReadableLog
from storage.record.layout import NO_LEADER_EPOCH

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from typing_extensions import Buffer

    from storage.clock import Clock
    from storage.config import TopicConfig
    from storage.files import Directory
    from storage.log.awake_logs import AwakeLogs
    from storage.log.epochs import LeaderEpochs
    from storage.log.opening import LogParts
    from storage.log.producers.producers import ProducerStates
    from storage.log.view import LogView
    from storage.segment.segment import Segment
    from storage.segment.writable_segment import PlacedBatches

    Task: TypeAlias = Callable[[], None]


class Log(ReadableLog):
    """A log whose directory only this process writes, with the settings of its topic.

    `config` may be replaced at any time; its settings of segments hold from the next segment on. `in_background` gets
    the flush that follows a roll, and may run it at any time; until then the rolled segment stays open.
    `lower_checkpoints` runs before a truncation: when it returns, no checkpoint on disk is above its offset.
    `checkpoint_start` runs before the log's start moves: when it returns, the new start is in the checkpoint on disk.
    """

    def __init__(
        self,
        clock: Clock,
        directory: Directory,
        config: TopicConfig,
        parts: LogParts,
        *,
        rng: random.Random,
        durability: Durability = Durability.BUFFERED,
        in_background: Callable[[Task], None] = lambda task: task(),
        lower_checkpoints: Callable[[int], None] = lambda offset: None,  # noqa: ARG005
        checkpoint_start: Callable[[int], None] = lambda offset: None,  # noqa: ARG005
        awake: AwakeLogs | None = None,
    ) -> None:
        self.directory = directory
        self._clock = clock
        self._checkpoint_start = checkpoint_start
        self._writer = LogWriter(
            clock,
            directory,
            config,
            parts,
            rng=rng,
            durability=durability,
            in_background=in_background,
            lower_checkpoints=lower_checkpoints,
        )
        self._poison = self._writer.poison
        self._writing = Lock()  # held by the thread that changes the log
        self._is_closed = False
        self._awake = awake
        self.was_changed = True
        if awake is not None:
            awake.add(self)

    @property
    def config(self) -> TopicConfig:
        """The topic's settings."""
        return self._writer.config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._writer.config = config

    @property
    def view(self) -> LogView:
        """The log as it is now."""
        return self._writer.view

    @property
    def producers(self) -> ProducerStates:
        """The log's producers; callers do not change them."""
        return self._writer.producers

    @property
    def epochs(self) -> LeaderEpochs:
        """The log's leader epochs; callers do not change them."""
        return self._writer.epochs

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""
        return self._writer.flushing.recovery_point

    @property
    def is_poisoned(self) -> bool:
        """True if writing failed: what is on disk is unknown, and the log accepts no more changes."""
        return self._poison.error is not None

    # Appending

    def append_as_leader(
        self, data: Buffer, *, leader_epoch: int = NO_LEADER_EPOCH, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> Appended:
        """Append one batch, as a producer or a coordinator sends it, at the log's end.

        A batch that its producer repeats is not written again. The checksum and the records are checked, unless the
        batch is an `EncodedBatch` that this process just made. Raises a `StorageError` if nothing was appended:
        `InvalidRecordError` or `CorruptBatchError` for a batch that is never valid, `RefusedAppendError` for one that
        its producer may not write now, `DiskFullError`, `PoisonedLogError`.
        """
        return self.append_all_as_leader((data,), leader_epoch=leader_epoch, origin=origin)[0]

    def append_all_as_leader(
        self,
        sent: Sequence[Buffer],
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> list[Appended]:
        """Append batches together; raises as `append_as_leader` does.

        Readers see all of them or none; after an error none is there. A crash may leave only the first ones.
        """
        with self._writing:
            self._check_writable()
            now_ms = self._clock.now_ms()
            writer = self._writer
            config, next_offset = writer.config, writer.view.end_offset
            batches = [read_sent_batch(data, config, origin) for data in sent]
            known = writer.producers.check([each.batch for each in batches], origin=origin)
            answers, placed = place_sent(
                batches, known, config, next_offset=next_offset, leader_epoch=leader_epoch, now_ms=now_ms
            )
            writer.append(placed, now_ms)
            return answers

    def append_as_follower(self, pieces: Iterable[Buffer]) -> None:
        """Append the whole batches of each piece at the offsets that they have.

        Readers see all of them or none; after an error none is there. A crash may leave only the first ones. The pieces
        are read one by one, so they need not be in memory together. Raises as `append_as_leader` does,
        `UnexpectedOffsetError` where batches do not follow the log's end, and what iterating over the pieces raises.
        """
        with self._writing:
            self._check_writable()
            self._writer.append(self._followed(pieces), self._clock.now_ms())

    def _followed(self, pieces: Iterable[Buffer]) -> Iterator[PlacedBatches]:
        next_offset = self.view.end_offset
        for piece in pieces:
            placed = place_followed(piece, self.config, next_offset=next_offset)
            if placed is not None:
                self.producers.check(placed.batches, origin=AppendOrigin.REPLICATION)
                next_offset = placed.last_offset + 1
                yield placed

    # Segments

    def roll(self) -> None:
        """Begin a new segment at the log's end, unless the active one is empty."""
        with self._writing:
            self._check_writable()
            if self._writer.segments.active.size_bytes:
                self._writer.roll()

    def flush(self) -> None:
        """Bring everything that was appended before the call to disk; any thread may call this."""
        self._check_open()
        self._writer.flush()

    def flush_if_due(self) -> bool:
        """Flush if `flush.ms` have passed since the last flush and something is not on disk; True if it flushed."""
        flushing = self._writer.flushing
        is_due = (
            flushing.recovery_point < self.view.end_offset
            and self._clock.now_ms() - flushing.flushed_ms >= self.config.flush_ms
        )
        if is_due:
            self.flush()
        return is_due

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds the offset, and everything after it; the next append goes where the rest ends.

        The truncation is durable when this returns. A log that ends at the offset or before only drops later epochs.
        """
        with self._writing:
            self._check_writable()
            with self._poison.changing:
                if offset < self.view.end_offset:
                    self._writer.cut_back(offset)
                else:
                    with self._poison.refusing:
                        self.epochs.truncate_from_end(offset)

    def advance_start(self, offset: int) -> None:
        """Move the log's start up to the offset, as deleting records does; retention removes the files later.

        The checkpoint on disk has the new start before readers see it. Raises `DiskFullError`, having changed nothing,
        if the disk has no space for that.
        """
        with self._writing:
            self._check_writable()
            view = self.view
            if offset > view.end_offset:
                raise OffsetOutOfRangeError(f"the log ends at {view.end_offset}", path=self.directory, offset=offset)
            if offset <= view.start_offset:
                return
            with self._poison.changing:
                with self._poison.refusing:
                    self._checkpoint_start(offset)
                self._writer.advance_start(offset)

    def remove_before(self, base_offset: int) -> list[str]:
        """Delete the segments before the one that begins at the offset; the log then starts there or later.

        New views lack them first; then their files and producer snapshots are renamed, the oldest first. Returns the
        new paths, which the caller removes; readers with an older view go on until then. Raises `LogChangedError`,
        having changed nothing, if no segment begins at the offset.
        """
        with self._writing:
            self._check_writable()
            return self._writer.remove_before(base_offset)

    def replace(self, old: Sequence[Segment], new_bases: Sequence[int]) -> list[str]:
        """Replace closed segments by new ones. The log's offsets and bounds stay as they are.

        The new ones lie as `.cleaned` in the directory, complete and on disk, and begin at `new_bases`, of which the
        first is the first old segment's base. Without new ones the old ones are only deleted. Readers see either the
        old or the new ones; an older view goes on with the old ones. The replacement is durable when this returns. A
        crash leaves all of it or nothing, but without new ones it may leave the first old ones deleted and not others.

        Returns the old files' new paths, which the caller removes. Raises `LogChangedError`, having changed nothing,
        if the old ones are not consecutive closed segments of the newest view.
        """
        with self._writing:
            self._check_writable()
            return self._writer.replace(old, new_bases)

    def expire_producers(self) -> None:
        """Forget the producers that have expired."""
        with self._writing, self._poison.changing:
            self.producers.expire(self._clock.now_ms())

    # Resting and closing

    def rest(self) -> bool:
        """Bring everything to disk and hold no descriptors until the next change; False if the log cannot rest now.

        It never waits for a change under way. Files of a log at rest have the form and size of a closed log's. Readers
        go on. A poisoned log keeps its descriptors. A flush that fails poisons the log.
        """
        if not self._writing.acquire(blocking=False):
            return False
        try:
            self._poison.settle()
            if self._is_closed or self._poison.error is not None or self._writer.segments.active.is_resting:
                return False
            return self._writer.rest()
        finally:
            self._writing.release()

    def close(self) -> None:
        """Bring everything to disk in the form of a closed log, and close the files.

        A poisoned log only closes its files. Closing twice is harmless; readers with a view go on.
        """
        with self._writing:
            if self._is_closed:
                return
            self._poison.settle()
            try:
                if self._poison.error is None:
                    self._writer.finish()
            finally:
                self._is_closed = True
                if self._awake is not None:
                    self._awake.discard(self)
                self._writer.close()

    def _check_writable(self) -> None:
        """Raise unless the log accepts changes, and wake it; for the thread that is about to change it."""
        self._poison.settle()
        self._check_open()
        self.was_changed = True
        active = self._writer.segments.active
        if active.is_resting:
            active.wake()
            if self._awake is not None:
                self._awake.add(self)

    def _check_open(self) -> None:
        self._poison.check()
        if self._is_closed:
            raise StorageError("the log is closed", path=self.directory)
