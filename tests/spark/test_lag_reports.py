"""How far a stream says that it is behind: the numbers that Spark's own source has for the same records and options."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import GrowingStore

readers = pytest.importorskip("kafkafs.spark.readers", reason="not run: PySpark is not installed")
schema = pytest.importorskip("kafkafs.spark.schema", reason="not run: PySpark is not installed")

THEIRS = [(8, 16, 12.0), (6, 12, 9.0), (4, 8, 6.0), (2, 4, 3.0), (0, 0, 0.0)]
"""The least, the most and the average offsets behind, of 20 and 10 records with `maxOffsetsPerTrigger=7`."""


def batches(reader: Any) -> Any:
    """Yield the end of each batch once Spark would have planned it, until the stream is at the end of the store."""
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        reader.partitions(start, end)
        yield end
        start = end
    reader.stop()


def numbers(lag: dict[str, Any]) -> tuple[int, int, float]:
    return tuple(lag[f"{each}OffsetsBehindLatest"] for each in ("min", "max", "avg"))


@pytest.fixture
def store(growing: GrowingStore) -> GrowingStore:
    growing.create("orders", 2)
    growing.append("orders", 0, 20)
    growing.append("orders", 1, 10)
    return growing


def test_the_file_and_the_log_have_what_spark_has_for_its_own_source(
    store: GrowingStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lag.json"
    options = {
        "path": str(store.path),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "7",
        "lagFile": f"file:{path}",
    }
    found = []
    with caplog.at_level(logging.INFO):
        for end in batches(readers.StoreStreamReader(options, schema.source_schema(has_headers=False))):
            lag = json.loads(path.read_text())
            assert lag["endOffset"]["orders"] == end["orders"]
            assert lag["latestOffset"] == {"orders": {"0": 20, "1": 10}}
            assert (lag["bytesBehindLatest"] > 0) == (lag["maxOffsetsBehindLatest"] > 0)
            found.append(numbers(lag))
    assert found == THEIRS
    lines = [record.getMessage() for record in caplog.records if "behind the latest" in record.getMessage()]
    assert len(lines) == len(THEIRS)
    assert lines[0].startswith("after this batch the stream is behind the latest offsets by 8 to 16 offsets, 12.0 on ")


def test_a_file_that_cannot_be_written_ends_no_query(
    store: GrowingStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"path": str(store.path), "startingOffsets": "earliest", "lagFile": str(tmp_path / "none" / "lag.json")}
    (end,) = batches(readers.StoreStreamReader(options, schema.source_schema(has_headers=False)))
    assert end["orders"] == {"0": 20, "1": 10}
    assert f"the lag cannot be written to {tmp_path}/none/lag.json: " in caplog.text


def test_partitions_that_no_batch_has_read_count_from_their_start(store: GrowingStore, tmp_path: Path) -> None:
    """With a batch that ends before the partition was there, as after a restart."""
    path = tmp_path / "lag.json"
    store.append("orders", 1, 90)
    start = store.retire("orders", 1, keep=1)
    options = {"path": str(store.path), "lagFile": str(path)}
    reader = readers.StoreStreamReader(options, schema.source_schema(has_headers=False))
    reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 15}})
    reader.stop()
    assert numbers(json.loads(path.read_text())) == (100 - start, 5, (105 - start) / 2)
