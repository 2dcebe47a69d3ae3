"""Which transactions are open and since when, by the batches with which they began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.files import Files
from storage.record import BatchForm, batches_of_rows
from storage.store.internal_topics import InternalTopics
from storage.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

THEN_MS = 1_700_000_000_000


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_transaction_began_when_its_first_record_was_written(tmp_path: Path, timestamp_type: str) -> None:
    begun_ms = Clock().now_ms()
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1, {"message.timestamp.type": timestamp_type})
        form = BatchForm(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        (batch,) = batches_of_rows([(THEN_MS, None, b"value", ())], base_offset=None, form=form)
        store.log_to_write("t", 0).append_as_leader(batch, leader_epoch=0)
        (found,) = InternalTopics(store, Clock(), store.log_to_write).transactions().transactions
    began_ms = found.began_ms
    assert began_ms is not None
    if timestamp_type == "CreateTime":
        assert began_ms == THEN_MS
    else:
        assert begun_ms <= began_ms <= Clock().now_ms()
