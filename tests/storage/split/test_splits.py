"""Splits have every record of a range exactly once, for every range, log and size of splits.

What a range has is said by a scan of the whole log, batch by batch, as a consumer would read it.
"""

from __future__ import annotations

import pickle
import random
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from consuming import consumed

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import CorruptBatchError, RecordsGoneError, UnknownPartitionError
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.split.counting import RecordCounter, Stretch
from storage.split.reading import SplitReader
from storage.split.splits import PartitionPlace, Split, packed, splits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from storage.log.view import LogView

pytestmark = pytest.mark.golden

WHOLE = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-killed/kafka-3.9-killed",
    "kafka-3.9-compaction/kafka-3.9-compaction-before",
    "kafka-3.9-compaction/kafka-3.9-compaction-after",
    "kafka-3.9-recovery/kafka-3.9-recovery/after",
)
SIZES = (1, 3000, 40_000, 2**40)


class Row(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def refuse(error: Exception) -> None:
    raise error


def partitions(root: Path) -> Iterator[tuple[PartitionPlace, FollowedLog]]:
    found = {log.parent for log in root.rglob("*.log") if log.stem.isdigit() and ".dump" not in str(log)}
    assert found
    for directory in sorted(found):
        topic, _, number = directory.name.rpartition("-")
        log = FollowedLog(Clock(), Files().directory(directory), TopicConfig.resolve({}), producer_expiration_ms=2**62)
        yield PartitionPlace(str(directory.parent), topic, int(number)), log


def rows_of(splits: Sequence[Split], **options: Callable[[CorruptBatchError], None]) -> list[Row]:
    reader = SplitReader(Files(), Clock(), on_loss=refuse, **options)
    rows: list[Row] = []
    for split in splits:
        offsets: list[int] = []
        for batch in reader.read(pickle.loads(pickle.dumps(split))):
            columns = batch.columns
            offsets += columns[0].to_pylist()
            rows += [
                Row(offset, timestamp, kind, key, value, tuple((each["key"], each["value"]) for each in headers))
                for offset, timestamp, kind, key, value, headers in zip(
                    offsets[-len(batch) :],
                    columns[1].cast("int64").to_pylist(),
                    *(column.to_pylist() for column in columns[2:]),
                    strict=True,
                )
            ]
        assert all(split.start_offset <= offset < split.end_offset for offset in offsets)
    return rows


def expected_of(log: FollowedLog, isolation: Isolation) -> list[Row]:
    kinds = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
    return [
        Row(each.offset, each.timestamp, kinds[each.timestamp_type], each.key, each.value, tuple(each.headers))
        for each in consumed(log, isolation)
    ]


def ranges(view: LogView, rng: random.Random, isolation: Isolation) -> list[tuple[int, int]]:
    start, end = view.start_offset, view.bound(isolation)
    cuts = sorted(rng.randint(start, end) for _ in range(6))
    return [(start, end), *pairwise(cuts)]


@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", WHOLE)
def test_every_record_is_in_one_split(name: str, isolation: Isolation, datasets: Callable[[str], Path]) -> None:
    data_set, _, rest = name.partition("/")
    rng = random.Random(name)
    cut = 0
    for place, log in partitions(datasets(data_set) / rest):
        expected = expected_of(log, isolation)
        for start, end in ranges(log.view, rng, isolation):
            size_bytes = rng.choice(SIZES)
            splits = splits_of(log, place, start, end, size_bytes=size_bytes, isolation=isolation, on_loss=refuse)
            cut += len(splits) - len({split.base_offset for split in splits})
            assert rows_of(splits) == [row for row in expected if start <= row.offset < end], (place, start, end)
            assert all(before.end_offset <= after.start_offset for before, after in pairwise(splits))
    assert cut > 0 or "compaction" in name or "recovery" in name


@pytest.mark.parametrize("name", WHOLE)
def test_records_are_counted_from_any_offsets_on(name: str, datasets: Callable[[str], Path]) -> None:
    data_set, _, rest = name.partition("/")
    rng = random.Random(name)
    counted = 0
    for place, log in partitions(datasets(data_set) / rest):
        expected = expected_of(log, Isolation.UNCOMMITTED)
        for start, end in ranges(log.view, rng, Isolation.UNCOMMITTED):
            splits = splits_of(log, place, start, end, size_bytes=rng.choice(SIZES), on_loss=refuse)
            offsets = sorted({start, *(rng.randint(start, end) for _ in range(rng.choice((0, 3, 40))))})
            counter = RecordCounter(Files(), Clock(), offsets, on_loss=refuse)
            found: dict[int, Stretch] = {}
            for split in splits:
                for part in counter.read(pickle.loads(pickle.dumps(split))):
                    found.setdefault(part.start, Stretch(part.start)).add(part.records, part.first_timestamp)
            for first, behind in pairwise([*offsets, end]):
                rows = [row for row in expected if first <= row.offset < behind]
                stretch = found.pop(first, Stretch(first))
                due = (len(rows), rows[0].timestamp if rows else None)
                assert (stretch.records, stretch.first_timestamp) == due, (place, offsets, first)
                counted += len(rows)
            assert not found
    assert counted > 0


def test_counting_ends_at_damage(datasets: Callable[[str], Path]) -> None:
    damaged = 0
    for place, log in partitions(datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"):
        start, end = log.view.start_offset, log.view.end_offset
        splits = splits_of(log, place, start, end, checks_end=False, on_loss=refuse)
        told: list[CorruptBatchError] = []
        rows_of(splits, on_damage=told.append)
        if told:
            damaged += 1
            counter = RecordCounter(Files(), Clock(), [start], on_loss=refuse)
            with pytest.raises(CorruptBatchError) as raised:
                list(chain.from_iterable(map(counter.read, splits)))
            assert (raised.value.path, raised.value.position) == (told[0].path, told[0].position)
    assert damaged > 0


def test_a_cut_is_where_the_index_leads_and_the_parts_are_large(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    place, log = next(each for each in partitions(root) if each[0].topic == "t-none")
    view = log.view
    whole = splits_of(log, place, view.start_offset, view.end_offset, size_bytes=2**40, on_loss=refuse)
    assert len(whole) == len(view.segments)
    parts = splits_of(log, place, view.start_offset, view.end_offset, size_bytes=8192, on_loss=refuse)
    assert len(parts) > len(whole)
    positions = {(segment.base_offset, entry.position) for segment in view.segments for entry in segment.offset_index}
    for split in parts:
        assert split.start == 0 or (split.base_offset, split.start) in positions
        assert split.size_bytes >= min(8192, (split.log_bytes or split.end))
    packs = packed(parts, 50_000)
    assert [split for pack in packs for split in pack] == parts
    assert all(sum(split.size_bytes for split in pack) >= 50_000 for pack in packs[:-1])


def test_damage_is_told_with_its_place_and_can_be_passed_over(datasets: Callable[[str], Path]) -> None:
    damaged = passed_over = 0
    for place, log in partitions(datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"):
        view = log.view
        splits = splits_of(
            log, place, view.start_offset, view.end_offset, size_bytes=4096, checks_end=False, on_loss=refuse
        )
        told: list[CorruptBatchError] = []
        rows = rows_of(splits, on_damage=told.append)
        assert all(error.path and error.position is not None for error in told)
        passed_over += len(rows)
        if told:
            damaged += 1
            with pytest.raises(CorruptBatchError) as raised:
                rows_of(splits)
            assert (raised.value.path, raised.value.position) == (told[0].path, told[0].position)
        else:
            assert rows == rows_of(splits)
    assert damaged > 0
    assert passed_over > 0


def test_what_is_not_there_is_told(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    place, log = next(each for each in partitions(root) if each[0].topic == "t-none")
    end = log.view.end_offset
    with pytest.raises(RecordsGoneError, match=f"has nothing at offsets {end} to {end + 6}: its next offset is {end}"):
        splits_of(log, place, end - 2, end + 7, on_loss=refuse)
    told: list[RecordsGoneError] = []
    splits = splits_of(log, place, end - 2, end + 7, on_loss=told.append)
    assert len(told) == 1
    assert [row.offset for row in rows_of(splits)] == [end - 2, end - 1]


def test_a_partition_that_is_gone_is_told(datasets: Callable[[str], Path]) -> None:
    root = datasets("kafka-3.9") / "kafka-3.9"
    place, log = next(each for each in partitions(root) if each[0].topic == "t-none")
    (split, *_) = splits_of(log, place, 0, log.view.end_offset, on_loss=refuse)
    elsewhere = Split(place._replace(partition=99), *(getattr(split, name) for name in split.__slots__[1:]))
    offsets = f"offsets 0 to {split.end_offset - 1}"
    with pytest.raises(RecordsGoneError, match=f"records of t-none-99 are gone with all of it: {offsets} "):
        rows_of([elsewhere])
    told: list[RecordsGoneError] = []
    assert list(SplitReader(Files(), Clock(), on_loss=told.append).read(elsewhere)) == []
    assert len(told) == 1
    with pytest.raises(UnknownPartitionError):
        _ = FollowedLog(
            Clock(), Files().directory(elsewhere.place.directory), TopicConfig.resolve({}), producer_expiration_ms=0
        ).view
