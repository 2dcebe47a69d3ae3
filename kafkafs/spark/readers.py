"""The readers of a batch query and of a streaming query, each of whose batches has exactly the offsets planned for it.

A stream's offsets have the form that Spark's own Kafka source keeps, `{"orders":{"0":42}}`, so checkpoints and progress
read alike. Until a query's first batch is done, Spark asks again where the query begins, and the answer may change;
so the end of that batch records its start, under `@start`, which cannot be the name of a topic.
"""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kafkafs.spark.bounds import NoMatch, check_resolved, names
from kafkafs.spark.json_forms import flat, nested
from kafkafs.spark.left_out import LeftOut
from kafkafs.spark.limits import count, limited
from kafkafs.spark.opened_store import OpenedStore, report_loss
from kafkafs.spark.options import BatchOptions, StreamOptions
from kafkafs.spark.reports import StreamLag, say_scan, show_lines
from kafkafs.spark.schema import check_schema
from kafkafs.spark.sight import Sighted
from kafkafs.spark.task import read_splits
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from storage.log_dir import Partition

    Offsets: TypeAlias = dict[Partition, int]

logger = logging.getLogger(__name__)

_FIRST: Final = "@first"  # in the offsets at which a query begins
_START: Final = "@start"  # in the offsets at which its first batch ends


class StoreReader(DataSourceReader):
    """A batch query, of the offsets at planning; raises `OptionError` for an impossible option or schema."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema)
        self._options = BatchOptions.parse(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the splits in packs, at least one, even if it is empty: without one, Spark makes up its own."""
        options = self._options.store
        with closing(OpenedStore(options)) as store:
            partitions = store.partitions(must_exist=True)
            starts = store.resolve(options.starting, partitions, options.no_match)
            ends = store.resolve(self._options.ending, partitions, NoMatch.LATEST)
            check_resolved(starts, ends)
            packs = store.packs({each: (starts[each], ends[each]) for each in starts if each in ends})
            size_bytes = sum(split.size_bytes for pack in packs for split in pack.piece)
        say_scan(self._options, self._schema, size_bytes, len(packs))
        LeftOut(options.damage_directory).begin()
        return [InputPartition(pack) for pack in packs or [Sighted(())]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a pack."""
        return read_splits(partition.value, self._schema, self._options.store)


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query, over a store as it grows; raises `OptionError` for an impossible option or schema.

    New partitions and topics are read from their beginning. Only the process that plans has the store open.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema)
        self._options = StreamOptions.parse(options)
        self._schema = schema
        self._clock = Clock()
        self._opened: OpenedStore | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._batch_s: float | None = None
        self._report = partial(report_loss, fails=self._options.store.fails_on_data_loss)
        if self._options.lag_file is not None:
            show_lines()
        self._left_out = LeftOut(self._options.store.damage_directory)
        self._counted: int | None = None  # of the places left out, up to the last batch
        self._lag: StreamLag | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Return where the query begins."""
        store, options = self._store(), self._options.store
        partitions = store.partitions(must_exist=True)
        return {**nested(store.resolve(options.starting, partitions, options.no_match)), _FIRST: True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the options' limit."""
        offsets_max = self._options.offsets_max
        return ReadAllAvailable() if offsets_max is None else ReadMaxRows(offsets_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End at the present end of the store."""
        self._target = self._newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the batch that begins at `start`; `start` itself if there is nothing for a batch yet."""
        begins = _offsets(start)
        ends = self._latest = self._newest() if self._target is None else self._target
        if self._waits(begins, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            added = self._store().earliest([each for each in ends if each not in begins])
            ends = limited(limit.max_rows, {**added, **begins}, ends)
        if ends == begins:
            return start
        self._batch_s = self._clock.elapsed_s()
        first = {_START: nested(begins)} if _FIRST in start else {}
        return {**nested(ends), **first}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the store when it was last read."""
        return None if self._latest is None else nested(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the splits of a batch, in packs."""
        begins, ends = _offsets(end.get(_START, start)), _offsets(end)
        store = self._store()
        store.partitions(must_exist=False)
        begins.update(self._added([each for each in ends if each not in begins]))
        gone = [each for each in begins if each not in ends]
        if gone:
            self._report(f"{names(gone)} are gone. Some data may have been missed")
        for each, offset in ends.items():
            if offset < begins.get(each, 0):
                self._report(
                    f"Partition {names([each])}'s offset was changed from {begins[each]} to {offset}, some data may "
                    "have been missed"
                )
        packs = store.packs({each: (begins[each], offset) for each, offset in ends.items() if each in begins})
        if self._counted is None:
            self._counted = self._left_out.begin()
        self._tell_lag(ends)
        return [InputPartition(pack) for pack in packs]

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002
        """Log how many damaged places the tasks of the last batch have left out, if they have."""
        before, now = self._counted, self._left_out.count()
        if before is not None and now > before:
            logger.warning("left out %d damaged places, %d in all: %s", now - before, now, self._left_out.directory)
            if self._lag is not None:
                self._write_lag(self._lag.with_left_out(now))
        self._counted = now

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a pack."""
        return read_splits(partition.value, self._schema, self._options.store)

    def stop(self) -> None:
        """Close the store."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _tell_lag(self, ends: Offsets) -> None:
        """Log how far the query is behind once a batch is done, and write it to the file that the options name."""
        latest, store = self._latest or self._newest(), self._store()
        done = {**store.earliest(latest.keys() - ends), **ends}
        ranges = {each: (min(done[each], offset), offset) for each, offset in latest.items() if each in done}
        behind = tuple(end - start for start, end in ranges.values())
        now_ms, left_out = self._clock.now_ms(), self._counted or 0
        lag = StreamLag(now_ms, ends, latest, behind, store.bytes_between(ranges), left_out)
        lag.say()
        self._write_lag(lag)

    def _write_lag(self, lag: StreamLag) -> None:
        self._lag = lag
        if self._options.lag_file is not None:
            try:
                lag.write(self._options.lag_file)
            except OSError as error:  # a query does not end for what is said of it
                logger.warning("the lag cannot be written to %s: %s", self._options.lag_file, error)

    def _store(self) -> OpenedStore:
        if self._opened is None:
            self._opened = OpenedStore(self._options.store)
        return self._opened

    def _newest(self) -> Offsets:
        store = self._store()
        return store.latest(store.partitions(must_exist=False))

    def _waits(self, begins: Offsets, ends: Offsets) -> bool:
        """Return True if there is too little for a batch, and no batch is overdue."""
        offsets_min = self._options.offsets_min
        if offsets_min is None or self._target is not None or self._batch_s is None:
            return False
        is_overdue = (self._clock.elapsed_s() - self._batch_s) * 1000 >= self._options.delay_ms_max
        return not is_overdue and count(begins, ends) < offsets_min

    def _added(self, partitions: list[Partition]) -> Offsets:
        """Return the starts of the partitions that were added since the last batch."""
        found = self._store().earliest(partitions)
        missing = [each for each in partitions if each not in found]
        if missing:
            self._report(f"Cannot find earliest offsets of {names(missing)}. Some data may have been missed")
        for each, offset in found.items():
            if offset:
                self._report(
                    f"Added partition {names([each])} starts from {offset} instead of 0. Some data may have been missed"
                )
        return found


def _offsets(form: Mapping[str, Any]) -> Offsets:
    return flat({topic: offsets for topic, offsets in form.items() if not topic.startswith("@")})
