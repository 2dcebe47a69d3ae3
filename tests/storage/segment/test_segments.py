"""A segment that is written, and the same one read from its files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import NOW_MS

from storage.config import TopicConfig
from storage.errors import InvalidIndexEntryError
from storage.record import read_batches
from storage.segment.names import Kind
from storage.segment.rolling import RollReason, roll_reason
from storage.segment.segment import Segment
from storage.segment.writable_segment import PlacedBatches, WritableSegment
from storage.testing.codec import OracleRecord, batch_of, encode_batch
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles

BASE = 100
CONFIG = TopicConfig.resolve({"segment.index.bytes": "1200", "index.interval.bytes": "200", "segment.bytes": "100000"})


def batch(first: int, last: int | None = None, timestamp: int = NOW_MS, size: int = 40) -> bytes:
    offsets = [first] if last is None else [first, last]
    return encode_batch(batch_of([OracleRecord(offset, timestamp, b"k", b"x" * size) for offset in offsets]))


def placed(data: bytes) -> PlacedBatches:
    return PlacedBatches.of(list(read_batches(data)), data)


class Bench:
    """An active segment at offset 100, of files in memory."""

    def __init__(self, config: TopicConfig = CONFIG) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("/p")
        self.config = config
        self.segment = WritableSegment.create(self.files.directory("/p"), BASE, config, now_ms=NOW_MS)

    def append(self, *batches: bytes) -> None:
        for data in batches:
            self.segment.append(placed(data))

    def closed(self) -> Segment:
        self.segment.finalise()
        self.segment.close()
        return Segment(self.files.directory("/p"), BASE)

    def reopened(self) -> WritableSegment:
        self.closed()
        return WritableSegment.open_writing(self.files.directory("/p"), BASE, self.config, now_ms=NOW_MS)

    def state(self) -> tuple[object, ...]:
        segment = self.segment
        contents = {name: self.files.read(f"/p/{name}") for name in self.files.names("/p")}
        return contents, segment.size_bytes, segment.largest_timestamp, segment.first_timestamp


def test_the_first_batch_is_not_indexed_and_one_after_more_than_the_interval_is() -> None:
    bench = Bench()
    size_bytes = len(batch(100))
    assert 2 * size_bytes > CONFIG.index_interval_bytes > size_bytes
    bench.append(*(batch(offset, timestamp=NOW_MS - offset) for offset in range(100, 107)))
    assert [tuple(entry) for entry in bench.segment.offset_index] == [
        (102, 2 * size_bytes),
        (104, 4 * size_bytes),
        (106, 6 * size_bytes),
    ]
    assert [tuple(entry) for entry in bench.segment.time_index] == [(NOW_MS - 100, 100)]


def test_an_interval_that_is_just_reached_gives_no_entry() -> None:
    size_bytes = len(batch(100))
    bench = Bench(TopicConfig.resolve({"segment.index.bytes": "120", "index.interval.bytes": str(size_bytes)}))
    bench.append(*(batch(offset) for offset in range(100, 104)))
    assert [entry.offset for entry in bench.segment.offset_index] == [102]


def test_the_time_index_gets_the_largest_timestamp_and_the_first_batch_that_has_it() -> None:
    bench = Bench()
    times = [NOW_MS, NOW_MS + 9, NOW_MS + 9, NOW_MS + 5, NOW_MS + 5, NOW_MS + 12, NOW_MS + 1]
    bench.append(*(batch(100 + 2 * n, 101 + 2 * n, timestamp) for n, timestamp in enumerate(times)))
    assert [tuple(entry) for entry in bench.segment.time_index] == [(NOW_MS + 9, 103), (NOW_MS + 12, 111)]
    assert bench.segment.largest_timestamp == (NOW_MS + 12, 111)
    assert bench.segment.first_timestamp == NOW_MS
    assert [tuple(entry) for entry in bench.closed().time_index] == [(NOW_MS + 9, 103), (NOW_MS + 12, 111)]


def test_a_finished_segment_has_trimmed_files_and_a_final_time_entry() -> None:
    bench = Bench(TopicConfig.resolve({"segment.index.bytes": "1200", "preallocate": "true", "segment.bytes": "5000"}))
    bench.append(batch(100, 104))
    paths = {kind: f"/p/00000000000000000100{kind}" for kind in Kind}
    sizes = {kind: len(bench.files.read(paths[kind])) for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX)}
    assert sizes == {Kind.LOG: 5000, Kind.OFFSET_INDEX: 1200, Kind.TIME_INDEX: 1200}
    segment = bench.closed()
    sizes = {kind: len(bench.files.read(paths[kind])) for kind in sizes}
    assert sizes == {Kind.LOG: len(batch(100, 104)), Kind.OFFSET_INDEX: 0, Kind.TIME_INDEX: 12}
    assert bench.files.status(paths[Kind.TRANSACTION_INDEX]) is None
    assert segment.largest_timestamp == (NOW_MS, 104)
    assert segment.read_next_offset() == 105


def test_an_empty_segment() -> None:
    segment = Bench().closed()
    assert segment.size_bytes == 0
    assert segment.read_next_offset() == BASE
    assert list(segment.batches()) == []
    assert segment.find(BASE) is None
    assert segment.find_timestamp(0, 0) is None
    assert segment.find_largest_timestamp() is None
    assert segment.first_timestamp == segment.largest_timestamp[0] == -1
    assert segment.age_timestamp == 1_700_000_000_000  # when the file was made


offsets_and_times = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(-1, 50)), max_size=25)


@pytest.mark.property
@given(offsets_and_times, st.booleans())
def test_finding_equals_looking_at_everything(steps: list[tuple[int, int, int]], is_closed: bool) -> None:
    bench = Bench()
    offset, bounds = BASE, []
    for gap, length, timestamp in steps:
        first = offset + gap - 1
        bounds.append((first, first + length, timestamp))
        bench.append(batch(first, first + length if length else None, timestamp))
        offset = first + length + 1
    segment = bench.closed() if is_closed else bench.segment
    assert [(each.base_offset, each.last_offset) for each in segment.batches()] == [bound[:2] for bound in bounds]
    for sought in range(BASE - 1, offset + 2):
        found = segment.find(sought)
        expected = next(((first, last) for first, last, _ in bounds if last >= sought), None)
        assert (found and (found.base_offset, found.last_offset)) == expected
        position = segment.locate(sought)
        assert position == (found and found.position)
    records = [(offset, time) for first, last, time in bounds for offset in dict.fromkeys((first, last))]
    for timestamp in range(-1, 52):
        for start in (0, BASE + 5, offset):
            at = segment.find_timestamp(timestamp, start)
            expected = next((record for record in records if record[1] >= timestamp and record[0] >= start), None)
            assert (at and (at.offset, at.timestamp)) == expected
    largest = segment.find_largest_timestamp()
    assert (largest and (largest.offset, largest.timestamp)) == max(records, key=lambda each: each[1], default=None)
    assert segment.read_next_offset() == (bounds[-1][1] + 1 if bounds else BASE)


@pytest.mark.property
@given(offsets_and_times, st.integers(0, 60), st.booleans())
def test_a_truncated_segment_is_as_if_nothing_had_come_after(
    steps: list[tuple[int, int, int]], cut: int, is_reopened: bool
) -> None:
    bench, other = Bench(), Bench()
    offset = BASE
    for gap, length, timestamp in steps:
        first = offset + gap - 1
        data = batch(first, first + length if length else None, timestamp)
        bench.append(data)
        if first + length < BASE + cut:
            other.append(data)
        offset = first + length + 1
    segment = bench.reopened() if is_reopened else bench.segment
    segment.truncate_to(BASE + cut, NOW_MS)
    assert segment.size_bytes == other.segment.size_bytes
    assert segment.largest_timestamp[0] == other.segment.largest_timestamp[0]
    assert segment.first_timestamp == other.segment.first_timestamp
    assert [tuple(entry) for entry in segment.offset_index] == [tuple(entry) for entry in other.segment.offset_index]
    next_offset = max(BASE + cut, offset)
    for target in (segment, other.segment):
        data = batch(next_offset, timestamp=60)
        target.append(placed(data))
        assert [each.base_offset for each in target.batches()][-1] == next_offset
    assert segment.largest_timestamp == other.segment.largest_timestamp == (60, next_offset)


@pytest.mark.parametrize("effect", [Effect.DISK_FULL, Effect.DISK_ERROR])
def test_a_failed_append_leaves_the_segment_as_it_was(effect: Effect) -> None:
    data = b"".join(batch(200 + number, timestamp=NOW_MS + number) for number in range(6))
    failures = 0
    for step in range(100):
        bench = Bench()
        bench.append(batch(100), batch(101), batch(102))
        before = bench.state()
        bench.files.cut = Cut(bench.files.steps + step, effect, seed=step)
        try:
            bench.segment.append(placed(data))
        except OSError:
            failures += 1
            assert bench.state() == before
        else:
            break
        bench.segment.append(placed(data))
        assert len(list(bench.segment.batches())) == 9
    assert failures == 7  # the write, and two entries for every other batch


def test_an_entry_that_an_index_refuses_undoes_the_append() -> None:
    bench = Bench()
    bench.append(batch(100), batch(101), batch(102))
    before = bench.state()
    data = batch(50) + batch(51) + batch(52)
    with pytest.raises(InvalidIndexEntryError):
        bench.segment.append(placed(data))
    assert bench.state() == before


def test_a_segment_that_cannot_be_made_leaves_nothing() -> None:
    for step in range(50):
        files = MemoryFiles()
        files.make_directory("/p")
        files.cut = Cut(files.steps + step, Effect.DISK_FULL)
        try:
            WritableSegment.create(files.directory("/p"), 7, CONFIG, now_ms=NOW_MS)
        except OSError:
            assert files.names("/p") == []
        else:
            assert step > 2
            return


def test_a_new_segment_replaces_stale_files() -> None:
    bench = Bench()
    bench.append(batch(100))
    bench.closed()
    with bench.files.open_writing("/p/00000000000000000100.txnindex", create=True) as file:
        file.write_at(0, [b"stale"])
    WritableSegment.create(bench.files.directory("/p"), BASE, CONFIG, now_ms=NOW_MS).close()
    assert {name: len(bench.files.read(f"/p/{name}")) for name in bench.files.names("/p")} == {
        "00000000000000000100.log": 0,
        "00000000000000000100.index": 0,
        "00000000000000000100.timeindex": 0,
    }


@pytest.mark.parametrize(
    ("appended", "reason"),
    [
        ((600, 110, NOW_MS), None),
        ((601, 110, NOW_MS), RollReason.SIZE),
        ((10, 110, NOW_MS + 1000), None),
        ((10, 110, NOW_MS + 1001), RollReason.AGE),
        ((10, BASE + 2**31 - 1, NOW_MS), None),
        ((10, BASE + 2**31, NOW_MS), RollReason.OFFSET_RANGE),
        ((10, BASE - 1, NOW_MS), RollReason.OFFSET_RANGE),
    ],
)
def test_when_a_segment_is_rolled(appended: tuple[int, int, int], reason: RollReason | None) -> None:
    size_bytes, last_offset, largest_timestamp = appended
    incoming = PlacedBatches((), (), last_offset, last_offset, size_bytes, largest_timestamp)
    size = 400 - len(batch(100, size=0))
    data = batch(100, size=size - 2)  # the lengths of record and value take a byte more each
    bench = Bench()
    bench.append(data)
    assert bench.segment.size_bytes == 400
    config = TopicConfig.resolve({"segment.bytes": "1000", "segment.ms": "1000"})
    assert roll_reason(bench.segment, incoming, config, NOW_MS) is reason
    compacted = TopicConfig.resolve(
        {"segment.bytes": "1000", "max.compaction.lag.ms": "1000", "cleanup.policy": "compact"}
    )
    assert roll_reason(bench.segment, incoming, compacted, NOW_MS) is reason
