"""Indexes built from a log, against those that appending the same batches makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import NOW_MS

from storage.config import TopicConfig
from storage.errors import InvalidIndexEntryError
from storage.record import read_batches
from storage.segment.index.builder import IndexBuilder
from storage.segment.index.entries import AbortedTransaction
from storage.segment.names import FileName, FileSuffix, Kind
from storage.segment.segment import Segment
from storage.segment.writable_segment import PlacedBatches, WritableSegment
from storage.testing.codec import OracleRecord, batch_of, encode_batch, encode_entry, entry_of
from storage.testing.faults import Cut, CutError, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

DIRECTORY = "/p"
BASE = 100
INDEX_KINDS = (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)


def settings(**changes: int) -> TopicConfig:
    named = {"index_interval_bytes": 200, "segment_index_bytes": 1200} | changes
    return TopicConfig.resolve({key.replace("_", "."): str(value) for key, value in named.items()})


def batch(offset: int, timestamp: int = NOW_MS, size: int = 60, *, magic: int = 2) -> bytes:
    record = OracleRecord(offset, timestamp, b"k", b"x" * size)
    return encode_batch(batch_of([record])) if magic == 2 else encode_entry(entry_of(record, magic))


def directory() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(DIRECTORY)
    files.sync_directory("/")
    return files


def indexes(files: MemoryFiles) -> dict[Kind, bytes]:
    names = {kind: str(FileName(BASE, kind)) for kind in INDEX_KINDS}
    return {kind: files.read(f"{DIRECTORY}/{name}") for kind, name in names.items() if name in files.names(DIRECTORY)}


def appended(batches: Sequence[bytes], config: TopicConfig) -> dict[Kind, bytes]:
    """The indexes of a segment to which the batches were appended and that was then closed."""
    files = directory()
    segment = WritableSegment.create(files.directory(DIRECTORY), BASE, config, now_ms=NOW_MS)
    for data in batches:
        segment.append(PlacedBatches.of(list(read_batches(data)), data))
    segment.finalise()
    segment.close()
    return indexes(files)


def built(
    batches: Sequence[bytes], config: TopicConfig, *aborted: AbortedTransaction, files: MemoryFiles | None = None
) -> dict[Kind, bytes]:
    files = directory() if files is None else files
    building = IndexBuilder(BASE, config)
    for each in read_batches(b"".join(batches)):
        building.add(each, each.position)
    for transaction in aborted:
        building.add_aborted(transaction)
    building.write(Segment(files.directory(DIRECTORY), BASE))
    return indexes(files)


@pytest.mark.property
@given(
    sizes=st.lists(st.tuples(st.integers(0, 500), st.integers(-50, 50), st.integers(0, 3), st.integers(0, 2))),
    interval_bytes=st.sampled_from([0, 1, 150, 400, 10_000]),
)
def test_they_are_those_that_appending_makes(sizes: list[tuple[int, int, int, int]], interval_bytes: int) -> None:
    config = settings(index_interval_bytes=interval_bytes, segment_index_bytes=12_000)
    batches, offset = [], BASE
    for size, shift_ms, gap, magic in sizes:
        offset += gap
        batches.append(batch(offset, NOW_MS + shift_ms, size, magic=magic))
        offset += 1
    assert built(batches, config) == appended(batches, config)


def test_an_interval_of_nothing_gives_every_batch_but_the_first_an_entry() -> None:
    config = settings(index_interval_bytes=0)
    batches = [batch(BASE + number, NOW_MS + number) for number in range(4)]
    found = built(batches, config)
    assert found == appended(batches, config)
    assert len(found[Kind.OFFSET_INDEX]) == 3 * 8
    assert len(found[Kind.TIME_INDEX]) == 3 * 12  # the last batch's own is the final one


def test_an_interval_that_is_just_reached_gives_no_entry() -> None:
    size_bytes = len(batch(BASE))
    batches = [batch(BASE + number) for number in range(4)]
    config = settings(index_interval_bytes=size_bytes)
    assert built(batches, config) == appended(batches, config)
    assert len(built(batches, config)[Kind.OFFSET_INDEX]) == 8


def test_an_empty_log_has_empty_indexes() -> None:
    assert built([], settings()) == {Kind.OFFSET_INDEX: b"", Kind.TIME_INDEX: b""}


def test_records_without_timestamps_have_no_times() -> None:
    found = built([batch(BASE + number, magic=0) for number in range(9)], settings())
    assert found[Kind.TIME_INDEX] == b""
    assert found[Kind.OFFSET_INDEX]


def test_full_indexes_take_no_more_and_keep_a_slot_for_the_last_time() -> None:
    config = settings(index_interval_bytes=0, segment_index_bytes=60)  # 7 offsets, 5 times
    batches = [batch(BASE + number, NOW_MS + number) for number in range(20)]
    with pytest.raises(InvalidIndexEntryError, match="full"):
        appended(batches, config)  # a log rolls before that
    found = built(batches, config)
    assert {kind: len(data) for kind, data in found.items()} == {Kind.OFFSET_INDEX: 7 * 8, Kind.TIME_INDEX: 5 * 12}
    roomy = settings(index_interval_bytes=0)
    assert found[Kind.OFFSET_INDEX] == built(batches, roomy)[Kind.OFFSET_INDEX][: 7 * 8]
    every = built(batches, roomy)[Kind.TIME_INDEX]
    assert found[Kind.TIME_INDEX] == every[: 4 * 12] + every[-12:]


def test_a_transaction_index_is_made_for_entries_and_emptied_if_there_is_one() -> None:
    aborted = AbortedTransaction(7, BASE, BASE + 1, BASE + 2)
    files = directory()
    found = built([batch(BASE)], settings(), aborted, files=files)
    assert len(found[Kind.TRANSACTION_INDEX]) == 34
    segment = Segment(files.directory(DIRECTORY), BASE)
    assert list(segment.transaction_index) == [aborted]
    assert built([batch(BASE)], settings(), files=files)[Kind.TRANSACTION_INDEX] == b""
    assert Kind.TRANSACTION_INDEX not in built([batch(BASE)], settings())


def test_they_replace_what_is_there_and_leave_nothing_beside_it() -> None:
    files = directory()
    for kind in INDEX_KINDS:
        with files.open_writing(f"{DIRECTORY}/{FileName(BASE, kind)}", create=True) as file:
            file.write_at(0, [b"\xff" * 5000])
    with files.open_writing(f"{DIRECTORY}/{FileName(BASE, Kind.TIME_INDEX, FileSuffix.CLEANED)}", create=True) as file:
        file.write_at(0, [b"\xff" * 5000])  # what an earlier attempt left
    batches = [batch(BASE + number, NOW_MS + number) for number in range(9)]
    found = built(batches, settings(), files=files)
    assert found == {**appended(batches, settings()), Kind.TRANSACTION_INDEX: b""}
    assert set(files.names(DIRECTORY)) == {str(FileName(BASE, kind)) for kind in INDEX_KINDS}


def test_as_long_as_the_offset_index_is_the_old_one_the_others_may_be_either() -> None:
    batches = [batch(BASE + number, NOW_MS + number) for number in range(9)]
    expected = built(batches, settings())
    first = directory().steps

    def run(step: int | None) -> MemoryFiles:
        files = directory()
        files.cut = None if step is None else Cut(step, Effect.DEATH)
        if step is None:
            built(batches, settings(), files=files)
        else:
            with pytest.raises(CutError):
                built(batches, settings(), files=files)
        return files

    end = run(None).steps
    assert end - first > 8
    for step in range(first, end):
        for seed in range(3):
            files = run(step).after_power_loss(seed)
            found = indexes(files)
            assert Kind.OFFSET_INDEX not in found or found == expected
    durable = indexes(run(None).after_power_loss(0))
    assert durable == expected
