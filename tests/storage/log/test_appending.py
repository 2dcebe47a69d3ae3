"""What a leader takes and in which form it stores it, and what a follower takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from lz4_frames import FRAMES
from memory_logs import NOW_MS, sent

from storage.config import TopicConfig
from storage.errors import BatchTooLargeError, ChecksumError, InvalidRecordError, StorageError, UnexpectedOffsetError
from storage.log.appending import place_followed, place_sent_batch, read_sent_batch
from storage.log.producers.state import AppendOrigin
from storage.record import BatchForm, Codec, RecordBatch, TimestampType, read_batches
from storage.record.encoding import batches_of_rows
from storage.record.kernel.records_data import seal
from storage.testing.codec import (
    CONTROL,
    LOG_APPEND_TIME,
    LZ4,
    OracleEntry,
    OracleRecord,
    batch_of,
    encode_batch,
    encode_entry,
    encode_records,
    seal_batch,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.record import Row

CLIENT, COORDINATOR = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR
DAY_MS = 86_400_000
HEADER = (
    "size_bytes",
    "base_offset",
    "leader_epoch",
    "crc",
    "attributes",
    "last_offset",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
DEFAULTS = TopicConfig.resolve({})


def stored(
    data: Buffer, settings: dict[str, str] | None = None, *, origin: AppendOrigin = CLIENT, now_ms: int = NOW_MS
) -> RecordBatch:
    config = TopicConfig.resolve(settings or {})
    batch = read_sent_batch(data, config, origin)
    found = place_sent_batch(batch, config, next_offset=1000, leader_epoch=7, now_ms=now_ms)
    written = b"".join(found.buffers)
    (result,) = read_batches(written)
    (known,) = found.batches
    assert isinstance(result, RecordBatch)
    assert isinstance(known, RecordBatch)
    result.check_crc()
    assert [getattr(known, name) for name in HEADER] == [getattr(result, name) for name in HEADER]
    assert list(known.records()) == list(result.records())
    assert (found.first_offset, found.last_offset, found.size_bytes) == (1000, result.last_offset, len(written))
    assert found.largest_timestamp == result.max_timestamp
    assert (result.base_offset, result.leader_epoch) == (1000, 7)
    return result


def values(batch: RecordBatch) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp, record.key, record.value) for record in batch.records()]


def test_a_batch_that_fits_is_only_placed() -> None:
    data = sent([(NOW_MS, b"a"), (NOW_MS + 5, b"b")])
    result = stored(data)
    assert bytes(result.view(16, result.size_bytes)) == data[16:]
    assert values(result) == [(NOW_MS, b"key", b"a"), (NOW_MS + 5, b"key", b"b")]


def test_what_was_sent_is_left_as_it_was() -> None:
    data = bytearray(sent(b"a"))
    before = bytes(data)
    stored(data)  # type: ignore[arg-type]
    assert data == before


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    ("setting", "target"),
    [
        ("uncompressed", Codec.NONE),
        ("gzip", Codec.GZIP),
        ("snappy", Codec.SNAPPY),
        ("lz4", Codec.LZ4),
        ("zstd", Codec.ZSTD),
        ("producer", None),
    ],
)
def test_batches_get_the_topics_codec(codec: Codec, setting: str, target: Codec | None) -> None:
    rows = [(NOW_MS + number, b"value" * 20) for number in range(5)]
    form = BatchForm(codec=codec, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True)
    result = stored(sent(rows, form), {"compression.type": setting})
    assert result.codec is (codec if target is None else target)
    assert (result.producer_id, result.producer_epoch, result.base_sequence) == (5, 1, 9)
    assert result.is_transactional
    assert values(result) == [(timestamp, b"key", value) for timestamp, value in rows]


@pytest.mark.parametrize("codec", list(Codec))
def test_append_time_stands_for_the_records_own(codec: Codec) -> None:
    form = BatchForm(codec=codec)
    result = stored(sent([(5, b"a"), (DAY_MS, b"b")], form), {"message.timestamp.type": "LogAppendTime"})
    assert result.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert result.codec is codec
    assert [record.timestamp for record in result.records()] == [NOW_MS, NOW_MS]


def test_a_largest_timestamp_that_is_wrong_is_put_right() -> None:
    batch = next(read_batches(sent([(NOW_MS, b"a"), (NOW_MS + 5, b"b")])))
    assert isinstance(batch, RecordBatch)
    fields = {name: getattr(batch, name) for name in FIELDS}
    wrong = seal(batch.view(61, batch.size_bytes), **{**fields, "max_timestamp": NOW_MS + 99})
    assert stored(wrong).max_timestamp == NOW_MS + 5


FIELDS = (
    "base_offset",
    "leader_epoch",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_have_gaps_are_given_offsets_of_their_own(codec: Codec) -> None:
    records = [OracleRecord(0, NOW_MS, b"k", b"a"), OracleRecord(2, NOW_MS + 1, b"k", b"b")]
    gapped = bytearray(encode_batch(batch_of(records, attributes=int(codec))))
    gapped[23:27] = (1).to_bytes(4, "big")  # as many offsets as records, says its header
    batch = next(read_batches(bytes(gapped)))
    gapped[17:21] = batch.checksum().to_bytes(4, "big")
    result = stored(bytes(gapped))
    assert [record.offset for record in result.records()] == [1000, 1001]
    assert result.codec is codec


def oracle(*, attributes: int = 0, base_offset: int = 0, **fields: int) -> bytes:
    return encode_batch(batch_of([OracleRecord(base_offset, NOW_MS, b"k", b"v")], attributes=attributes, **fields))


def linked() -> bytes:
    """A batch that is read here, and that no broker takes."""
    batch = batch_of([OracleRecord(0, NOW_MS, b"k", b"v")], attributes=LZ4)
    return seal_batch(batch, FRAMES["linked blocks"](encode_records(batch)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with a whole batch"),
        (sent(b"a")[:-1], "does not begin with a whole batch"),
        (sent(b"a") * 2, "more than one batch"),
        (sent(b"a") + b"\0", "more than one batch"),
        (encode_entry(OracleEntry(offset=0, magic=1, timestamp=NOW_MS, key=b"k", value=b"v")), "of version 2"),
        (oracle(base_offset=4), "begins at offset 0, this one at 4"),
        (oracle(attributes=CONTROL), "control records"),
        (oracle(attributes=LOG_APPEND_TIME), "append time"),
        (linked(), "may not link the blocks of an lz4 frame"),
        (oracle(producer_id=4, producer_epoch=0), "producer 4 has no sequence"),
        (encode_batch(batch_of([OracleRecord(0, NOW_MS, b"k", b"v"), OracleRecord(3, NOW_MS)])), "2 records and 4 off"),
        (encode_batch(batch_of([OracleRecord(0, -2, b"k", b"v")])), "the timestamp -2 is below -1"),
    ],
)
def test_what_no_producer_may_send(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidRecordError, match=reason):
        stored(data)


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(sent(b"abc"))
    data[-2] ^= 1
    with pytest.raises(ChecksumError):
        stored(bytes(data))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"compression.type": "zstd"},
        {"compression.type": "uncompressed"},
        {"message.timestamp.type": "LogAppendTime"},
        {"cleanup.policy": "compact"},
        {"message.timestamp.before.max.ms": "1000"},
        {"message.timestamp.after.max.ms": "1000"},
        {"max.message.bytes": "80"},
        {"segment.bytes": "80"},
    ],
)
@pytest.mark.parametrize("rows", [[(NOW_MS, b"k"), (NOW_MS + 5000, b"k")], [(NOW_MS - 5000, None), (-1, b"k")]])
def test_a_batch_that_was_just_encoded_fares_as_its_bytes_do(
    codec: Codec, settings: dict[str, str], rows: list[tuple[int, bytes | None]]
) -> None:
    made: list[Row] = [(timestamp, key, b"value" * 20, ()) for timestamp, key in rows]
    (encoded,) = batches_of_rows(made, form=BatchForm(codec=codec))
    try:
        result = stored(encoded.data, settings)
    except StorageError as refusal:
        with pytest.raises(type(refusal), match=re.escape(str(refusal))):
            stored(encoded, settings)
    else:
        again = stored(encoded, settings)
        assert bytes(again.view(0, again.size_bytes)) == bytes(result.view(0, result.size_bytes))


def test_a_batch_above_the_limit_is_refused_before_and_after_it_is_compressed() -> None:
    data = sent(b"x" * 1000)
    limit = {"max.message.bytes": "500"}
    with pytest.raises(BatchTooLargeError, match="is 500"):
        stored(data, limit)
    small = sent(b"x" * 1000, BatchForm(codec=Codec.ZSTD))
    assert stored(small, limit).size_bytes == len(small)
    with pytest.raises(BatchTooLargeError):
        stored(small, {**limit, "compression.type": "uncompressed"})


def test_records_without_keys_are_refused_where_a_topic_is_compacted() -> None:
    with pytest.raises(InvalidRecordError, match="1 records have no key"):
        stored(sent(b"a", key=None), {"cleanup.policy": "compact"})
    assert stored(sent(b"a", key=b""), {"cleanup.policy": "compact,delete"}).count == 1


@pytest.mark.parametrize(
    ("timestamp", "settings", "is_taken"),
    [
        (NOW_MS - 1000, {"message.timestamp.before.max.ms": "1000"}, True),
        (NOW_MS - 1001, {"message.timestamp.before.max.ms": "1000"}, False),
        (NOW_MS + 1000, {"message.timestamp.after.max.ms": "1000"}, True),
        (NOW_MS + 1001, {"message.timestamp.after.max.ms": "1000"}, False),
        (NOW_MS + 1001, {"message.timestamp.difference.max.ms": "1000"}, False),
        (-1, {"message.timestamp.before.max.ms": "1000"}, True),
        (0, {"message.timestamp.before.max.ms": "1000", "message.timestamp.type": "LogAppendTime"}, True),
        (2**62, {}, True),
    ],
)
def test_timestamps_may_not_be_too_far_from_the_append(
    timestamp: int, settings: dict[str, str], is_taken: bool
) -> None:
    data = sent([(NOW_MS, b"now"), (timestamp, b"then")])
    if is_taken:
        stored(data, settings)
    else:
        with pytest.raises(InvalidRecordError, match="is more than 1000 ms"):
            stored(data, settings)


def test_a_coordinator_may_write_control_batches_and_its_own_offsets() -> None:
    result = stored(oracle(attributes=CONTROL, base_offset=4), {"compression.type": "zstd"}, origin=COORDINATOR)
    assert result.is_control
    assert result.codec is Codec.NONE


def placed(*bounds: tuple[int, int]) -> bytes:
    return b"".join(
        encode_batch(batch_of([OracleRecord(first, NOW_MS, b"k", b"v"), OracleRecord(last, NOW_MS + first, b"k", b"")]))
        for first, last in bounds
    )


def test_a_follower_takes_whole_batches_as_they_are() -> None:
    data = placed((5, 6), (9, 12))
    result = place_followed(data + data[:30], DEFAULTS, next_offset=5)
    assert result is not None
    assert b"".join(result.buffers) == data
    assert (result.first_offset, result.last_offset, result.largest_timestamp) == (5, 12, NOW_MS + 9)
    assert place_followed(data[:30], DEFAULTS, next_offset=5) is None


def test_a_follower_takes_old_entries_by_their_last_offset() -> None:
    data = b"".join(
        encode_entry(OracleEntry(offset=offset, magic=1, timestamp=NOW_MS, key=b"k", value=b"v"))
        for offset in (5, 6, 9)
    )
    result = place_followed(data, DEFAULTS, next_offset=5)
    assert result is not None
    assert (result.first_offset, result.last_offset, len(result.batches)) == (5, 9, 3)


@pytest.mark.parametrize("bounds", [[(4, 6)], [(5, 6), (6, 8)], [(5, 9), (3, 4)], [(5, 6), (5, 6)]])
def test_a_followers_offsets_must_rise_from_the_logs_end(bounds: list[tuple[int, int]]) -> None:
    with pytest.raises(UnexpectedOffsetError):
        place_followed(placed(*bounds), DEFAULTS, next_offset=5)


def test_a_followers_damaged_batch_is_refused_with_all_others() -> None:
    data = bytearray(placed((5, 6), (7, 8)))
    data[-1] ^= 1
    with pytest.raises(ChecksumError):
        place_followed(bytes(data), DEFAULTS, next_offset=5)
