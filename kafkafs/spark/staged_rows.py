"""Stages rows of Arrow as records: chooses the topic and the partition of each, and reads its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkafs.spark.errors import RowError
from kafkafs.spark.partitioner import Sticky, key_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.clock import Clock
    from storage.record import Headers
    from storage.store import Staging

_MICROSECONDS: Final = pa.timestamp("us", "UTC")


class StagedRows:
    """The rows of a task, staged as they come; `topic` replaces every row's own."""

    def __init__(self, staging: Staging, topic: str | None, clock: Clock) -> None:
        self._staging = staging
        self._topic = topic
        self._clock = clock
        self._sticky = Sticky()

    def add(self, batch: pa.RecordBatch) -> None:
        """Stage the rows of a batch; raises `RowError` for a row that cannot be a record, and as `Staging.add` does."""
        nulls = [None] * batch.num_rows
        names = set(batch.schema.names)
        keys = batch.column("key").cast(pa.binary()) if "key" in names else None
        values = batch.column("value").cast(pa.binary()).to_pylist()
        headers = batch.column("headers").to_pylist() if "headers" in names else nulls
        partitions = batch.column("partition").to_pylist() if "partition" in names else nulls
        if self._topic is not None:
            topics: Sequence[str | None] = [self._topic] * batch.num_rows
        else:
            topics = batch.column("topic").to_pylist()
        rows = zip(
            topics,
            partitions,
            nulls if keys is None else keys.to_pylist(),
            values,
            headers,
            self._timestamps(batch),
            nulls if keys is None else key_hashes(keys).tolist(),
            strict=True,
        )
        for topic, partition, key, value, row_headers, timestamp, key_hash in rows:
            if topic is None:
                raise RowError("null topic present in the data. Use the topic option for setting a default topic.")
            place = self._partition(topic, key, value, key_hash) if partition is None else partition
            self._staging.add(topic, place, (timestamp, key, value, _headers(row_headers)))

    def _partition(self, topic: str, key: bytes | None, value: bytes | None, key_hash: int | None) -> int:
        count = self._staging.partitions(topic)
        if key is None or key_hash is None:
            return self._sticky.partition(topic, count, len(value or b""))
        return key_hash % count

    def _timestamps(self, batch: pa.RecordBatch) -> list[int]:
        """Return times in milliseconds; rows without one get the present time."""
        now_ms = self._clock.now_ms()
        if "timestamp" not in batch.schema.names:
            return [now_ms] * batch.num_rows
        times = batch.column("timestamp").cast(_MICROSECONDS).cast(pa.int64()).to_pylist()
        return [now_ms if time_us is None else time_us // 1000 for time_us in times]


def _headers(row: list[dict[str, Any] | None] | None) -> Headers:
    """Return the headers of a row; raises `RowError` for one that is null or has no name, which Kafka does not have."""
    headers: list[tuple[str, bytes | None]] = []
    for header in row or ():
        if header is None or header["key"] is None:
            what = "is null" if header is None else "has null for its key"
            raise RowError(f"a header {what}, and a record's headers have names: leave it out of the array")
        headers.append((header["key"], header["value"]))
    return headers
