"""One partition's log: appending to it, and reading what is in it.

One thread at a time appends, rolls or truncates; readers see the log through `view` and never wait. An append that is
refused leaves the log as it was. Any other exception poisons the log: readers go on, but it takes nothing more until
recovery has looked at the files. `docs/concurrency.md` says what readers see. Opening and recovering a log, and
choosing what to delete or compact, are left to others.
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
    """The log in a directory that is ours alone, with the settings of its topic.

    `config` may be replaced at any time; what it says of new segments holds from the next one on. `in_background` is
    given the flush that follows a roll, and runs it at any time; until then that segment stays open.
    `lower_checkpoints` is called before a truncation; when it returns, no checkpoint on disk says more of the log than
    this offset. `checkpoint_start` is called before the log's start moves; when it returns, the checkpoint says so.
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
        """The log's producers, for looking at only."""
        return self._writer.producers

    @property
    def epochs(self) -> LeaderEpochs:
        """The log's leader epochs, for looking at only."""
        return self._writer.epochs

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""
        return self._writer.flushing.recovery_point

    @property
    def is_poisoned(self) -> bool:
        """True if writing failed, so that what is on disk is unknown and the log takes nothing more."""
        return self._poison.error is not None

    # Appending

    def append_as_leader(
        self, data: Buffer, *, leader_epoch: int = NO_LEADER_EPOCH, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> Appended:
        """Append one batch, as a producer or a coordinator sends it, at the log's end.

        A producer's batch that the log has already is not written again. The checksum and the records are read, unless
        it is an `EncodedBatch` that was just made. Raises a `StorageError` if nothing was
        appended: `InvalidRecordError` or `CorruptBatchError` for what is never taken, `RefusedAppendError` for what its
        producer may not write now, `DiskFullError`, `PoisonedLogError`.
        """
        return self.append_all_as_leader((data,), leader_epoch=leader_epoch, origin=origin)[0]

    def append_all_as_leader(
        self,
        sent: Sequence[Buffer],
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> list[Appended]:
        """Append batches together: all of them or none, as far as readers and errors tell; raises as for one.

        A crash may leave the first ones of them without the others.
        """
        with self._writing:
            self._check_writable()
            now_ms = self._clock.now_ms()
            batches = [read_sent_batch(data, self.config, origin) for data in sent]
            known = self.producers.check([each.batch for each in batches], origin=origin)
            answers, placed = place_sent(
                batches, known, self.config, next_offset=self.view.end_offset, leader_epoch=leader_epoch, now_ms=now_ms
            )
            self._writer.append(placed, now_ms)
            return answers

    def append_as_follower(self, pieces: Iterable[Buffer]) -> None:
        """Append the whole batches of each piece, which have their offsets: all of them or none.

        That holds as far as readers and errors tell; a crash may leave the first ones without the others. The pieces
        are taken one after the other, so that they need not be in memory together. Raises as `append_as_leader` does,
        `UnexpectedOffsetError` where batches do not follow on the log's end, and what taking the pieces raises.
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
        """Return when everything that was appended before is on disk; any thread may call this."""
        self._check_open()
        self._writer.flush()

    def flush_if_due(self) -> bool:
        """Flush if the topic's `flush.ms` have passed since the last time and there is something to flush."""
        flushing = self._writer.flushing
        is_due = (
            flushing.recovery_point < self.view.end_offset
            and self._clock.now_ms() - flushing.flushed_ms >= self.config.flush_ms
        )
        if is_due:
            self.flush()
        return is_due

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that has the offset, and everything after it; the log goes on where the rest ends.

        That is durable when this returns. A log that ends there or before only forgets its later epochs.
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
        """Hide what lies before the offset, as deleting records does; files are left for retention to remove.

        The checkpoint says so, durably, before readers see it. Raises `DiskFullError` if it cannot, and nothing has
        changed then.
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
        """Delete the segments before the one that begins at the offset; the log starts there then, unless later.

        First readers leave them, then their files and their producer snapshots are renamed, the oldest first. Gives the
        new paths, which are the caller's to remove; readers with an older view go on until then. Raises
        `LogChangedError`, having done nothing, if no segment begins at the offset.
        """
        with self._writing:
            self._check_writable()
            return self._writer.remove_before(base_offset)

    def replace(self, old: Sequence[Segment], new_bases: Sequence[int]) -> list[str]:
        """Put new segments in the place of closed ones, without changing what the log's offsets and bounds are.

        The new ones stand as `.cleaned` in the directory, complete and on disk, and begin at these offsets; the first
        of them is the first of the old ones', unless there are none. Readers see either the old or the new ones, and
        go on with the old ones in an older view. It is durable when this returns, and a crash leaves all or nothing of
        it, but that without new ones the first of the old ones may be gone and others not.

        Gives the old files' new paths, which are the caller's to remove. Raises `LogChangedError`, having done nothing,
        if the old ones are not closed segments of the log, as its newest view shows them, in a row.
        """
        with self._writing:
            self._check_writable()
            return self._writer.replace(old, new_bases)

    def expire_producers(self) -> None:
        """Forget the producers that have been silent for too long."""
        with self._writing, self._poison.changing:
            self.producers.expire(self._clock.now_ms())

    # Resting and closing

    def rest(self) -> bool:
        """Bring everything to disk and hold no descriptors until the log is changed again; False if it just is.

        Its files have the form, and take the space, of those of a closed log. Readers go on. A poisoned log keeps what
        it has, and so does one whose flush fails, which poisons it.
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
        """Bring everything to disk in the form that a closed log has, and let go of the files.

        A poisoned log only lets go. Closing twice is harmless; readers with a view go on.
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
        """Raise unless the log takes changes, and have its files open; for the thread that is about to change it."""
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
