"""What records of internal topics say, and that those which are not known are shown with their numbers."""

from __future__ import annotations

import doctest
from uuid import UUID

import pytest
from consumer_blobs import encode_assignment, encode_subscription

import storage.internal
from storage.errors import InvalidRecordError
from storage.internal import (
    KeyedRecord,
    Message,
    Raw,
    consumer_protocol,
    control,
    metadata,
    offsets,
    remote_logs,
    shares,
    transactions,
)
from storage.record import EndTransactionMarker
from storage.record.control import encode_end_transaction

TOPIC_ID = UUID(int=77)
OFFSET_KEY = {"group": "g", "topic": "orders", "partition": 3}
OFFSET = {"offset": 5, "leaderEpoch": 2, "metadata": "", "commitTimestamp": 17}


@pytest.mark.parametrize("record_type", offsets.OFFSET_COMMIT_TYPES)
def test_an_offset_is_read(record_type: int) -> None:
    key = offsets.encode_key(record_type, OFFSET_KEY)
    value = offsets.encode_value(record_type, 3, OFFSET)
    assert key == bytes([0, record_type, 0, 1]) + b"g" + b"\0\x06orders" + bytes([0, 0, 0, 3])
    read = offsets.decode(key, value)
    assert (read.type, read.key.fields, read.value.fields) == (record_type, OFFSET_KEY, OFFSET)
    assert (read.key.name, read.value.name, read.value.version) == ("OffsetCommitKey", "OffsetCommitValue", 3)


def test_a_tombstone_has_no_value() -> None:
    assert offsets.decode(offsets.encode_key(1, OFFSET_KEY), None).value is None


def test_bytes_after_a_message_are_kept() -> None:
    read = offsets.decode(offsets.encode_key(1, OFFSET_KEY) + b"k", offsets.encode_value(1, 3, OFFSET) + b"vv")
    assert (read.key.rest, read.value.rest) == (b"k", b"vv")
    assert metadata.decode(metadata.encode(20, 0, {}) + b"xyz").rest == b"xyz"


@pytest.mark.parametrize(
    ("key", "value", "record_type", "raw_key", "raw_value"),
    [
        (None, b"\0\x03x", None, None, (None, None, "the key is missing, and it would tell the type")),
        (b"\0", None, None, (None, None, "the key is shorter than its type"), None),
        (b"\0\x63k", b"\0\x02v", 99, (99, None, "99 is no type that is known here"), (99, 2, "99 is no type")),
        (b"\0\x63k", b"v", 99, (99, None, "99 is no type"), (99, None, "99 is no type")),
        (b"\xff\xff", None, -1, (-1, None, "-1 is no type"), None),
        (b"\0\x02\0\x01g", b"\0\x09v", 2, None, (2, 9, "GroupMetadataValue has no version 9 here; the newest is 4")),
        (b"\0\x02\0\x01g", b"\xff\xff", 2, None, (2, -1, "GroupMetadataValue has no version -1 here")),
        (b"\0\x02\0\x01g", b"v", 2, None, (2, None, "the value is shorter than its version")),
        (b"\0\x02\0\x09g", b"\0\0", 2, (2, 0, "GroupMetadataKey version 0 cannot be read"), (2, 0, "GroupMetadataV")),
    ],
)
def test_what_is_not_known_is_raw(key, value, record_type, raw_key, raw_value) -> None:
    read = offsets.decode(key, value)
    assert read.type == record_type
    for outcome, data, expected in ((read.key, key, raw_key), (read.value, value, raw_value)):
        if expected is None:
            assert not isinstance(outcome, Raw)
        else:
            assert isinstance(outcome, Raw)
            assert (outcome.data, outcome.type, outcome.version) == (data, *expected[:2])
            assert outcome.reason.startswith(expected[2])


