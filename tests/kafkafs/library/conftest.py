"""Stores that the library has made and appended to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kafkafs
from storage.clock import Clock
from storage.files import Files
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW_MS = 1_700_000_000_000


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Make a store with a topic `orders` of two partitions: a hundred numbers in each, a second between them."""
    path = tmp_path / "made"
    with kafkafs.open(path, write=True) as store:
        topic = store.create("orders", 2, {"segment.bytes": "1000"})
        for number, partition in topic.items():
            for at in range(number, 200, 2):
                partition.append(b"%d" % at, key=b"k%d" % number, timestamp=NOW_MS + at * 1000)
    return path


@pytest.fixture
def produced() -> Callable[[Path, list[tuple[bytes, int | None, bool | None]]], None]:
    """Append records to orders-0 of a closed store, each by a producer or none, whose transaction then may end."""

    def produce(path: Path, records: list[tuple[bytes, int | None, bool | None]]) -> None:
        sequences: dict[int, int] = {}
        with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
            log = store.log("orders", 0)
            for value, producer, is_committed in records:
                form = BatchForm()
                if producer is not None:
                    sequence = sequences.setdefault(producer, 0)
                    sequences[producer] += 1
                    form = BatchForm(producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)
                (batch,) = batches_of_rows([(NOW_MS, b"k", value, ())], form=form)
                log.append_as_leader(batch, leader_epoch=0)
                if is_committed is not None:
                    _end(log, producer, is_committed=is_committed)

    return produce


def _end(log, producer: int, *, is_committed: bool) -> None:
    from storage.log.producers.state import AppendOrigin

    marker = EndTransactionMarker(is_committed, 0)
    data = marker_batch(marker, offset=0, timestamp_ms=NOW_MS, producer_id=producer, producer_epoch=0, leader_epoch=0)
    log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
