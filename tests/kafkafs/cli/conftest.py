"""A small store for commands that look at one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.files import Files
from storage.log.producers.state import AppendOrigin
from storage.record import BatchForm, Codec, EndTransactionMarker, batches_of_rows, marker_batch
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

TIME_MS = 1_700_000_000_000


@pytest.fixture
def filled_store(tmp_path: Path) -> Path:
    """Make a store: 20 records in orders/0, a second each and ever longer; in payments/0 one of two was aborted."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 2)
        store.topics.create("payments", 1)
        for number in range(20):
            row = (TIME_MS + 1000 * number, b"k%d" % (number % 3), b"x" * number, [("n", b"%d" % number)])
            (batch,) = batches_of_rows([row], base_offset=None, form=BatchForm(codec=Codec(number % 5)))
            store.log("orders", 0).append_as_leader(batch, leader_epoch=0)
        for producer_id, committed in ((1, True), (2, False)):
            form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
            (batch,) = batches_of_rows([(TIME_MS, None, b"of %d" % producer_id, ())], base_offset=None, form=form)
            store.log("payments", 0).append_as_leader(batch, leader_epoch=0)
            marker = marker_batch(
                EndTransactionMarker(committed, coordinator_epoch=0),
                offset=0,
                timestamp_ms=TIME_MS,
                producer_id=producer_id,
                producer_epoch=0,
            )
            store.log("payments", 0).append_as_leader(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    return path


@pytest.fixture
def broken_store(filled_store: Path) -> Path:
    """Make a store whose orders/1 cannot be read at all."""
    log = filled_store / "orders-1" / f"{0:020}.log"
    log.unlink(missing_ok=True)
    log.symlink_to(log.name)
    return filled_store


@pytest.fixture
def damaged_store(filled_store: Path) -> Path:
    """Make a store whose orders/0 has a batch with a wrong checksum in its middle."""
    log = filled_store / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    at = data.index(b"x" * 10)  # the value of offset 10, which is not compressed
    data[at] ^= 1
    log.write_bytes(data)
    return filled_store
