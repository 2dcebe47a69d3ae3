"""Producer snapshots compared with the log, whose batches are passed in once, in order.

Where the log begins at offset 0 or at a snapshot and lacks nothing since, it shows all that its producers did. There a
snapshot has to agree, with three exceptions: it may lack producers that were idle for long, and what they did before,
and Kafka 2.2 did not record the times of markers. After retention or compaction a snapshot may know more than the log,
and only contradictions are reported.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError, CorruptSnapshotError
from storage.log.producers.producers import ProducerStates
from storage.log.producers.snapshot import decode_snapshot, read_snapshot
from storage.log.producers.state import NO_COORDINATOR_EPOCH
from storage.record.layout import NO_PRODUCER_ID
from storage.segment.names import FileName, Kind
from storage.verify.finding import FindingKind, damage, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.log.producers.state import ProducerState
    from storage.segment.index.entries import AbortedTransaction
    from storage.verify.batch_check import CheckedBatch
    from storage.verify.context import PartitionContext

_NEVER_MS: Final = 2**62


class ProducerCheck:
    """The check of the snapshots at these offsets, ascending, of a log that begins at `start_offset`.

    `is_known` is True while the log shows all that its producers did; `has_producers` once it has shown any.
    """

    def __init__(self, context: PartitionContext, snapshots: Sequence[int], *, start_offset: int) -> None:
        self.is_known = start_offset == 0
        self.has_producers = False
        self._context = context
        self._findings = context.findings
        self._waiting = deque(snapshots)
        self._producers = self._none()
        self._next_offset = start_offset

    def add(self, checked: CheckedBatch) -> AbortedTransaction | None:
        """Compare with the next batch. Returns the transaction that it aborts."""
        batch = checked.batch
        self._compare_up_to(checked.first_offset)
        if checked.first_offset != self._next_offset:
            self.is_known = False
        self._next_offset = batch.last_offset + 1
        completed = None
        if batch.producer_id > NO_PRODUCER_ID:
            self.has_producers = True
            try:
                completed = self._producers.apply(batch)
            except CorruptBatchError:  # a control batch without a marker; its records are reported already
                self.is_known = False
        # A compacted batch is still right about itself, but not about what was before it.
        if not checked.is_gapless:
            self.is_known = False
        return None if completed is None else completed.index_entry()

    def lose(self) -> None:
        """Note that offsets after the last batch are lost."""
        self.is_known = False

    def finish(self, end_offset: int) -> None:
        """Compare the snapshots up to the end of the log. Later ones are not judged here."""
        self._compare_up_to(end_offset)

    def _compare_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0] <= offset:
            snapshot = self._waiting.popleft()
            if snapshot > self._next_offset:
                self.is_known = False  # the log lacks offsets before the snapshot
            self._compare(snapshot)

    def _compare(self, offset: int) -> None:
        name = str(FileName(offset, Kind.SNAPSHOT))
        try:
            found = {
                state.producer_id: state for state in decode_snapshot(read_snapshot(self._context.directory, name))
            }
        except CorruptSnapshotError as error:
            self._findings.add(damage(FindingKind.SNAPSHOT, name, error.reason))
            return
        except FileNotFoundError:
            raise
        except OSError as error:
            self._findings.add(unreadable(name, error))
            return
        shown = {state.producer_id: state for state in self._producers.states()}
        for producer_id in sorted(found.keys() | shown.keys()):
            reason = self._contradiction(shown.get(producer_id), found.get(producer_id))
            if reason is not None:
                self._findings.add(
                    damage(FindingKind.SNAPSHOT, name, f"of producer {producer_id} {reason}", offset=offset)
                )
        if not self.is_known:
            self._go_on_from(offset)

    def _contradiction(self, shown: ProducerState | None, found: ProducerState | None) -> str | None:
        """Return the reason why the snapshot contradicts the log about a producer; None if it need not."""
        if found is None:
            is_open = self.is_known and shown is not None and shown.transaction_offset is not None
            return "it knows nothing, although a transaction is open" if is_open else None
        if shown is None:
            return "it knows what the log does not show" if self.is_known else None
        last, last_found = (state.batches[-1] if state.batches else None for state in (shown, found))
        if found.epoch < shown.epoch:
            return f"it has epoch {found.epoch}, and the log {shown.epoch}"
        if not self.is_known:
            is_older = last is not None and last_found is not None and last_found.last_offset < last.last_offset
            return "it has an older batch than the log" if is_older and found.epoch == shown.epoch else None
        if found.epoch != shown.epoch or found.transaction_offset != shown.transaction_offset:
            return f"it says {found}, and the log {shown}"
        if found.coordinator_epoch not in {shown.coordinator_epoch, NO_COORDINATOR_EPOCH}:
            return f"it has coordinator epoch {found.coordinator_epoch}, and the log {shown.coordinator_epoch}"
        times = {shown.last_timestamp, *(batch.timestamp for batch in shown.batches[-1:])}
        if found.last_timestamp not in times:
            return f"it has the timestamp {found.last_timestamp}, and the log {shown.last_timestamp}"
        if last_found is not None and (last is None or last_found[:3] != last[:3]):
            return f"it has the last batch {last_found}, and the log {last}"
        return None

    def _go_on_from(self, offset: int) -> None:
        """Believe the snapshot about what came before it."""
        self._producers = self._none()
        self._producers.truncate_and_reload(offset - 1, offset, now_ms=0)
        self._next_offset = max(self._next_offset, offset)
        self.is_known = True

    def _none(self) -> ProducerStates:
        return ProducerStates(self._context.directory, expiration_ms=_NEVER_MS, read_only=True)
