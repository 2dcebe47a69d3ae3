"""The objects of a dump, field by field."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import Bounds, LogDump, Selection
from storage.files import Files
from storage.testing.batch_codec import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    OracleRecord,
    batch_of,
    encode_batch,
)
from storage.testing.legacy_codec import encode_entry, entry_of, wrapper_of
from storage.testing.strategies import encoded, logs

if TYPE_CHECKING:
    from pathlib import Path

GZIP = 1
Fields = dict[str, Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000007.log"


def objects(path: Path, data: bytes, *, with_data: bool = True) -> list[Fields]:
    """Return the objects after the one for the file."""
    path.write_bytes(data)
    with Files().open_reading(path) as file:
        first, *rest = [
            json.loads(line) for run in LogDump(file, JsonForm(with_data=with_data), Selection()) for line in run
        ]
    assert first == {"type": "file", "path": str(path), "startOffset": 7}
    return rest


def test_a_batch_has_every_field_of_its_header(log: Path) -> None:
    record = OracleRecord(offset=7, timestamp=1000, key=b"k", value=b"v")
    batch = batch_of(
        [record],
        partition_leader_epoch=4,
        attributes=TRANSACTIONAL | LOG_APPEND_TIME | DELETE_HORIZON,
        base_timestamp=9000,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 1,
    )
    found, _ = objects(log, encode_batch(replace(batch, last_offset_delta=3)))
    assert list(found.items()) == [
        ("type", "batch"),
        ("baseOffset", 7),
        ("lastOffset", 10),
        ("count", 1),
        ("baseSequence", 2**31 - 1),
        ("lastSequence", 2),
        ("producerId", 9),
        ("producerEpoch", 2),
        ("partitionLeaderEpoch", 4),
        ("isTransactional", True),
        ("isControl", False),
        ("deleteHorizonMs", 9000),
        ("position", 0),
        ("timestampType", "LogAppendTime"),
        ("maxTimestamp", 1000),
        ("size", 71),
        ("magic", 2),
        ("codec", "none"),
        ("crc", found["crc"]),
        ("isValid", True),
    ]


def test_what_a_record_does_not_have_is_null_and_what_is_no_text_is_base64(log: Path) -> None:
    records = [
        OracleRecord(offset=7, timestamp=5, key="日".encode(), value=b'"\n\0', headers=(("a", b"\xff"), ("a", None))),
        OracleRecord(offset=8, timestamp=6, key=None, value=None),
        OracleRecord(offset=9, timestamp=7, key=b"", value=b"\xed\xa0\x80", headers=(("\udcff", b""),)),
    ]
    _, *found = objects(log, encode_batch(batch_of(records)))
    assert [list(fields.items())[1:] for fields in found] == [
        [
            ("offset", 7),
            ("timestamp", 5),
            ("timestampType", "CreateTime"),
            ("key", "日"),
            ("value", '"\n\0'),
            ("headers", [{"key": "a", "value_base64": "/w=="}, {"key": "a", "value": None}]),
            ("sequence", -1),
        ],
        [
            ("offset", 8),
            ("timestamp", 6),
            ("timestampType", "CreateTime"),
            ("key", None),
            ("value", None),
            ("headers", []),
            ("sequence", -1),
        ],
        [
            ("offset", 9),
            ("timestamp", 7),
            ("timestampType", "CreateTime"),
            ("key", ""),
            ("value_base64", "7aCA"),
            ("headers", [{"key_base64": "/w==", "value": ""}]),
            ("sequence", -1),
        ],
    ]


def test_without_data_the_sizes_stay(log: Path) -> None:
    record = OracleRecord(offset=7, timestamp=5, key=b"key", value=None, headers=(("a", b""),))
    _, found = objects(log, encode_batch(batch_of([record])), with_data=False)
    assert found == {
        "type": "record",
        "offset": 7,
        "timestamp": 5,
        "timestampType": "CreateTime",
        "keySize": 3,
        "valueSize": -1,
        "sequence": -1,
    }


def test_entries_of_message_sets_have_a_checksum_each(log: Path) -> None:
    plain = bytearray(encode_entry(entry_of(OracleRecord(offset=7, key=b"k", value=b"v"), 0)))
    plain[-1] ^= 1
    records = [OracleRecord(offset=offset, timestamp=5, value=b"v") for offset in (8, 9)]
    outer, record, wrapper, *inner = objects(
        log, bytes(plain) + encode_entry(wrapper_of(records, 1, GZIP, log_append_time=True))
    )
    assert list(outer.items()) == [
        ("type", "batch"),
        ("lastOffset", 7),
        ("position", 0),
        ("timestampType", "NoTimestampType"),
        ("maxTimestamp", -1),
        ("size", 28),
        ("magic", 0),
        ("codec", "none"),
        ("crc", outer["crc"]),
        ("isValid", False),
    ]
    assert list(record.items()) == [
        ("type", "record"),
        ("offset", 7),
        ("timestamp", -1),
        ("timestampType", "NoTimestampType"),
        ("key", "k"),
        ("value", "w"),
        ("headers", []),
        ("crc", outer["crc"]),
        ("isValid", False),
    ]
    assert (wrapper["lastOffset"], wrapper["codec"], wrapper["timestampType"]) == (9, "gzip", "LogAppendTime")
    assert [(fields["offset"], fields["timestampType"], fields["isValid"]) for fields in inner] == [
        (8, "LogAppendTime", True),
        (9, "LogAppendTime", True),
    ]


@pytest.mark.parametrize(
    ("control_type", "value", "control"),
    [
        (0, "000000000003", {"type": "ABORT", "typeId": 0, "version": 0, "coordinatorEpoch": 3}),
        (1, "000000000003", {"type": "COMMIT", "typeId": 1, "version": 0, "coordinatorEpoch": 3}),
        (
            2,
            "00010000000103" + "00000001" + "00" * 15 + "0500" + "00000002" + "ff" * 16 + "000100",
            {
                "type": "LEADER_CHANGE",
                "typeId": 2,
                "version": 1,
                "leaderId": 1,
                "voters": [
                    {"voterId": 1, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAABQ"},
                    {"voterId": 2, "voterDirectoryId": "_____________________w"},
                ],
                "grantingVoters": [],
            },
        ),
        (
            3,
            "0000000000000000000700",
            {"type": "SNAPSHOT_HEADER", "typeId": 3, "version": 0, "lastContainedLogTimestamp": 7},
        ),
        (4, "000000", {"type": "SNAPSHOT_FOOTER", "typeId": 4, "version": 0}),
        (5, "0000000100", {"type": "KRAFT_VERSION", "typeId": 5, "version": 0, "kRaftVersion": 1}),
        (6, "00000100", {"type": "KRAFT_VOTERS", "typeId": 6, "version": 0, "voters": []}),
        (9, "ff", {"type": "UNKNOWN", "typeId": 9}),
    ],
)
def test_a_control_record_says_what_it_means(log: Path, control_type: int, value: str, control: Fields) -> None:
    record = OracleRecord(offset=7, key=struct.pack(">hh", 0, control_type), value=bytes.fromhex(value))
    batch, found = objects(log, encode_batch(batch_of([record], attributes=CONTROL)))
    assert batch["isControl"]
    assert found["control"] == control


def test_damage_says_where_it_is(log: Path) -> None:
    good = encode_batch(batch_of([OracleRecord(offset=7, value=b"v")]))
    marker = OracleRecord(offset=8, key=struct.pack(">hh", 0, 1), value=b"")
    broken = encode_batch(batch_of([marker], attributes=CONTROL))
    found = objects(log, good + broken + bytes(20))
    assert [fields["type"] for fields in found] == ["batch", "record", "batch", "damage", "damage"]
    assert list(found[3].items()) == [
        ("type", "damage"),
        ("reason", "a control record of type 1 is cut short"),
        ("path", str(log)),
        ("position", len(good)),
        ("offset", 8),
    ]
    assert list(found[4].items()) == [
        ("type", "damage"),
        ("reason", "the batch length 0 is below the smallest possible, 14"),
        ("path", str(log)),
        ("position", len(good) + len(broken)),
    ]


def test_a_batch_whose_header_makes_no_sense_is_damage_alone(log: Path) -> None:
    record = OracleRecord(offset=7, value=b"v")
    data = bytearray(encode_batch(batch_of([record])))
    data[22] |= 7
    log.write_bytes(bytes(data))
    with Files().open_reading(log) as file:
        dump = LogDump(file, JsonForm(), Selection(bounds=Bounds(first_offset=7)))
        (_, (line,)) = dump
    assert json.loads(line)["reason"] == "codec 7 does not exist"


def test_trailing_bytes_are_counted(log: Path) -> None:
    assert objects(log, bytes(9)) == [{"type": "trailing", "path": str(log), "position": 0, "bytes": 9}]


def test_the_name_of_a_snapshot_says_its_end() -> None:
    (line,) = JsonForm().heading("a/00000000000000000298-0000000001.checkpoint")
    path = "a/00000000000000000298-0000000001.checkpoint"
    assert json.loads(line) == {"type": "file", "path": path, "endOffset": 298, "epoch": 1}


def test_a_path_that_is_no_text_stays_json() -> None:
    (line,) = JsonForm().heading("a\udcff.log")
    assert json.loads(line.decode()) == {"type": "file", "path": "a\udcff.log"}


@pytest.mark.property
@given(logs())
def test_every_record_comes_back(tmp_path_factory: pytest.TempPathFactory, units: tuple[Any, ...]) -> None:
    path = tmp_path_factory.getbasetemp() / "00000000000000000007.log"
    found = objects(path, b"".join(map(encoded, units)))
    assert [fields["type"] for fields in found].count("batch") == len(units)
    expected = [
        (record.offset, record.timestamp, record.key, record.value) for unit in units for record in unit.records
    ]
    assert [seen(fields) for fields in found if fields["type"] == "record"] == expected


def seen(fields: Fields) -> tuple[int, int, bytes | None, bytes | None]:
    return fields["offset"], fields["timestamp"], bytes_of(fields, "key"), bytes_of(fields, "value")


def bytes_of(fields: Fields, name: str) -> bytes | None:
    if name not in fields:
        return base64.b64decode(fields[f"{name}_base64"])
    return None if fields[name] is None else fields[name].encode()
