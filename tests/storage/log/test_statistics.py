"""What is counted in a log, against the oracle codec, and what becomes of it where a log is damaged."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import StandingClock

from storage.config import TopicConfig
from storage.log.followed_log import FollowedLog
from storage.log.statistics import LogStatistics, counted_ranges, log_statistics
from storage.segment.batch_counts import count_batches
from storage.testing.codec import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    SNAPPY,
    ZSTD,
    OracleBatch,
    OracleEntry,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_entry,
    entry_of,
    wrapper_of,
)
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = {0: "none", GZIP: "gzip", SNAPPY: "snappy", 3: "lz4", ZSTD: "zstd"}


def log_of(*segments: tuple[int, Sequence[OracleBatch | OracleEntry]], start_offset: int = 0) -> LogStatistics:
    files = MemoryFiles()
    files.make_directory("/t-0")
    for base_offset, batches in segments:
        data = b"".join(encoded(each) for each in batches)
        write(files, f"{base_offset:020d}.log", data)
    return counted(files, start_offset)


def encoded(batch: OracleBatch | OracleEntry) -> bytes:
    return encode_batch(batch) if isinstance(batch, OracleBatch) else encode_entry(batch)


def write(files: MemoryFiles, name: str, data: bytes) -> None:
    with files.open_writing(f"/t-0/{name}", create=True) as file:
        file.write_at(0, [data])


def counted(files: MemoryFiles, start_offset: int = 0) -> LogStatistics:
    followed = FollowedLog(
        StandingClock(),
        files.directory("/t-0"),
        TopicConfig.resolve({}),
        start_offset=start_offset,
        producer_expiration_ms=1,
    )
    return log_statistics(followed.view)


timestamps = st.integers(0, 2000)


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, list[OracleBatch | OracleEntry]]]:
    offset = 0
    segments: list[tuple[int, list[OracleBatch | OracleEntry]]] = []
    for _ in range(draw(st.integers(1, 3))):
        batches: list[OracleBatch | OracleEntry] = []
        segments.append((offset, batches))
        for _ in range(draw(st.integers(1, 4))):
            times = draw(st.lists(timestamps, min_size=1, max_size=4))
            records = [OracleRecord(offset + index, time, b"k", b"v") for index, time in enumerate(times)]
            codec, magic = draw(st.sampled_from((0, GZIP, SNAPPY))), draw(st.integers(1, 2))
            if magic == 2:
                flags = draw(st.sampled_from((0, LOG_APPEND_TIME, CONTROL)))
                batches.append(batch_of(records, attributes=codec | flags))
            elif codec:
                batches.append(wrapper_of(records, 1, codec))
            else:
                batches += [entry_of(record, 1) for record in records]
            offset += len(times)
    return segments


@given(segments=logs(), share=st.floats(0, 1))
def test_the_counts_are_those_of_the_oracle(
    segments: list[tuple[int, list[OracleBatch | OracleEntry]]], share: float
) -> None:
    batches = [batch for _, each in segments for batch in each]
    end_offset = batches[-1].last_offset + 1 if batches else 0
    start_offset = int(share * end_offset)
    found = log_of(*segments, start_offset=start_offset)
    shown = [batch for batch in batches if batch.last_offset >= start_offset]
    kept = [[record for record in batch.records if record.offset >= start_offset] for batch in shown]
    assert found.records == sum(map(len, kept))
    assert found.batches == len(shown)
    assert found.segments == len(segments)
    assert found.size_bytes == sum(len(encoded(batch)) for batch in batches)
    assert found.batch_bytes == sum(len(encoded(batch)) for batch in shown)
    assert found.largest_batch_bytes == max((len(encoded(batch)) for batch in shown), default=0)
    assert (found.start_offset, found.end_offset) == (start_offset, end_offset)
    assert found.codecs == {
        name: count for codec, name in NAMES.items() if (count := sum(batch.attributes & 7 == codec for batch in shown))
    }
    assert found.magics == {magic: count for magic in (1, 2) if (count := sum(batch.magic == magic for batch in shown))}
    assert found.control_batches == sum(batch.magic == 2 and bool(batch.attributes & CONTROL) for batch in shown)
    assert found.last_timestamp == max((batch.max_timestamp for batch in shown), default=None)
    assert found.first_timestamp == min((records[0].timestamp for records in kept), default=None)
    assert found.damages == []


def test_records_without_timestamps_and_empty_batches() -> None:
    timeless = entry_of(OracleRecord(0, -1, None, b"v"), 0)
    found = log_of((0, [timeless]))
    assert (found.records, found.first_timestamp, found.last_timestamp, found.magics) == (1, None, None, {0: 1})


def test_damage_is_told_and_the_rest_is_counted() -> None:
    files = MemoryFiles()
    files.make_directory("/t-0")
    batches = [encode_batch(batch_of([OracleRecord(offset, 50 + offset, None, b"v")])) for offset in range(4)]
    write(files, "00000000000000000000.log", batches[0] + bytes(8) + b"\0\0\0\1" + bytes(90))
    write(files, "00000000000000000002.log", batches[2] + batches[3])
    write(files, "00000000000000000002.index", bytes(16))
    write(files, "00000000000000000002.timeindex", bytes(24))
    found = counted(files)
    assert (found.records, found.batches, found.segments, found.index_bytes) == (3, 3, 2, 40)
    (damage,) = found.damages
    assert (damage.path, damage.position) == ("/t-0/00000000000000000000.log", len(batches[0]))


def test_damage_where_the_start_is_sought() -> None:
    files = MemoryFiles()
    files.make_directory("/t-0")
    write(files, "00000000000000000000.log", bytes(8) + b"\0\0\0\1" + bytes(90))
    found = counted(files, start_offset=1)
    assert (found.records, found.batch_bytes, found.segments, len(found.damages)) == (0, 0, 1, 1)


def test_a_count_does_not_depend_on_the_order_or_the_place() -> None:
    files = MemoryFiles()
    files.make_directory("/t-0")
    for offset in range(0, 8, 2):
        records = [OracleRecord(offset + at, 50 + offset, None, b"v" * offset) for at in (0, 1)]
        batches = [encode_batch(batch_of([record])) for record in records]
        write(files, f"{offset:020d}.log", b"".join(batches))
    log = FollowedLog(
        StandingClock(), files.directory("/t-0"), TopicConfig.resolve({}), start_offset=3, producer_expiration_ms=1
    )
    view = log.view
    ranges = [pickle.loads(pickle.dumps(each)) for each in counted_ranges(view)]
    found = LogStatistics(view.start_offset, view.end_offset)
    for each in reversed(ranges):
        found.add(each, pickle.loads(pickle.dumps(count_batches(files.directory("/t-0"), each))))
    assert found == log_statistics(view)
    assert (found.records, found.batches) == (5, 5)


@pytest.mark.parametrize("kind", ["log", "index"])
def test_what_is_deleted_meanwhile_is_left_out(kind: str) -> None:
    files = MemoryFiles()
    files.make_directory("/t-0")
    for offset in range(2):
        batch = encode_batch(batch_of([OracleRecord(offset, 50, None, b"v")]))
        write(files, f"{offset:020d}.log", batch)
        write(files, f"{offset:020d}.index", b"")
    followed = FollowedLog(
        StandingClock(), files.directory("/t-0"), TopicConfig.resolve({}), recovery_point=1, producer_expiration_ms=1
    )
    view = followed.view
    files.remove(f"/t-0/{0:020d}.{kind}")
    found = log_statistics(view)
    assert (found.segments, found.records) == ((1, 1) if kind == "log" else (2, 2))
