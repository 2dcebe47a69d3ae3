"""Frames: where they begin and end, and what is refused."""

from __future__ import annotations

import struct

import pytest

from storage.errors import FramingError, MalformedRecordsError
from storage.record import LegacyBatch, RecordBatch, read_batches
from storage.record.kernel.walk import BatchFrame, EntryFrame, Walk

DATA = bytes.fromhex(
    "000000000000000000000047000000000200be233d0000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffff"
    "ff0000000210000000026b02760018000a02046b32010202680278"
)
MARKER = bytes.fromhex(
    "000000000000000700000042000000000242d4761e0030000000000000018bcfe568000000018bcfe5680000000000000000090002ffffff"
    "ff000000012000000008000000010c00000000000300"
)


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def test_header_fields_of_a_known_batch() -> None:
    data, marker = read_batches(DATA + MARKER, origin=50)
    assert isinstance(data, RecordBatch)
    assert isinstance(marker, RecordBatch)
    assert (data.position, data.size_bytes, marker.position, marker.size_bytes) == (50, 83, 133, 78)
    assert (data.base_offset, data.last_offset, data.count, data.base_sequence, data.last_sequence) == (0, 1, 2, -1, -1)
    assert (data.base_timestamp, data.max_timestamp) == (1700000000000, 1700000000005)
    assert (data.producer_id, data.producer_epoch, data.is_control, data.is_transactional) == (-1, -1, False, False)
    assert (marker.base_offset, marker.producer_id, marker.producer_epoch, marker.attributes) == (7, 9, 2, 0x30)
    assert marker.is_control
    assert marker.is_transactional
    assert data.crc_matches
    assert marker.crc_matches
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in data.records()] == [
        (0, 1700000000000, b"k", b"v", ()),
        (1, 1700000000005, b"k2", None, (("h", b"x"),)),
    ]


@pytest.mark.parametrize("cut", range(1, len(DATA)))
def test_a_torn_tail_ends_the_walk_quietly(cut: int) -> None:
    walk = read_batches(MARKER + DATA[:cut])
    assert len(list(walk)) == 1
    assert walk.position == len(MARKER)
    # Below a whole header the walk knows only that more is needed; after that, how much.
    assert walk.missing_bytes == (18 - cut if cut <= 17 else len(DATA) - cut)


def test_an_empty_buffer_has_no_frames() -> None:
    walk = read_batches(b"")
    assert list(walk) == []
    assert walk.missing_bytes == 0


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_below_every_batch_is_refused(length: int) -> None:
    walk = read_batches(DATA + with_length(DATA, length), origin=1000)
    next(walk)
    with pytest.raises(FramingError) as raised:
        next(walk)
    assert raised.value.position == 1000 + len(DATA)
    assert str(length) in raised.value.reason


def test_a_length_of_two_gigabytes_is_a_torn_tail() -> None:
    walk = read_batches(with_length(DATA, 2**31 - 1))
    assert list(walk) == []
    assert walk.missing_bytes == 2**31 - 1 + 12 - len(DATA)


def test_a_v2_batch_without_room_for_its_header_is_refused() -> None:
    with pytest.raises(FramingError, match="no room for a v2 header"):
        list(read_batches(with_length(DATA, 48)))


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_an_unknown_magic_is_refused(magic: int) -> None:
    with pytest.raises(FramingError, match=f"magic byte is {magic}"):
        list(read_batches(DATA[:16] + struct.pack(">b", magic) + DATA[17:]))


def test_zeros_are_refused_where_they_begin() -> None:
    walk = read_batches(DATA + bytes(4096))
    next(walk)
    with pytest.raises(FramingError) as raised:
        next(walk)
    assert raised.value.position == len(DATA)


@pytest.mark.parametrize(("key_size", "value_size"), [(2**31 - 1, 1), (1, 2**31 - 1), (100, 1), (1, 3)])
def test_an_entry_that_overruns_is_framed_and_gives_no_record(key_size: int, value_size: int) -> None:
    body = struct.pack(">Ibbi", 0, 0, 0, key_size) + b"k" + struct.pack(">i", value_size) + b"v"
    entry = struct.pack(">qi", 5, len(body)) + body
    (batch,) = read_batches(entry, origin=10)
    assert isinstance(batch, LegacyBatch)
    with pytest.raises(MalformedRecordsError) as raised:
        list(batch.records())
    assert (raised.value.position, raised.value.offset) == (10, 5)


def test_views_stay_within_their_batch() -> None:
    (batch,) = read_batches(DATA)
    assert bytes(batch.view(0, batch.size_bytes)) == DATA
    for start, end in [(-1, 5), (5, 4), (0, 84)]:
        with pytest.raises(IndexError):
            batch.view(start, end)


def test_the_bounds_of_a_walk_are_checked() -> None:
    for start, end in [(-1, 5), (5, 4), (0, 1000)]:
        with pytest.raises(IndexError):
            read_batches(DATA, start=start, end=end)
    with pytest.raises(TypeError):
        Walk(DATA, EntryFrame, BatchFrame)  # type: ignore[type-var]


def test_frames_are_passed_over_by_their_headers() -> None:
    walk = read_batches(DATA + MARKER[:61], origin=50)
    assert walk.next_last_offset == 1
    walk.pass_over(1, 1000)
    assert walk.position == 50
    walk.pass_over(7, 1000)
    assert (walk.position, walk.next_last_offset) == (50 + len(DATA), 7)
    walk.pass_over(8, 50 + len(DATA + MARKER) - 1)
    assert walk.position == 50 + len(DATA)  # the marker reaches beyond the end
    walk.pass_over(8, 50 + len(DATA + MARKER))
    assert walk.position == 50 + len(DATA + MARKER)
    assert walk.next_last_offset is None
    assert list(walk) == []
    assert walk.missing_bytes == len(MARKER) - 61 + 18


@pytest.mark.parametrize(
    "header",
    [DATA[:60], with_length(DATA, 48), with_length(DATA, -1), DATA[:16] + b"\x03" + DATA[17:], bytes(80), b""],
)
def test_no_header_that_cannot_be_right_is_passed_over(header: bytes) -> None:
    walk = read_batches(header)
    assert walk.next_last_offset is None
    walk.pass_over(100, 1000)
    assert walk.position == 0


def test_a_placed_batch_differs_in_its_place_alone() -> None:
    (batch,) = read_batches(MARKER, origin=50)
    assert isinstance(batch, RecordBatch)
    placed = batch.with_offset(base_offset=1000, leader_epoch=4)
    assert isinstance(placed, RecordBatch)
    assert (placed.base_offset, placed.last_offset, placed.leader_epoch) == (1000, 1000, 4)
    for name in ("position", "size_bytes", "magic", "attributes", "crc", "base_timestamp", "max_timestamp"):
        assert getattr(placed, name) == getattr(batch, name)
    for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence", "count"):
        assert getattr(placed, name) == getattr(batch, name)
    assert [record.offset for record in placed.records()] == [1000]
    assert (batch.base_offset, batch.leader_epoch) == (7, 0)
    assert placed.crc_matches
