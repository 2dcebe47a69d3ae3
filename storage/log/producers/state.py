"""One producer as a partition's log knows it, and the rules by which its next batch is accepted or refused.

A state never changes: `after` returns another `ProducerState`, so that a batch can be checked before it is written.
`producers` keeps the states of all producers.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    RefusedAppendError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from storage.record.control import EndTransactionMarker, decode_control
from storage.record.layout import LAST_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from storage.record.reading import Batch

CACHED_BATCHES_MAX: Final = 5
NO_COORDINATOR_EPOCH: Final = -1

logger = logging.getLogger(__name__)


class AppendOrigin(Enum):
    """The origin of a batch, which decides the checks."""

    CLIENT = "client"  # a producer: epochs and sequences
    COORDINATOR = "coordinator"  # a broker's own batches, which have no sequences: epochs
    REPLICATION = "replication"  # batches that another leader has checked: contradictions are logged and accepted


class CachedBatch(NamedTuple):
    """One of a producer's last batches, as far as needed to answer when the producer repeats it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record, counted back from the last over the wrap."""
        first = self.last_sequence - self.offset_delta
        return first if self.last_sequence >= self.offset_delta else first + LAST_SEQUENCE + 1


class ProducerState(NamedTuple):
    """The state of a producer in a log; with only an id, of a producer that the log has never seen.

    `transaction_offset` is where the open transaction begins, if one is open. `batches` are the last ones of the
    current epoch, oldest first. `last_timestamp` is that of the last batch or marker.
    """

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    transaction_offset: int | None = None
    batches: tuple[CachedBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        """The last record's sequence; -1 if the epoch has no batch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if the producer may be removed; never while its transaction is open."""
        return self.transaction_offset is None and now_ms - self.last_timestamp >= expiration_ms

    def cached(self, batch: Batch) -> CachedBatch | None:
        """Return the cached batch that this one repeats, if any."""
        if batch.producer_epoch == self.epoch:
            last_sequence = batch.last_sequence
            for known in self.batches:
                if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                    return known
        return None

    def check(self, batch: Batch, marker: EndTransactionMarker | None, origin: AppendOrigin) -> None:
        """Raise a `RefusedAppendError` unless this batch may come next; `marker` is the result of `marker_of`."""
        if marker is not None:
            self._check_epoch(batch, origin)
            self._check_coordinator(batch, marker, origin)
        elif not batch.is_control:
            self._check_epoch(batch, origin)
            if origin is AppendOrigin.CLIENT:
                self._check_sequence(batch)
            if self.transaction_offset is not None and not batch.is_transactional:
                raise InvalidTransactionStateError(
                    f"producer {self.producer_id} writes outside of its transaction, "
                    f"which is open since offset {self.transaction_offset}",
                    offset=batch.base_offset,
                )

    def after(self, batch: Batch, marker: EndTransactionMarker | None) -> ProducerState:
        """Return the state once this batch is in the log; `marker` is the result of `marker_of`."""
        kept = self.batches if batch.producer_epoch == self.epoch else ()
        if marker is not None:
            return ProducerState(
                self.producer_id, batch.producer_epoch, marker.coordinator_epoch, batch.max_timestamp, None, kept
            )
        if batch.is_control:
            return self
        last_offset = batch.last_offset
        added = CachedBatch(batch.last_sequence, last_offset, last_offset - batch.base_offset, batch.max_timestamp)
        opens = self.transaction_offset is None and batch.is_transactional
        return ProducerState(
            self.producer_id,
            batch.producer_epoch,
            self.coordinator_epoch,
            batch.max_timestamp,
            batch.base_offset if opens else self.transaction_offset,
            (*kept[1 - CACHED_BATCHES_MAX :], added),
        )

    def _check_epoch(self, batch: Batch, origin: AppendOrigin) -> None:
        if batch.producer_epoch < self.epoch:
            error = InvalidProducerEpochError(
                f"producer {self.producer_id} writes with epoch {batch.producer_epoch}, known is {self.epoch}",
                offset=batch.base_offset,
            )
            _refuse(error, origin)

    def _check_coordinator(self, batch: Batch, marker: EndTransactionMarker, origin: AppendOrigin) -> None:
        if marker.coordinator_epoch < self.coordinator_epoch:
            error = TransactionCoordinatorFencedError(
                f"a marker for producer {self.producer_id} has coordinator epoch {marker.coordinator_epoch}, "
                f"known is {self.coordinator_epoch}",
                offset=batch.base_offset,
            )
            _refuse(error, origin)

    def _check_sequence(self, batch: Batch) -> None:
        """Raise unless the sequence comes next. A new epoch begins at 0; an unknown producer may begin anywhere."""
        if self.epoch == NO_PRODUCER_EPOCH:
            return
        last_sequence = self.last_sequence if batch.producer_epoch == self.epoch else NO_SEQUENCE
        expected = 0 if last_sequence == LAST_SEQUENCE else last_sequence + 1
        if batch.base_sequence != expected:
            raise OutOfOrderSequenceError(
                f"producer {self.producer_id} goes on with sequence {batch.base_sequence} in epoch "
                f"{batch.producer_epoch}, expected is {expected}",
                offset=batch.base_offset,
            )


def marker_of(batch: Batch) -> EndTransactionMarker | None:
    """Return the transaction marker in a batch, if it holds one: the cleaner may have removed a control batch's.

    Raises `CorruptBatchError` if a control batch cannot be read.
    """
    if not batch.is_control:
        return None
    record = next(batch.records(), None)
    if record is None:
        return None
    try:
        control = decode_control(record.key, record.value)
    except StorageError as error:
        raise error.located(position=batch.position, offset=batch.base_offset) from None
    return control if isinstance(control, EndTransactionMarker) else None


def _refuse(error: RefusedAppendError, origin: AppendOrigin) -> None:
    """Raise the error, or only log it for a batch that another leader's log has anyway."""
    if origin is not AppendOrigin.REPLICATION:
        raise error
    logger.warning("replicated although %s", error)
