"""Every lookup in logs that real brokers wrote, against looking at everything.

Offsets and timestamps are sought through the brokers' own indexes, of all versions, in logs that are whole, compacted,
of mixed formats, or left open by a broker that was killed.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import pytest

from storage.errors import FramingError
from storage.files import Files
from storage.log.index_cache import IndexCache
from storage.log.view import LogView, StableState
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.record import Batch, Record
    from storage.segment.segment import TimestampAndOffset

FILES = Files()
DATASETS = ("kafka-3.9", "kafka-2.2", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery/after")
LATER = 2**62


class Known(NamedTuple):
    """What a segment holds, found without any index, and where its batches end."""

    segment: Segment
    batches: list[Batch]
    records: list[Record]
    end_position: int


def known(log: Path, *, is_last: bool) -> Known:
    whole = Segment(FILES.directory(log.parent), int(log.stem))
    batches = []
    try:
        for batch in whole.batches():
            batches.append(batch)  # noqa: PERF402 - what comes before an error is wanted
    except FramingError:
        assert is_last  # the zeros of a preallocated file
    end_position = batches[-1].position + batches[-1].size_bytes if batches else 0
    segment = Segment(FILES.directory(log.parent), int(log.stem), size_bytes=end_position, is_finished=not is_last)
    records = [record for batch in batches for record in batch.records()]
    return Known(segment, batches, records, end_position)


def partitions(root: Path) -> Iterator[list[Path]]:
    directories = {log.parent for log in root.rglob("*.log") if ".dump" not in str(log)}
    for directory in sorted(directories):
        logs = sorted(log for log in directory.glob("*.log") if log.stem.isdigit())
        if logs:
            yield logs


@pytest.mark.golden
@pytest.mark.parametrize("name", DATASETS)
def test_lookups_equal_a_scan(name: str, datasets: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    offsets = times = logs_count = 0
    root = datasets(name.partition("/")[0])
    for logs in partitions(root / name if (root / name).is_dir() else root):
        segments = [known(log, is_last=log is logs[-1]) for log in logs]
        start_offset = segments[0].segment.base_offset
        batches = [batch for each in segments for batch in each.batches]
        end_offset = batches[-1].last_offset + 1 if batches else start_offset
        view = LogView(
            tuple(each.segment for each in segments),
            start_offset,
            end_offset,
            segments[-1].end_position,
            partial(StableState, end_offset),
            IndexCache(),
        )
        logs_count += 1
        offsets += check_offsets(view, batches)
        times += check_times(view, segments)
    with capsys.disabled():
        print(f"\n{name}: {logs_count} logs, {offsets} offsets and {times} timestamps found as by a scan")
    assert offsets


def check_offsets(view: LogView, batches: list[Batch]) -> int:
    ends = [batch.last_offset for batch in batches]
    for offset in range(view.start_offset, view.end_offset):
        expected = batches[bisect_left(ends, offset)]
        found = view.find(offset)
        assert found is not None
        assert (found.read_first_offset(), found.position) == (expected.read_first_offset(), expected.position)
    assert view.find(view.end_offset) is None
    return view.end_offset - view.start_offset


def check_times(view: LogView, segments: list[Known]) -> int:
    """The first record of all is found; what a broker answers depends on the times of empty segments' files, too."""
    highest = [list(accumulate((record.timestamp for record in each.records), max)) for each in segments]
    largest = [
        each[-1] if each else each_known.segment.age_timestamp
        for each, each_known in zip(highest, segments, strict=True)
    ]
    distinct = {record.timestamp for each in segments for record in each.records if record.timestamp >= 0}
    sought = {max(timestamp + nudge, 0) for timestamp in distinct for nudge in (-1, 0, 1)} | {0, LATER}
    records = [record for each in segments for record in each.records]
    highest_of_all = list(accumulate((record.timestamp for record in records), max))
    for timestamp in sought:
        index = bisect_left(highest_of_all, timestamp)
        assert named(view.find_timestamp(timestamp)) == named(records[index] if index < len(records) else None)
        at = next((index for index, most in enumerate(largest) if most >= timestamp), None)
        listed = None
        if at is not None:
            index = bisect_left(highest[at], timestamp)
            listed = segments[at].records[index] if index < len(highest[at]) else None
        assert named(view.list_offset(timestamp)) == named(listed)
    return len(sought)


def named(found: Record | TimestampAndOffset | None) -> tuple[int, int] | None:
    return None if found is None else (found.offset, found.timestamp)
