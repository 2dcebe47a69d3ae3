"""What a streaming query is promised batch by batch, asked as Spark asks it, without Spark."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkafs.spark.errors import DataLossError
from storage.log.producers.state import AppendOrigin
from storage.record.control import EndTransactionMarker
from storage.record.encoding import BatchForm, batches_of_rows, marker_batch

if TYPE_CHECKING:
    from conftest import GrowingStore

    from kafkafs.spark.readers import StoreStreamReader

streaming = pytest.importorskip("pyspark.sql.streaming.datasource", reason="not run: PySpark is not installed")

ALL = streaming.ReadAllAvailable()


def reader_of(growing: GrowingStore, **options: str) -> StoreStreamReader:
    from kafkafs.spark.readers import StoreStreamReader
    from kafkafs.spark.schema import source_schema

    given = {"path": str(growing.path), "startingOffsets": "earliest", **options}
    return StoreStreamReader(given, source_schema(has_headers=False))


def read(reader: StoreStreamReader, start: dict[str, object], end: dict[str, object]) -> list[str]:
    """The values of a batch, read as tasks do: by a copy of the reader, and of what they are given."""
    partitions = reader.partitions(*json.loads(json.dumps([start, end])))
    copy = reader_of_task(reader)
    batches = [batch for each in pickle.loads(pickle.dumps(partitions)) for batch in copy.read(each)]
    return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())


def reader_of_task(reader: StoreStreamReader) -> StoreStreamReader:
    reader.stop()
    return pickle.loads(pickle.dumps(reader))


@pytest.fixture
def store(growing: GrowingStore) -> GrowingStore:
    growing.create("orders", 2)
    growing.append("orders", 0, 30)
    growing.append("orders", 1, 10)
    return growing


def test_every_batch_has_what_was_promised(store: GrowingStore) -> None:
    reader = reader_of(store, maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    found: list[str] = []
    sizes = []
    while (end := reader.latestOffset(start, limit)) != start:
        batch = read(reader, start, end)
        assert batch == read(reader, start, end)
        sizes.append(len(batch))
        found += batch
        start = end
    assert sorted(found) == store.values()
    assert sizes == [8, 8, 8, 8, 8]
    assert reader.reportLatestOffset() == {"orders": {"0": 30, "1": 10}}


def test_what_comes_after_a_query_began_is_read_from_its_beginning(store: GrowingStore) -> None:
    reader = reader_of(store, subscribePattern="orders|new", startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    store.store.topics.add_partition("orders")
    store.append("orders", 2, 3)
    store.create("new")
    store.append("new", 0, 2)
    store.create("another")
    store.append("another", 0, 2)
    end = reader.latestOffset(start, ALL)
    assert end["orders"] == {"0": 30, "1": 10, "2": 3}
    assert read(reader, start, end) == ["new-0-0", "new-0-1", "orders-2-0", "orders-2-1", "orders-2-2"]


def test_the_first_batch_knows_where_it_began(store: GrowingStore) -> None:
    reader = reader_of(store, startingOffsets="latest")
    start = reader.initialOffset()
    store.append("orders", 0, 2)
    end = reader.latestOffset(start, ALL)
    store.append("orders", 0, 2)
    again = reader_of(store, startingOffsets="latest")
    assert read(again, again.initialOffset(), end) == ["orders-0-30", "orders-0-31"]
    second = again.latestOffset(end, ALL)
    assert second == {"orders": {"0": 34, "1": 10}}
    assert read(again, end, second) == ["orders-0-32", "orders-0-33"]


def test_what_is_available_now_is_all_that_is_read(store: GrowingStore) -> None:
    reader = reader_of(store, minOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    store.append("orders", 1, 5)
    end = reader.latestOffset(start, ALL)
    assert end["orders"] == {"0": 30, "1": 10}
    assert reader.latestOffset(end, ALL) == end


def test_a_batch_waits_for_enough_unless_it_is_overdue(store: GrowingStore) -> None:
    for delay, is_overdue in (("1h", False), ("0s", True)):
        reader = reader_of(store, minOffsetsPerTrigger="3", maxTriggerDelay=delay)
        end = reader.latestOffset(reader.initialOffset(), ALL)
        store.append("orders", 0, 2)
        assert (reader.latestOffset(end, ALL) != end) is is_overdue
        store.append("orders", 0, 1)
        assert reader.latestOffset(end, ALL) != end


def test_only_what_is_decided_is_read_of_transactions(store: GrowingStore) -> None:
    log = store.store.log("orders", 0)
    reader = reader_of(store, **{"kafka.isolation.level": "read_committed"})
    start = reader.latestOffset(reader.initialOffset(), ALL)
    for sequence, value in enumerate((b"kept", b"aborted", b"open")):
        form = BatchForm(producer_id=5, producer_epoch=0, base_sequence=sequence, transactional=True)
        (batch,) = batches_of_rows([(1, None, value, ())], form=form)
        log.append_as_leader(batch, leader_epoch=0)
        if value != b"open":
            marker = EndTransactionMarker(committed=value == b"kept", coordinator_epoch=0)
            data = marker_batch(marker, offset=0, timestamp_ms=1, producer_id=5, producer_epoch=0)
            log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    end = reader.latestOffset(start, ALL)
    assert end["orders"] == {"0": 34, "1": 10}
    assert read(reader, start, end) == ["kept"]


def test_offsets_that_went_back_are_lost_data(store: GrowingStore) -> None:
    reader = reader_of(store)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    store.store.log("orders", 0).truncate_to(20)
    later = reader.latestOffset(end, ALL)
    with pytest.raises(DataLossError, match="Partition orders-0's offset was changed from 30 to 20"):
        reader.partitions(end, later)
    lenient = reader_of(store, failOnDataLoss="false")
    assert read(lenient, end, later) == []


def test_what_damage_leaves_out_is_counted_by_the_driver(
    store: GrowingStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = store.store.log("orders", 0)
    victims = list(log.view.batches(0))[3:9:3]
    for victim in victims:
        path = Path(log.view.segment_of(victim.base_offset).path(".log"))
        data = bytearray(path.read_bytes())
        data[victim.position + victim.size_bytes - 1] ^= 1
        path.write_bytes(data)
    directory = tmp_path / "damage"
    reader = reader_of(store, damage="skip", damageDirectory=str(directory))
    end = reader.latestOffset(reader.initialOffset(), ALL)
    for _ in range(2):
        assert len(read(reader, reader.initialOffset(), end)) == 40 - len(victims)
    reader.commit(end)
    reader.commit(end)
    assert caplog.messages.count(f"left out 2 damaged places, 2 in all: {directory}") == 1
    found = [json.loads(path.read_text()) for path in directory.iterdir()]
    assert {each["position"] for each in found} == {victim.position for victim in victims}
    assert all(each["reason"] and each["path"].startswith(str(store.path)) for each in found)


def test_a_partition_that_comes_without_its_beginning_is_lost_data(store: GrowingStore) -> None:
    reader = reader_of(store)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    store.create("late")
    store.append("late", 0, 200)
    begins = store.retire("late", 0, keep=2)
    later = reader.latestOffset(end, ALL)
    with pytest.raises(DataLossError, match=f"Added partition late-0 starts from {begins} instead of 0"):
        reader.partitions(end, later)
    assert len(read(reader_of(store, failOnDataLoss="false"), end, later)) == 200 - begins
