"""Control records, by hand-made bytes and by those of real brokers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from storage.errors import MalformedRecordsError
from storage.record import decode_control, read_batches
from storage.record.control import (
    Control,
    Endpoint,
    EndTransactionMarker,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    Voter,
    encode_end_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DIRECTORY = UUID(int=2**100 + 5)


def key(control_type: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, control_type)


CASES: list[tuple[int, bytes, Control]] = [
    (0, bytes.fromhex("000000000003"), EndTransactionMarker(committed=False, coordinator_epoch=3)),
    (1, bytes.fromhex("0000ffffffff"), EndTransactionMarker(committed=True, coordinator_epoch=-1)),
    (
        2,
        bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"),
        LeaderChange(1, (Voter(1),), (Voter(1),)),
    ),
    (
        2,
        bytes.fromhex("0001 00000001 02 00000001") + DIRECTORY.bytes + bytes.fromhex("00 01 00"),
        LeaderChange(1, (Voter(1, DIRECTORY),), (), version=1),
    ),
    (3, bytes.fromhex("0000 0000018bcfe56800 00"), SnapshotHeader(1700000000000)),
    (4, bytes.fromhex("0000 00"), SnapshotFooter()),
    (5, bytes.fromhex("0000 0001 00"), KRaftVersion(1)),
    (
        6,
        bytes.fromhex("0000 02 00000007")
        + DIRECTORY.bytes
        + bytes.fromhex("02 02 43 03 6868 2384 00 0000 0001 00 00 00"),
        KRaftVoters((KRaftVoter(7, DIRECTORY, (Endpoint("C", "hh", 9092),), 0, 1),)),
    ),
    (9, b"anything", UnknownControl(9, b"anything")),
]


@pytest.mark.parametrize(("control_type", "value", "expected"), CASES)
def test_each_type(control_type: int, value: bytes, expected: Control) -> None:
    assert decode_control(key(control_type), value) == expected
    if isinstance(expected, EndTransactionMarker):
        assert encode_end_transaction(expected) == (key(control_type), value)


def test_fields_of_later_versions_are_passed_over() -> None:
    tagged = bytes.fromhex("0000 0000018bcfe56800 01 05 03 aabbcc")
    assert decode_control(key(3), tagged) == SnapshotHeader(1700000000000)


@pytest.mark.parametrize(("control_type", "value", "_expected"), CASES[:-1])
def test_every_cut_is_refused(control_type: int, value: bytes, _expected: Control) -> None:
    for cut in range(len(value)):
        with pytest.raises(MalformedRecordsError):
            decode_control(key(control_type), value[:cut])
    with pytest.raises(MalformedRecordsError):
        decode_control(key(control_type), None)


@pytest.mark.parametrize("bad_key", [None, b"", b"\x00\x00\x00", key(0, version=-1)])
def test_keys_that_name_no_type_are_refused(bad_key: bytes | None) -> None:
    with pytest.raises(MalformedRecordsError):
        decode_control(bad_key, b"")


def test_an_array_that_lies_about_its_length_is_refused() -> None:
    with pytest.raises(MalformedRecordsError):
        decode_control(key(2), bytes.fromhex("0000 00000001 ffffffff07 00000001"))


@pytest.mark.golden
def test_the_controls_of_a_real_quorum(datasets: Callable[[str], Path]) -> None:
    directory = datasets("kafka-3.9") / "kafka-3.9" / "d1" / "__cluster_metadata-0"
    found: set[type] = set()
    for path in sorted(directory.glob("*.log")) + sorted(directory.glob("*.checkpoint")):
        for batch in read_batches(path.read_bytes()):
            for record in batch.records() if getattr(batch, "is_control", False) else ():
                found.add(type(decode_control(record.key, record.value)))
    assert found == {LeaderChange, SnapshotHeader, SnapshotFooter}
