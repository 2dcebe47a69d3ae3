"""The decoders of internal topics, record by record; tests/broker compares them with the real tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import pytest

from kafkafs.dump.jackson import jackson, jackson_with_floats, java_double, jvm_encoded
from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.record_decoders import InternalTopic, decoder_of, newest_decoder_of, topic_of
from kafkafs.dump.text import TextForm
from storage.files import Files
from storage.internal import metadata, offsets, remote_logs, shares, transactions
from storage.internal.definitions import table
from storage.record.reading import read_batches
from storage.testing.batch_codec import OracleRecord, batch_of, encode_batch
from storage.testing.legacy_codec import encode_entry, entry_of

if TYPE_CHECKING:
    from pathlib import Path

    from storage.internal import Release

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
OFFSET_KEY = offsets.encode_key(1, {"group": "g", "topic": "orders", "partition": 3})
OFFSET_VALUE = offsets.encode_value(1, 3, {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 9})
TRANSACTION_KEY = transactions.encode_key(0, {"transactionalId": "tx"})


def shown(
    topic: InternalTopic, key: bytes | None, value: bytes | None, release: Release | Literal["either"] = "3.9"
) -> str:
    """What follows the header keys of a record with offset 5."""
    (batch,) = read_batches(encode_batch(batch_of([OracleRecord(offset=5, key=key, value=value)])))
    (record,) = batch.records()
    decoder = newest_decoder_of(topic) if release == "either" else decoder_of(topic, release)
    return decoder.text(record)


def transaction_value(status: int, partitions: list[dict[str, Any]] | None) -> bytes:
    definitions = transactions.definitions(0)
    assert definitions is not None
    fields = definitions[1].schema(0).default()
    fields |= {"producerId": 2, "transactionStatus": status, "transactionPartitions": partitions}
    return transactions.encode_value(0, 0, fields | {"transactionTimeoutMs": 60, "transactionLastUpdateTimestampMs": 4})


def test_a_committed_offset_is_json() -> None:
    assert shown(InternalTopic.OFFSETS, OFFSET_KEY, OFFSET_VALUE) == (
        ' key: {"type":"1","data":{"group":"g","topic":"orders","partition":3}}'
        ' payload: {"version":"3","data":{"offset":7,"leaderEpoch":-1,"metadata":"","commitTimestamp":9}}'
    )


@pytest.mark.parametrize(
    ("topic", "key"), [(InternalTopic.OFFSETS, OFFSET_KEY), (InternalTopic.TRANSACTIONS, TRANSACTION_KEY)]
)
def test_a_tombstone_deletes(topic: InternalTopic, key: bytes) -> None:
    assert shown(topic, key, None).endswith(" payload: <DELETE>")


def test_a_type_that_the_release_does_not_know_is_skipped() -> None:
    key = offsets.encode_key(11, {"groupId": "shared"})
    assert shown(InternalTopic.OFFSETS, key, None) == " key: Unknown record type 11 at offset 5, skipping."
    assert shown(InternalTopic.OFFSETS, key, None, "4") == (
        ' key: {"type":"11","data":{"groupId":"shared"}} payload: <DELETE>'
    )


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (InternalTopic.OFFSETS, offsets.encode_key(11, {"groupId": "shared"}), None, "4"),
        (InternalTopic.OFFSETS, OFFSET_KEY, OFFSET_VALUE, "3.9"),
        (InternalTopic.OFFSETS, OFFSET_KEY, offsets.encode_value(1, 4, {"offset": 7, "topicId": TOPIC_ID}), "3.9"),
        (InternalTopic.OFFSETS, b"\0\x63", b"v", "3.9"),
        (InternalTopic.TRANSACTIONS, TRANSACTION_KEY, None, "3.9"),
        (InternalTopic.METADATA, None, metadata.encode(28, 0, {"topicName": "orders"}), "4"),
        (InternalTopic.METADATA, None, metadata.encode(17, 3, {"brokerId": 1, "cordonedLogDirs": [TOPIC_ID]}), "4"),
        (InternalTopic.METADATA, None, metadata.encode(2, 0, {"name": "orders", "topicId": TOPIC_ID}), "3.9"),
        (InternalTopic.METADATA, None, metadata.encode(28, 0, {"topicName": "orders"}) + b"rest", "4"),
    ],
)
def test_what_only_4_knows_is_shown_as_by_4(
    topic: InternalTopic, key: bytes | None, value: bytes | None, expected: Release
) -> None:
    assert shown(topic, key, value, "either") == shown(topic, key, value, expected)


@pytest.mark.parametrize(
    ("topic", "key", "value", "reason"),
    [
        (InternalTopic.OFFSETS, None, b"v", "The key is missing."),
        (InternalTopic.OFFSETS, b"", b"v", "Could not read version from key's buffer."),
        (InternalTopic.OFFSETS, OFFSET_KEY, b"", "Could not read version from value's buffer."),
        (
            InternalTopic.OFFSETS,
            OFFSET_KEY,
            OFFSET_VALUE[:-1],
            (
                "Could not read record with version 3 from value's buffer due to: OffsetCommitValue version 3 cannot"
                " be read: the record ends within a field (position 16)."
            ),
        ),
        (InternalTopic.SHARES, None, b"v", "The key is missing."),
        (InternalTopic.TRANSACTIONS, None, b"v", "The key is missing."),
        (InternalTopic.TRANSACTIONS, b"\0", b"v", "The key is shorter than its type."),
        (InternalTopic.TRANSACTIONS, TRANSACTION_KEY, b"", "The value is shorter than its version."),
        (InternalTopic.TRANSACTIONS, TRANSACTION_KEY, transaction_value(99, []), "99 is no status of a transaction."),
        (
            InternalTopic.TRANSACTIONS,
            TRANSACTION_KEY,
            transaction_value(1, None),
            "The transaction has no partitions, and is not empty.",
        ),
    ],
)
def test_what_cannot_be_read_has_its_reason(topic: InternalTopic, key: bytes | None, value: bytes, reason: str) -> None:
    assert shown(topic, key, value) == f" key: Error at offset 5, skipping. {reason}"


def test_partitions_of_a_transaction_have_the_real_tools_order() -> None:
    partitions = [{"topic": "t-txn", "partitionIds": [0, 1]}, {"topic": "t-txn-compact", "partitionIds": [0]}]
    assert shown(InternalTopic.TRANSACTIONS, TRANSACTION_KEY, transaction_value(1, partitions)) == (
        " key: transaction_metadata::transactionalId=tx payload: producerId:2,producerEpoch:0,state=Ongoing,"
        "partitions=[t-txn-compact-0,t-txn-1,t-txn-0],txnLastUpdateTimestamp=4,txnTimeoutMs=60"
    )


@pytest.mark.parametrize(("status", "text"), [(0, "Empty"), (2, "PrepareCommit"), (6, "Dead"), (99, "99"), (-1, "-1")])
def test_the_state_of_a_transaction_is_named_as_by_4_4(status: int, text: str) -> None:
    assert shown(InternalTopic.TRANSACTIONS, TRANSACTION_KEY, transaction_value(status, None), "4") == (
        ' key: {"type":"0","data":{"transactionalId":"tx"}} payload: {"version":"0","data":{"producerId":2,'
        f'"producerEpoch":0,"transactionTimeoutMs":60,"transactionStatus":"{text}","transactionPartitions":null,'
        '"transactionLastUpdateTimestampMs":4,"transactionStartTimestampMs":0}}'
    )


def test_an_empty_transaction_has_no_partitions() -> None:
    text = shown(InternalTopic.TRANSACTIONS, TRANSACTION_KEY, transaction_value(0, None))
    assert "state=Empty,partitions=[]," in text


def test_metadata_is_json() -> None:
    value = metadata.encode(2, 0, {"name": 'a"\x1f', "topicId": TOPIC_ID})
    assert shown(InternalTopic.METADATA, None, value) == (
        ' payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"a\\"\\u001F","topicId":"ABEiM0RVZneImaq7zN3u_w"}}'
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "Error while reading frame version"),
        (b"\1", "Error while reading type"),
        (b"\1\2", "Error while reading version"),
        (b"\2\2\0", "Could not deserialize metadata record due to unknown frame version 2(only frame version 1 is"),
        (b"\1\x63\0", "org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 99"),
        (b"\1\2\0\1", "Failed to deserialize record with type 2"),
        (metadata.encode(20, 0, {}) + b"rest", "Found 4 byte(s) of garbage after 20"),
    ],
)
def test_metadata_that_cannot_be_read_has_the_real_tools_reason(value: bytes | None, reason: str) -> None:
    assert shown(InternalTopic.METADATA, None, value).startswith(f" payload: Error at 5, skipping. {reason}")


def test_an_event_of_a_remote_partition_prints_itself() -> None:
    partition = {"name": "orders", "id": TOPIC_ID, "partition": 1}
    fields = {
        "topicIdPartition": partition,
        "brokerId": 1,
        "eventTimestampMs": 9,
        "remotePartitionDeleteState": 2,
    }
    value = remote_logs.encode(2, 0, fields)
    assert shown(InternalTopic.REMOTE_LOGS, None, value) == (
        " payload: RemotePartitionDeleteMetadata{topicPartition=ABEiM0RVZneImaq7zN3u_w:orders-1,"
        " state=DELETE_PARTITION_FINISHED, eventTimestampMs=9, brokerId=1}"
    )
    broken = remote_logs.encode(2, 0, fields | {"remotePartitionDeleteState": 9})
    assert shown(InternalTopic.REMOTE_LOGS, None, broken) == (" payload: Error at offset 5, skipping. null")


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/logs/__consumer_offsets-49/00000000000000000000.log", InternalTopic.OFFSETS),
        ("__transaction_state-0/00000000000000000007.log.deleted", InternalTopic.TRANSACTIONS),
        ("__share_group_state-0.0123456789abcdef-delete/00000000000000000000.log", InternalTopic.SHARES),
        ("__remote_log_metadata-3/00000000000000000000.log", InternalTopic.REMOTE_LOGS),
        ("__cluster_metadata-0/00000000000000000000.log", InternalTopic.METADATA),
        ("__cluster_metadata-0/00000000000000000900-0000000001.checkpoint", InternalTopic.METADATA),
        ("/logs/bootstrap.checkpoint", InternalTopic.METADATA),
        ("/logs/orders-0/00000000000000000000.log", None),
        ("/logs/__consumer_offsets/00000000000000000000.log", None),
        ("/logs/__other-0/00000000000000000000.log", None),
        ("00000000000000000000.log", None),
    ],
)
def test_a_directory_s_name_leads_to_the_decoder(path: str, topic: InternalTopic | None) -> None:
    assert topic_of(path) is topic


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1024.0, "1024.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (0.001, "0.001"),
        (-0.00099, "-9.9E-4"),
        (1.5e300, "1.5E300"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_a_number_is_written_as_the_jvm_writes_it(number: float, text: str) -> None:
    assert java_double(number) == text
    assert jackson_with_floats({"a": [number], "b": True}) == f'{{"a":[{text}],"b":true}}'


def test_only_quotas_have_numbers_with_fractions() -> None:
    names = ("offsets", "consumer_protocol", "transactions", "shares", "metadata", "remote_logs")
    with_floats = {
        definition.name
        for name in names
        for definition in table(name)
        if "float64" in repr(kinds(definition.schema(definition.newest_version).definition))
    }
    assert with_floats == {"ClientQuotaRecord"}


def kinds(definition: tuple[tuple[str, str, bool, int | None, object, Any], ...]) -> list[object]:
    return [[kind, [] if inner is None else kinds(inner.definition)] for _, kind, *_, inner in definition]


def test_control_characters_are_escaped_in_capitals() -> None:
    assert jackson("\x0b\\u000b\n\x7f") == '"\\u000B\\\\u000b\\n\x7f"'


@pytest.mark.parametrize("data", [b"ok", b"\xed\xa0\x80", b"\xed\xa0", b"\xed\xa0A", b"\xf0\x9f\x98", b"\xff\xfe"])
def test_what_is_no_text_is_replaced_as_the_jvm_replaces_it(data: bytes) -> None:
    expected = {b"ok": "ok", b"\xed\xa0A": "\ufffdA", b"\xff\xfe": "\ufffd\ufffd"}.get(data, "\ufffd")
    assert jvm_encoded(data.decode("utf-8", "surrogateescape")) == expected.encode()


def test_records_of_old_message_sets_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    record = OracleRecord(offset=0, timestamp=1, key=OFFSET_KEY, value=OFFSET_VALUE)
    path.write_bytes(encode_entry(entry_of(record, magic=1)))
    form = TextForm(decoder=decoder_of(InternalTopic.OFFSETS))
    with Files().open_reading(path) as file:
        *_, line = [line for run in LogDump(file, form, Selection()) for line in run]
    assert b'} key: {"type":"1","data":{"group":"g"' in line


def test_keys_and_values_are_objects_in_json(tmp_path: Path) -> None:
    share_key = shares.encode_key(0, {"groupId": "g", "topicId": TOPIC_ID, "partition": 0})
    quota = metadata.encode(14, 0, {"entity": [], "key": "k", "value": float("nan"), "remove": False})
    cases = [
        (InternalTopic.OFFSETS, OFFSET_KEY, OFFSET_VALUE),
        (InternalTopic.OFFSETS, OFFSET_KEY, None),
        (InternalTopic.OFFSETS, None, b"\xff"),
        (InternalTopic.SHARES, share_key, b"\0\0"),
        (InternalTopic.METADATA, b"k", quota),
        (InternalTopic.METADATA, None, metadata.encode(2, 0, {"name": "\udcff", "topicId": TOPIC_ID})),
    ]
    found = []
    path = tmp_path / "00000000000000000000.log"
    for topic, key, value in cases:
        path.write_bytes(encode_batch(batch_of([OracleRecord(offset=0, key=key, value=value)])))
        with Files().open_reading(path) as file:
            dump = LogDump(file, JsonForm(decoder=decoder_of(topic)), Selection())
            *_, record = [json.loads(line) for run in dump for line in run]
        found.append((record["key"], record["value"]))
        assert record["headers"] == []
    key_object = {"name": "OffsetCommitKey", "type": 1, "version": 0}
    key_object["data"] = {"group": "g", "topic": "orders", "partition": 3}
    value_object = {"name": "OffsetCommitValue", "type": 1, "version": 3}
    value_object["data"] = {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 9}
    assert found[:2] == [(key_object, value_object), (key_object, None)]
    assert found[2] == (None, {"reason": "the key is missing, and it would tell the type", "base64": "/w=="})
    assert found[3][1]["reason"].startswith("ShareSnapshotValue version 0 cannot be read")
    assert found[4][0] == {"reason": "keys have no meaning in this topic", "base64": "aw=="}
    assert found[4][1]["data"]["value"] == "NaN"
    assert found[5][1]["data"]["name"] == "\udcff"