def test_a_share_groups_state_and_a_transaction_are_read() -> None:
    key = {"groupId": "g", "topicId": TOPIC_ID, "partition": 1}
    for record_type in (shares.SHARE_SNAPSHOT_TYPE, shares.SHARE_UPDATE_TYPE):
        value = {"snapshotEpoch": 1, "startOffset": 9, "deliveryCompleteCount": 4}
        read = shares.decode(shares.encode_key(record_type, key), shares.encode_value(record_type, 0, value))
        assert (read.key.fields, read.value.fields["deliveryCompleteCount"]) == (key, 4)
    said = {"producerId": 4, "transactionStatus": transactions.TransactionState.ONGOING, "transactionPartitions": None}
    read = transactions.decode(
        transactions.encode_key(transactions.TRANSACTION_LOG_TYPE, {"transactionalId": "t"}),
        transactions.encode_value(transactions.TRANSACTION_LOG_TYPE, 1, said),
    )
    assert isinstance(read, KeyedRecord)
    assert read.value.fields["transactionStatus"] == 1
    assert read.value.fields["previousProducerId"] == -1


@pytest.mark.parametrize(
    ("value", "record_type", "version", "reason"),
    [
        (b"", None, None, "the frame version is missing, not 1"),
        (b"\x02\x0c\x00", None, None, "the frame version is 2, not 1"),
        (b"\x01", None, None, "the record ends before its type and version do"),
        (b"\x01\x0c", 12, None, "the record ends before its type and version do"),
        (b"\x01\x0c\xff\xff\xff\xff\xff", 12, None, "the record ends before its type and version do"),
        (b"\x01\xe8\x07\x00", 1000, 0, "1000 is no type that is known here"),
        (b"\x01\x0c\x05abc", 12, 5, "FeatureLevelRecord has no version 5 here; the newest is 0"),
        (b"\x01\x0c\x00\x11met", 12, 0, "FeatureLevelRecord version 0 cannot be read: the record ends within a field"),
    ],
)
def test_metadata_that_is_not_known_is_raw(value: bytes, record_type: int, version: int, reason: str) -> None:
    outcome = metadata.decode(value)
    assert isinstance(outcome, Raw)
    assert (outcome.data, outcome.type, outcome.version) == (value, record_type, version)
    assert outcome.reason.startswith(reason)


def test_numbers_longer_than_they_need_to_be_are_read() -> None:
    outcome = metadata.decode(b"\x81\x00\x8c\x00\x80\x00" + metadata.encode(12, 0, {"name": "x"})[3:])
    assert isinstance(outcome, Message)
    assert (outcome.name, outcome.fields["name"]) == ("FeatureLevelRecord", "x")


def test_tagged_fields_with_their_defaults_are_not_stated() -> None:
    fields = {"partitionId": 3, "topicId": TOPIC_ID, "leader": 2}
    outcome = metadata.decode(metadata.encode(5, 2, fields))
    assert isinstance(outcome, Message)
    assert outcome.fields["isr"] is None
    assert outcome.stated() == fields


def test_what_39_does_not_know_it_does_not_state() -> None:
    value = offsets.encode_value(1, 4, OFFSET | {"topicId": TOPIC_ID})
    outcome = offsets.decode(offsets.encode_key(1, OFFSET_KEY), value).value
    assert isinstance(outcome, Message)
    assert outcome.stated("4") == OFFSET | {"topicId": TOPIC_ID}
    assert outcome.stated("3.9") == OFFSET


def test_remote_segments_are_read_as_kafka_wrote_them() -> None:
    """The bytes are those of Kafka's RemoteLogMetadataSerde."""
    value = bytes.fromhex(
        "010100076f72646572730000000000000000000000000000004d000000030000000000000000"
        "00000000000000004e00000000040000018bcfe56800000100"
    )
    outcome = remote_logs.decode(value)
    assert isinstance(outcome, Message)
    assert outcome.definition is remote_logs.definition(1)
    partition = {"name": "orders", "id": TOPIC_ID, "partition": 3}
    assert outcome.fields == {
        "remoteLogSegmentId": {"topicIdPartition": partition, "id": UUID(int=78)},
        "brokerId": 4,
        "eventTimestampMs": 1_700_000_000_000,
        "customMetadata": None,
        "remoteLogSegmentState": 1,
    }
    assert remote_logs.encode(1, 0, outcome.fields) == value
    assert remote_logs.decode(b"\1\x09\0x") == Raw(b"\1\x09\0x", 9, 0, "9 is no type that is known here")


