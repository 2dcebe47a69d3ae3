"""No flipped byte, and no aborted record, ever comes through; everything before damage does, and then an error."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import kafkafs
from storage.testing.checksums import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ABORTED, COMMITTED = False, True
RECORDS = [
    (b"plain", None, None),
    (b"aborted 1", 7, None),
    (b"committed 1", 8, None),
    (b"aborted 2", 7, ABORTED),
    (b"between", None, None),
    (b"committed 2", 8, COMMITTED),
    (b"aborted 3", 9, ABORTED),
    (b"after", None, None),
    (b"last", None, None),
]
VISIBLE = [value for value, _, _ in RECORDS if not value.startswith(b"aborted")]
LEADER_EPOCH = {12, 13, 14, 15}
CRC_AT, ATTRIBUTES_AT, LENGTH_AT = 17, 21, 61  # in a batch; the last is of its first record


@pytest.fixture
def log(tmp_path: Path, produced: Callable[..., None]) -> Path:
    store = tmp_path / "store"
    with kafkafs.open(store, write=True) as opened:
        opened.create("orders")
    produced(store, RECORDS)
    return store / "orders-0" / "00000000000000000000.log"


def batches_of(data: bytes) -> Iterator[range]:
    position = 0
    while position < len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        yield range(position, end)
        position = end


def read(
    log: Path, reading: Callable[[kafkafs.Partition], Iterator[object]]
) -> tuple[list[object], kafkafs.CorruptBatchError | None]:
    found: list[object] = []
    with kafkafs.open(log.parents[1]) as store:
        try:
            found.extend(reading(store["orders"][0]))
        except kafkafs.CorruptBatchError as error:
            return found, error
    return found, None


def values(partition: kafkafs.Partition) -> Iterator[tuple[int, bytes | None]]:
    for record in partition.records():
        yield record.offset, record.value


def rows(partition: kafkafs.Partition) -> Iterator[tuple[int, bytes | None]]:
    for batch in partition.to_batches(columns=["offset", "value"]):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def followed(partition: kafkafs.Partition) -> Iterator[tuple[int, bytes | None]]:
    for record in partition.follow("earliest", timeout=0):
        yield record.offset, record.value


def merged(partition: kafkafs.Partition) -> Iterator[tuple[int, bytes | None]]:
    for record in kafkafs.Topic(partition._context, partition.topic).records(order="time"):
        yield record.offset, record.value


def test_aborted_records_do_not_come_through(log: Path) -> None:
    for reading in (values, rows, followed):
        found, error = read(log, reading)
        assert error is None
        assert [value for _, value in found] == VISIBLE
    with kafkafs.open(log.parents[1], isolation="read_uncommitted") as store:
        assert [each.value for each in store["orders"][0].records()] == [value for value, _, _ in RECORDS]


def test_what_is_not_decided_is_not_given(log: Path, produced: Callable[..., None]) -> None:
    produced(log.parents[1], [(b"open", 11, None), (b"behind", None, None)])
    with kafkafs.open(log.parents[1]) as store:
        partition = store["orders"][0]
        assert [each.value for each in partition.records()] == VISIBLE
        assert partition.record("latest").value == b"last"
        assert partition.record(partition.end_offset) is None
    with kafkafs.open(log.parents[1], isolation="read_uncommitted") as store:
        assert store["orders"][0].record("latest").value == b"behind"


@pytest.mark.parametrize(
    ("reading", "batches"),
    [(values, slice(None)), (rows, slice(1, 4)), (followed, slice(3, 6))],
    ids=["records", "columns", "followed"],
)
def test_no_flipped_byte_comes_through(
    log: Path, reading: Callable[..., Iterator[tuple[int, bytes | None]]], batches: slice
) -> None:
    sound = log.read_bytes()
    *places, _ = batches_of(sound)
    expected, _ = read(log, reading)
    silent = set()
    for place in places[batches]:
        for position in place:
            flipped = bytearray(sound)
            flipped[position] ^= 1 << position % 8
            log.write_bytes(flipped)
            found, error = read(log, reading)
            assert found == expected[: len(found)], position - place.start
            if error is None:
                assert found == expected, position - place.start
                silent.add(position - place.start)
            else:
                assert error.path == str(log)
    assert silent <= LEADER_EPOCH, "which no record shows"


@pytest.mark.parametrize("reading", [values, rows, followed, merged])
def test_what_is_before_records_that_do_not_decode_comes_once(
    log: Path, reading: Callable[..., Iterator[tuple[int, bytes | None]]]
) -> None:
    expected, _ = read(log, reading)
    data = bytearray(log.read_bytes())
    place = next(each for each in batches_of(data) if b"committed 2" in data[each.start : each.stop])
    data[place.start + LENGTH_AT] ^= 4
    checksum = crc32c(bytes(data[place.start + ATTRIBUTES_AT : place.stop]))
    data[place.start + CRC_AT : place.start + ATTRIBUTES_AT] = checksum.to_bytes(4, "big")
    log.write_bytes(data)
    found, error = read(log, reading)
    assert found == expected[:3]
    assert error is not None


@pytest.mark.parametrize("reading", [values, rows, followed, merged])
def test_no_aborted_record_comes_through_without_its_entry(
    log: Path, reading: Callable[..., Iterator[tuple[int, bytes | None]]]
) -> None:
    index = log.with_suffix(".txnindex")
    sound = index.read_bytes()
    assert len(sound) == 2 * 34
    for left in (b"", sound[:34], sound[34:], None):
        index.unlink() if left is None else index.write_bytes(left)
        found: list[object] = []
        with (
            kafkafs.open(log.parents[1]) as store,
            pytest.raises(kafkafs.CorruptIndexError, match="no entry") as raised,
        ):
            found.extend(reading(store["orders"][0]))
        assert raised.value.path == str(index)
        assert not any(value.startswith(b"aborted") for _, value in found)


def read_by(log: Path) -> tuple[list[object], str | None]:
    """The records of the log, or the path of the index that it contradicts."""
    with kafkafs.open(log.parents[1]) as store:
        try:
            return [*values(store["orders"][0])], None
        except kafkafs.CorruptIndexError as error:
            return [], error.path


def test_no_flipped_bit_of_the_transaction_index_lets_aborted_records_through(log: Path) -> None:
    index = log.with_suffix(".txnindex")
    sound = index.read_bytes()
    expected, _ = read(log, values)
    stable_offset = {slot * 34 + 26 + at for slot in range(len(sound) // 34) for at in range(8)}
    for position in range(len(sound)):
        for bit in range(8):
            flipped = bytearray(sound)
            flipped[position] ^= 1 << bit
            index.write_bytes(flipped)
            found, path = read_by(log)
            assert path in {None, str(index)}
            if path is None:
                assert found == expected, (position, bit)
                assert position in stable_offset, "which says only where to look for more"


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_record_is_found_as_the_reading_of_its_range_finds_it(log: Path, isolation: str) -> None:
    sound = log.read_bytes()
    for position in (place for batch in list(batches_of(sound))[3:5] for place in batch):
        flipped = bytearray(sound)
        flipped[position] ^= 1 << position % 8
        log.write_bytes(flipped)
        with kafkafs.open(log.parents[1], isolation=isolation) as store:
            partition = store["orders"][0]
            for offset in range(partition.start_offset, partition.end_offset):
                found, read = outcome(partition.record, offset), outcome(first_of_range, partition, offset)
                assert found == read, (position, offset)


def first_of_range(partition: kafkafs.Partition, offset: int) -> kafkafs.Record | None:
    return next(partition.records(offsets=range(offset, offset + 1)), None)


def outcome(ask: Callable[..., kafkafs.Record | None], *arguments: object) -> kafkafs.Record | str | None:
    try:
        return ask(*arguments)
    except kafkafs.CorruptBatchError as error:
        return str(error)


def test_what_lies_before_damage_comes_first(log: Path) -> None:
    sound = log.read_bytes()
    expected, _ = read(log, values)
    offset_of_batch = [int.from_bytes(sound[place.start : place.start + 8], "big") for place in batches_of(sound)]
    for place, offset in zip(batches_of(sound), offset_of_batch, strict=True):
        flipped = bytearray(sound)
        flipped[place.stop - 1] ^= 1
        log.write_bytes(flipped)
        for reading in (values, rows):
            found, error = read(log, reading)
            assert error is not None
            assert found == [each for each in expected if each[0] < offset]
            assert str(error).endswith(f"({log}, position {place.start}, offset {offset})")
    log.write_bytes(sound)
    assert read(log, values) == (expected, None)


def test_what_lies_before_a_damaged_end_comes_first(log: Path) -> None:
    expected, _ = read(log, values)
    end = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"\xff" * 500)
    for reading in (values, rows, followed, merged):
        found, error = read(log, reading)
        assert found == expected
        assert str(error).endswith(f"({log}, position {end})")
    with kafkafs.open(log.parents[1]) as store:
        partition = store["orders"][0]
        last_offset, _ = expected[-1]
        assert partition.record(last_offset).offset == last_offset
        with pytest.raises(kafkafs.CorruptBatchError):
            partition.record("latest")  # which may follow in what is damaged


@pytest.mark.parametrize("reading", [values, rows])
def test_what_is_open_is_read_to_its_end_although_the_topic_goes(
    log: Path, reading: Callable[..., Iterator[tuple[int, bytes | None]]]
) -> None:
    expected, _ = read(log, reading)
    with kafkafs.open(log.parents[1]) as store:
        found = reading(store["orders"][0])
        first = next(found)
        shutil.rmtree(log.parent)
        assert [first, *found] == expected


def test_damage_is_found_where_it_is_looked_for_alone(log: Path) -> None:
    sound = bytearray(log.read_bytes())
    place = list(batches_of(bytes(sound)))[4]
    sound[place.stop - 1] ^= 1
    log.write_bytes(sound)
    with kafkafs.open(log.parents[1]) as store:
        (finding,) = [each for each in store.verify("orders") if each.severity == "damage"]
        partition = store["orders"][0]
        assert finding.position == place.start
        assert finding.offset is not None
        assert partition.record(0) is not None
        assert partition.record("latest") is not None
        with pytest.raises(kafkafs.CorruptBatchError):
            partition.record(finding.offset)


@pytest.mark.parametrize("kept_bytes", [0, 400])
def test_times_reach_past_a_segment_that_lacks_what_its_index_promises(made: Path, kept_bytes: int) -> None:
    log = sorted((made / "orders-0").glob("*.log"))[2]
    batches = list(batches_of(log.read_bytes()))
    kept = [batch for batch in batches if batch.stop <= kept_bytes]
    os.truncate(log, kept[-1].stop if kept else 0)
    with kafkafs.open(made) as store:
        partition = store["orders"][0]
        lost = int(log.stem) + len(kept)
        assert partition.record(lost) is None
        following = int(log.stem) + len(batches)
        time_ms = partition.record(0).timestamp + lost * 2000
        assert partition.at(time_ms).offset == following
        found = [record.offset for record in partition.records(times=(time_ms, None))]
        assert found == list(range(following, partition.end_offset))


@pytest.mark.parametrize("is_lost", [False, True])
def test_times_are_found_whatever_the_times_of_files_are_and_without_an_index(made: Path, *, is_lost: bool) -> None:
    for file in (made / "orders-0").iterdir():
        if file.suffix == ".timeindex" and is_lost:
            file.unlink()
        else:
            os.utime(file, (0, 0))
    with kafkafs.open(made) as store:
        partition = store["orders"][0]
        times = [record.timestamp for record in partition.records()]
        assert [partition.at(time_ms).offset for time_ms in times] == list(range(len(times)))
        assert partition.at(times[-1] + 1) is None


def test_damage_that_hides_a_time_is_told(made: Path) -> None:
    log = sorted((made / "orders-0").glob("*.log"))[2]
    *_, last = batches_of(log.read_bytes())
    os.truncate(log, last.stop - 1)
    with kafkafs.open(made) as store:
        partition = store["orders"][0]
        time_ms = partition.record(0).timestamp + (int(sorted((made / "orders-0").glob("*.log"))[3].stem) - 1) * 2000
        for ask in (partition.at, lambda time_ms: partition.records(times=(time_ms, None))):
            with pytest.raises(kafkafs.CorruptBatchError) as caught:
                ask(time_ms)
            assert (caught.value.path, caught.value.position) == (str(log), last.start)


def test_a_copy_reads_as_the_original(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log.parents[1], tmp_path / "copy")
    assert read(tmp_path / "copy" / "orders-0" / log.name, values) == read(log, values)
