"""One partition: where it is, its segments from the oldest on with what becomes of each and why, and its groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkafs.locator.times import Instant
from kafkafs.plain_text import one_line
from kafkafs.quantities import count_text, size_text
from kafkafs.top.reading import said
from kafkafs.top.table import Line, Style, age_text, freed_text
from storage.errors import StorageError
from storage.files import as_uri
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.top.reading import Lags
    from kafkafs.top.rows import Row
    from storage.cleanup import RetentionPlan
    from storage.clock import Clock
    from storage.store import Store


@dataclass(frozen=True, slots=True)
class Detail:
    """What is told of a partition besides its row; `error` says why there is no plan."""

    topic: str
    partition: int
    directory: str
    plan: RetentionPlan | None
    lags: Lags
    error: str | None = None


def read_detail(store: Store, clock: Clock, topic: str, partition: int, lags: Lags) -> Detail:
    """Read it as it is now; raises `UnknownPartitionError` for a partition that is gone."""
    from storage.store import StoreRetention

    directory = as_uri(str(store.topics.directory(topic, partition)))
    plan, error = None, None
    try:
        plan = StoreRetention(store, clock).plan(topic, partition)
    except (StorageError, OSError) as failure:
        error = said(failure)
    return Detail(topic, partition, directory, plan, tuple(sorted(lags, key=lambda each: -each[1])), error)


def detail_lines(row: Row, detail: Detail) -> Iterator[Line]:
    """Yield the lines of a partition's page, however wide."""
    now_ms = row.now_ms
    yield Line(f"directory    {one_line(detail.directory)}")
    yield Line(f"log          {_offsets(row)}")
    yield Line(f"size         {_size(row.size_bytes)}, segments: {_known(row.segments)}")
    yield Line(f"growth       {_size(row.bytes_per_second)}/s, {_count(row.records_per_second)} records/s")
    if row.oldest_ms is not None:
        yield Line(f"oldest       {Instant(row.oldest_ms)}, {age_text(row.oldest_ms, now_ms)} ago")
    yield Line(f"freed next   {freed_text(row) or 'nothing'}")
    for error in dict.fromkeys(each for each in (row.error, detail.error) if each is not None):
        yield Line(f"! {one_line(error)}", Style.BAD)
    yield Line("")
    yield Line("GROUPS", Style.TITLE)
    for group, lag in detail.lags:
        yield Line(f"{one_line(group)}  lag {lag}")
    if not detail.lags:
        yield Line("none has committed an offset here, as far as this store knows", Style.QUIET)
    yield Line("")
    yield Line("RETENTION", Style.TITLE)
    for line in () if detail.plan is None else detail.plan.lines():
        yield Line(one_line(line))


def _offsets(row: Row) -> str:
    if row.start_offset is None or row.end_offset is None:
        return "offsets unknown"
    return offsets_text(row.start_offset, row.end_offset)


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _count(value: float | None) -> str:
    return "?" if value is None else count_text(value)


def _size(value: float | None) -> str:
    return "?" if value is None else size_text(value)
