"""Batches as producers and coordinators send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.record import RecordBatch, read_batches
from storage.testing.codec import (
    ABORT,
    COMMIT,
    CONTROL,
    TRANSACTIONAL,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_control_key,
    encode_end_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.testing.codec import OracleBatch


def read(batch: OracleBatch) -> RecordBatch:
    found = next(read_batches(encode_batch(batch)))
    assert isinstance(found, RecordBatch)
    return found


@pytest.fixture(scope="session")
def data() -> Callable[..., RecordBatch]:
    """A batch of `count` records."""

    def make(
        producer_id: int = 7,
        epoch: int = 0,
        sequence: int = 0,
        *,
        offset: int = 0,
        count: int = 1,
        timestamp: int = 1000,
        transactional: bool = False,
    ) -> RecordBatch:
        records = [OracleRecord(offset + delta, timestamp, value=b"") for delta in range(count)]
        return read(
            batch_of(
                records,
                attributes=TRANSACTIONAL if transactional else 0,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    return make


@pytest.fixture(scope="session")
def marker() -> Callable[..., RecordBatch]:
    """The end of a transaction."""

    def make(
        producer_id: int = 7,
        epoch: int = 0,
        *,
        offset: int = 0,
        commit: bool = True,
        coordinator_epoch: int = 0,
        timestamp: int = 1000,
    ) -> RecordBatch:
        key = encode_control_key(COMMIT if commit else ABORT)
        record = OracleRecord(offset, timestamp, key, encode_end_transaction(coordinator_epoch))
        return read(
            batch_of([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id, producer_epoch=epoch)
        )

    return make