def test_share_updates_are_read_as_kafka_wrote_them() -> None:
    """The bytes are those of Kafka's ShareCoordinatorRecordSerde."""
    key = bytes.fromhex("00010001670000000000000000000000000000004d00000001")
    value = bytes.fromhex("0000000000010000000200000000000000090101000400000004")
    read = shares.decode(key, value)
    assert read.key.fields == {"groupId": "g", "topicId": TOPIC_ID, "partition": 1}
    assert read.value.fields == {
        "snapshotEpoch": 1,
        "leaderEpoch": 2,
        "startOffset": 9,
        "deliveryCompleteCount": 4,
        "stateBatches": [],
    }
    assert shares.encode_key(read.type, read.key.fields) == key
    assert shares.encode_value(read.type, 0, read.value.fields) == value


def test_blobs_of_a_newer_version_are_read_as_the_newest() -> None:
    fields = {"topics": ["a", "b"], "userData": None, "ownedPartitions": [], "generationId": 4, "rackId": "r"}
    newer = b"\0\x09" + encode_subscription(3, fields)[2:] + b"more"
    outcome = consumer_protocol.decode_subscription(newer)
    assert isinstance(outcome, Message)
    assert (outcome.version, outcome.fields, outcome.rest) == (9, fields, b"more")
    assert outcome.stated() == fields
    assigned = {"assignedPartitions": [{"topic": "a", "partitions": [0, 1]}], "userData": b"u"}
    assert consumer_protocol.decode_assignment(encode_assignment(0, assigned)).fields == assigned
    assert consumer_protocol.decode_assignment(b"") == Raw(b"", None, None, "the blob is shorter than its version")
    assert isinstance(consumer_protocol.decode_assignment(b"\xff\xff"), Raw)


def test_control_records_are_read() -> None:
    for record_type in (0, 1):
        value = control.encode_value(record_type, 0, {"coordinatorEpoch": 8})
        assert value == b"\0\0\0\0\0\x08"
        assert control.decode(control.encode_key(record_type), value).fields == {"coordinatorEpoch": 8}
    voter = {"voterId": 1, "voterDirectoryId": TOPIC_ID}
    value = control.encode_value(2, 1, {"leaderId": 1, "voters": [voter]})
    outcome = control.decode(control.encode_key(2), value)
    assert isinstance(outcome, Message)
    assert (outcome.version, outcome.fields["version"], outcome.fields["voters"]) == (1, 1, [voter])
    assert control.decode(control.encode_key(2), None) is None
    assert control.decode(None, b"xx").type is None
    assert control.decode(control.encode_key(2), b"\0").type == 2
    assert control.decode(control.encode_key(9), b"\0\x01") == Raw(b"\0\x01", 9, 1, "9 is no type that is known here")
    assert control.decode(control.encode_key(2), b"\0\x09").version == 9


@pytest.mark.parametrize("committed", [True, False])
def test_ends_of_transactions_are_those_that_we_append(*, committed: bool) -> None:
    written = encode_end_transaction(EndTransactionMarker(committed, 8))
    assert written == (control.encode_key(committed), control.encode_value(committed, 0, {"coordinatorEpoch": 8}))


def test_the_example_of_the_room_holds() -> None:
    assert doctest.testmod(storage.internal) == (0, 4)


def test_what_is_not_known_cannot_be_written() -> None:
    for write in (offsets.encode_value, metadata.encode, remote_logs.encode, control.encode_value):
        with pytest.raises(InvalidRecordError, match="99 is no type that is known here"):
            write(99, 0, {})
    with pytest.raises(InvalidRecordError, match="FeatureLevelRecord has no version 1 here; the newest is 0"):
        metadata.encode(12, 1, {})
    assert offsets.definitions(99) is None
    key, value = offsets.definitions(2)
    assert (key.name, value.name, [*value.versions], [*value.versions_39]) == (
        "GroupMetadataKey",
        "GroupMetadataValue",
        [0, 1, 2, 3, 4],
        [0, 1, 2, 3, 4],
    )
