"""The promises of a log's returned operations, and the check that a surviving log keeps them.

After any failure a log is a prefix: the acknowledged batches, in order, and after all of them perhaps the one whose
append was under way. How much of it there has to be depends on the failure and on what was flushed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from storage.errors import DiskFullError
from storage.record.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.log.view import LogView


class PromisedBatch(NamedTuple):
    """A batch as its consumers and its producer know it."""

    first_offset: int
    last_offset: int
    leader_epoch: int
    producer: tuple[int, int, int]
    is_transactional: bool
    is_control: bool
    records: tuple[tuple[int, int, bytes | None, bytes | None], ...]

    @classmethod
    def of(cls, batch: object, *, offset: int | None = None, leader_epoch: int | None = None) -> Self:
        """A batch that is stored, or one that is sent and is to be stored at the offset by the leader."""
        assert isinstance(batch, RecordBatch)
        shift = 0 if offset is None else offset - batch.base_offset
        return cls(
            batch.base_offset + shift,
            batch.last_offset + shift,
            batch.leader_epoch if leader_epoch is None else leader_epoch,
            (batch.producer_id, batch.producer_epoch, batch.base_sequence),
            batch.is_transactional,
            batch.is_control,
            tuple((record.offset + shift, record.timestamp, record.key, record.value) for record in batch.records()),
        )


@dataclass
class LogPromises:
    """The promises of one log, which is synced with each append or only when it is flushed.

    The log has at least what lies before `written_offset` after the death of its process, and what lies before
    `durable_offset` after a loss of power too. `recovery_points` and `starts` are what checkpoints may say then, and
    if it `is_closed`, a marker may say so. Segments before `removed_offset` may be gone, those before `gone_offset` are
    unless power was lost.
    """

    is_synced: bool = False
    batches: list[PromisedBatch] = field(default_factory=list)
    attempted: PromisedBatch | None = None
    durable_offset: int = 0
    truncated_offset: int | None = None
    recovery_points: set[int] = field(default_factory=lambda: {0})
    starts: set[int] = field(default_factory=lambda: {0})
    is_closed: bool = False
    removed_offset: int = 0
    gone_offset: int = 0

    def copy(self) -> LogPromises:
        """Return the same promises for another log."""
        return replace(
            self, batches=list(self.batches), recovery_points=set(self.recovery_points), starts=set(self.starts)
        )

    @property
    def end_offset(self) -> int:
        """Return the offset after the acknowledged batches."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    @property
    def written_offset(self) -> int:
        """Before this everything survives the death of the process; less than the end while the log is truncated."""
        return self.end_offset if self.truncated_offset is None else self._end_below(self.truncated_offset)

    def _end_below(self, offset: int) -> int:
        """Return where the log ends once a truncation to the offset has dropped the batch that has it."""
        return max((batch.last_offset + 1 for batch in self.batches if batch.last_offset < offset), default=0)

    @contextmanager
    def appending(self, batch: PromisedBatch) -> Iterator[None]:
        """An append, which is there whole or not at all unless it is refused."""
        self.attempted = batch
        try:
            yield
        except DiskFullError:
            self.attempted = None
            raise
        self.attempted = None
        self.batches.append(batch)
        if self.is_synced:
            self.durable_offset = self.end_offset

    @contextmanager
    def truncating(self, offset: int) -> Iterator[None]:
        """A truncation, which takes as much as it wants until it has returned, and is durable then."""
        self.truncated_offset = offset
        self.durable_offset = min(self.durable_offset, self._end_below(offset))
        self.recovery_points = {min(point, offset) for point in self.recovery_points}
        self.starts |= {min(start, offset) for start in self.starts}
        yield
        self.starts = {min(start, offset) for start in self.starts}
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.truncated_offset = None

    @contextmanager
    def starting(self, offset: int) -> Iterator[None]:
        """A move of the log's start, which is durable when it has returned, and never happens if it is refused."""
        before = set(self.starts)
        self.starts.add(offset)
        try:
            yield
        except DiskFullError:
            self.starts = before
            raise
        self.starts = {offset}

    @contextmanager
    def removing(self, base_offset: int) -> Iterator[None]:
        """The deletion of the segments before an offset, which has taken the first of them until it has returned."""
        self.removed_offset = max(self.removed_offset, base_offset)
        yield
        self.gone_offset = max(self.gone_offset, base_offset)

    def check_start(self, view: LogView, checkpointed: int, *, has_lost_power: bool) -> None:
        """Raise `AssertionError` unless the log starts where the checkpoint says, or where deleted segments end."""
        first_offset = view.segments[0].base_offset
        assert view.start_offset == max(checkpointed, first_offset)
        assert first_offset <= max(self.removed_offset, *self.starts), "segments are gone that nobody deleted"
        assert has_lost_power or first_offset >= self.gone_offset, "deleted segments are back"

    def flushed(self, recovery_point: int) -> None:
        """The log says that everything before this is on disk."""
        self.durable_offset = max(self.durable_offset, self._end_below(recovery_point))
        self.recovery_points.add(recovery_point)

    def check(self, view: LogView, at_least: int) -> None:
        """Raise `AssertionError` unless the log is what is promised, with all that lies before the offset.

        What it has is what is promised from now on.
        """
        expected = [batch for batch in self.batches if batch.last_offset >= view.start_offset]
        if self.attempted is not None:
            expected.append(self.attempted)
        found = [PromisedBatch.of(batch) for batch in view.batches(view.start_offset)]
        assert found == expected[: len(found)], "what is there is no prefix of what was appended"
        assert view.end_offset >= at_least, f"the log ends at {view.end_offset}, before {at_least}"
        assert view.end_offset == (found[-1].last_offset + 1 if found else view.start_offset)
        hidden = [batch for batch in self.batches if batch.last_offset < view.start_offset]
        self.batches = [*hidden, *found]
        self.attempted = None
        self.truncated_offset = None
        self.durable_offset = view.end_offset
        self.recovery_points = {0}
        self.starts = {view.start_offset}
        self.is_closed = False
