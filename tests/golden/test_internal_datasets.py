"""Internal records of real brokers are read as the real tool's decoders read them, and are written back equal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from consumer_blobs import encode_assignment, encode_subscription
from internal_messages import as_json

from storage.internal import Message, consumer_protocol, control, metadata, offsets, transactions
from storage.record import RecordBatch, read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.golden

SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-compaction", "kafka-3.9-recovery")
RECORD = re.compile(r"\| offset: (\d+) .*? headerKeys: \[\] ?(.*)")
KEYED = re.compile(r"key: (.*?) payload: (.*)", re.DOTALL)
CONTROL = re.compile(r"(SnapshotHeader|SnapshotFooter) (\{.*)")
STATES = {
    "Empty": 0,
    "Ongoing": 1,
    "PrepareCommit": 2,
    "PrepareAbort": 3,
    "CompleteCommit": 4,
    "CompleteAbort": 5,
    "Dead": 6,
}


def printed(root: Path, topic: str) -> Iterator[tuple[bool, bytes | None, bytes | None, str]]:
    """Whether it is a control record, the key, the value and what the tool printed: of each sound record of a topic."""
    for pattern in ("*.log.txt", "*.checkpoint.txt"):
        for path in sorted(root.rglob(pattern)):
            if not path.parent.name.startswith(f"{topic}-"):
                continue
            parts = [part.removesuffix(".dump") for part in path.relative_to(root).parts]
            lines = dict(match.groups() for line in path.read_text().splitlines() if (match := RECORD.match(line)))
            for batch in read_batches(root.joinpath(*parts).with_suffix("").read_bytes()):
                assert isinstance(batch, RecordBatch)
                for record in batch.records():
                    yield batch.is_control, record.key, record.value, lines[str(record.offset)]


def test_metadata_is_what_the_tool_printed(datasets: Callable[[str], Path]) -> None:
    compared = {"records": 0, "control": 0}
    for name in SETS:
        for is_control, key, value, text in printed(datasets(name), "__cluster_metadata"):
            if is_control:
                outcome = control.decode(key, value)
                assert isinstance(outcome, Message)
                record_type = control.control_type(key)
                assert record_type is not None
                assert control.encode_value(record_type, outcome.version, outcome.fields) == value
                if match := CONTROL.match(text):
                    assert outcome.name == f"{match[1]}Record"
                    assert as_json(outcome.stated("3.9")) == json.loads(match[2])
                    compared["control"] += 1
                continue
            assert value is not None
            outcome = metadata.decode(value)
            assert isinstance(outcome, Message)
            expected = json.loads(text.removeprefix("payload: "))
            assert re.sub(r"(?<!^)([A-Z])", r"_\1", outcome.name).upper() == expected["type"]
            assert (outcome.version, as_json(outcome.stated("3.9"))) == (expected["version"], expected["data"])
            assert outcome.definition.api_key is not None
            assert metadata.encode(outcome.definition.api_key, outcome.version, outcome.fields) == value
            compared["records"] += 1
    print(compared)
    assert compared["records"] > 500
    assert compared["control"] >= 2


def test_offsets_and_groups_are_what_the_tool_printed(datasets: Callable[[str], Path]) -> None:
    compared = {"offset": 0, "group": 0, "tombstone": 0}
    for name in SETS:
        for _, key, value, text in printed(datasets(name), "__consumer_offsets"):
            read = offsets.decode(key, value)
            match = KEYED.match(text)
            assert match is not None
            said, payload = json.loads(match[1]), match[2]
            assert isinstance(read.key, Message)
            assert {"type": str(read.type), "data": as_json(read.key.stated("3.9"))} == said
            assert read.type is not None
            assert offsets.encode_key(read.type, read.key.fields) == key
            if value is None:
                assert (read.value, payload) == (None, "<DELETE>")
                compared["tombstone"] += 1
                continue
            assert isinstance(read.value, Message)
            assert offsets.encode_value(read.type, read.value.version, read.value.fields) == value
            ours: dict[str, Any] = read.value.stated("3.9")
            if read.type == offsets.GROUP_METADATA_TYPE:
                ours["members"] = [_with_blobs(member) for member in ours["members"]]
            assert {"version": str(read.value.version), "data": as_json(ours)} == json.loads(payload)
            compared["group" if read.type == offsets.GROUP_METADATA_TYPE else "offset"] += 1
    print(compared)
    assert compared["offset"] > 20
    assert compared["group"] > 4


def _with_blobs(member: dict[str, Any]) -> dict[str, Any]:
    """A member as the tool prints it, which shows blobs with the fields of their newest version and nulls as empty."""
    subscription = consumer_protocol.decode_subscription(member["subscription"])
    assignment = consumer_protocol.decode_assignment(member["assignment"])
    assert isinstance(subscription, Message)
    assert encode_subscription(subscription.version, subscription.fields) == member["subscription"]
    shown = {"topics": [], "userData": b"", "ownedPartitions": [], "generationId": -1, "rackId": ""}
    shown |= {name: value for name, value in subscription.fields.items() if value is not None}
    if not member["assignment"]:
        return member | {"subscription": shown}
    assert isinstance(assignment, Message)
    assert encode_assignment(assignment.version, assignment.fields) == member["assignment"]
    assigned = assignment.fields | {"userData": assignment.fields["userData"] or b""}
    return member | {"subscription": shown, "assignment": assigned}


def test_transactions_are_what_the_tool_printed(datasets: Callable[[str], Path]) -> None:
    compared = 0
    for name in SETS:
        for _, key, value, text in printed(datasets(name), "__transaction_state"):
            read = transactions.decode(key, value)
            assert isinstance(read.key, Message)
            assert isinstance(read.value, Message)
            fields = read.value.fields
            partitions = {
                f"{each['topic']}-{number}"
                for each in fields["transactionPartitions"] or []
                for number in each["partitionIds"]
            }
            match = re.fullmatch(
                r"key: transaction_metadata::transactionalId=(.*) payload: producerId:(\d+),producerEpoch:(\d+),"
                r"state=(\w+),partitions=\[(.*)\],txnLastUpdateTimestamp=(\d+),txnTimeoutMs=(\d+)",
                text,
            )
            assert match is not None, text
            assert match[1] == read.key.fields["transactionalId"]
            numbers = ("producerId", "producerEpoch")
            assert [int(match[2]), int(match[3])] == [fields[each] for each in numbers]
            assert STATES[match[4]] == fields["transactionStatus"]
            assert set(filter(None, match[5].split(","))) == partitions
            assert int(match[6]) == fields["transactionLastUpdateTimestampMs"]
            assert int(match[7]) == fields["transactionTimeoutMs"]
            assert transactions.encode_key(0, read.key.fields) == key
            assert transactions.encode_value(0, read.value.version, fields) == value
            compared += 1
    print(compared)
    assert compared > 50
