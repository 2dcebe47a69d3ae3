"""What a look through the cluster's metadata log finds beside it: snapshots of KRaft, and the state of its quorum."""

from __future__ import annotations

import json
import struct

import pytest
from checked_logs import closed_log, replace
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory

from storage.testing.codec import CONTROL, OracleRecord, batch_of, encode_batch, encode_control_key
from storage.testing.control_codec import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from storage.verify.at_start import StartAction
from storage.verify.context import PartitionExpectation
from storage.verify.finding import Finding, FindingKind, Severity
from storage.verify.partition import verify_partition

NAME = "00000000000000000298-0000000001.checkpoint"
V0 = {
    "clusterId": "",
    "leaderId": 1,
    "leaderEpoch": 4,
    "votedId": -1,
    "appliedOffset": 0,
    "currentVoters": [{"voterId": 1}],
    "data_version": 0,
}
V1 = {
    "leaderId": 1,
    "leaderEpoch": 4,
    "votedId": -1,
    "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
    "data_version": 1,
}


def control(offset: int, control_type: int, value: bytes) -> bytes:
    record = OracleRecord(offset, NOW_MS, encode_control_key(control_type), value)
    return encode_batch(batch_of([record], attributes=CONTROL, partition_leader_epoch=1))


def data(offset: int, count: int) -> bytes:
    records = [OracleRecord(offset + at, NOW_MS, None, b"\1\x0c\0") for at in range(count)]
    return encode_batch(batch_of(records, partition_leader_epoch=1))


HEADER = control(0, SNAPSHOT_HEADER, struct.pack(">hqb", 0, NOW_MS, 0))
FIRST, SECOND = data(1, 3), data(4, 2)
FOOTER = control(6, SNAPSHOT_FOOTER, struct.pack(">hb", 0, 0))
SNAPSHOT = HEADER + FIRST + SECOND + FOOTER


def findings(log: LogOnMemory, *, is_cluster_metadata: bool = True) -> list[Finding]:
    expected = PartitionExpectation(
        directory=log.files.directory(DIRECTORY), is_clean=True, is_cluster_metadata=is_cluster_metadata
    )
    return list(verify_partition(expected, advance=lambda _: None).findings)


def of_snapshot(data: bytes) -> list[Finding]:
    log = closed_log()
    replace(log, NAME, data)
    found = findings(log)
    assert {(finding.severity, finding.path) for finding in found} <= {(Severity.DAMAGE, NAME)}
    return found


def test_a_whole_snapshot_is_sound_and_every_changed_byte_of_it_is_found() -> None:
    log = closed_log()
    replace(log, NAME, SNAPSHOT)
    assert findings(log) == []
    for at in range(len(SNAPSHOT)):
        changed = bytearray(SNAPSHOT)
        changed[at] ^= 0x10
        replace(log, NAME, bytes(changed))
        found = findings(log)
        is_epoch = any(0 <= at - SNAPSHOT.index(batch) - 12 < 4 for batch in (HEADER, FIRST, SECOND, FOOTER))
        assert found or is_epoch, at  # which no checksum covers, and no reader of a snapshot looks at
        assert {(finding.severity, finding.path) for finding in found} <= {(Severity.DAMAGE, NAME)}, at


def test_damage_of_a_snapshot_has_its_place() -> None:
    changed = bytearray(SNAPSHOT)
    changed[len(HEADER) + 70] ^= 1
    (finding,) = of_snapshot(bytes(changed))
    assert (finding.kind, finding.position) == (FindingKind.CHECKSUM, len(HEADER))
    assert finding.end_position == len(HEADER + FIRST)
    assert (finding.offset, finding.last_good_offset, finding.next_good_offset) == (1, 0, 4)


@pytest.mark.parametrize(
    ("snapshot", "kind"),
    [
        (b"", FindingKind.METADATA_SNAPSHOT),
        (HEADER + FIRST + SECOND, FindingKind.METADATA_SNAPSHOT),
        (data(0, 1) + FIRST + SECOND + FOOTER, FindingKind.METADATA_SNAPSHOT),
        (control(0, SNAPSHOT_FOOTER, bytes(3)) + FIRST + SECOND + FOOTER, FindingKind.METADATA_SNAPSHOT),
        (HEADER + SECOND + FOOTER, FindingKind.OFFSET_GAP),
        (HEADER + FIRST + FIRST + SECOND + FOOTER, FindingKind.OFFSETS),
        (SNAPSHOT[:-1], FindingKind.TORN_TAIL),
        (SNAPSHOT + bytes(50), FindingKind.ZERO_TAIL),
    ],
)
def test_a_snapshot_that_is_not_whole(snapshot: bytes, kind: FindingKind) -> None:
    assert [finding.kind for finding in of_snapshot(snapshot)] == [kind]


def test_what_is_left_of_writing_and_removing_snapshots_is_no_damage() -> None:
    log = closed_log()
    for name in ("00000000000000000298-0000000001-123.checkpoint.part", f"{NAME}.deleted", f"{NAME}.part"):
        replace(log, name, b"what?")
    (finding,) = findings(log)
    assert (finding.severity, finding.kind) == (Severity.NOTICE, FindingKind.LEFT_OVER)
    assert finding.reason.endswith(": 3")


def test_such_names_mean_nothing_beside_other_logs() -> None:
    log = closed_log()
    for name in (NAME, f"{NAME}.deleted", "quorum-state"):
        replace(log, name, b"what?")
    assert findings(log, is_cluster_metadata=False) == []
    assert {finding.kind for finding in findings(log)} == {
        FindingKind.TORN_TAIL,
        FindingKind.QUORUM_STATE,
        FindingKind.LEFT_OVER,
    }


@pytest.mark.parametrize("state", [V0, {**V0, "currentVoters": None}, {**V0, "new": 1}, V1, {**V1, "leaderId": -1}])
def test_a_quorum_state_that_brokers_read_is_sound(state: dict[str, object]) -> None:
    log = closed_log()
    assert findings(log) == []
    replace(log, "quorum-state", json.dumps(state).encode() + b"\nwhat follows is not read")
    assert findings(log) == []


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n{}", "{", "[]", "1", "[" * 100_000, "\0" * 40, "{}", "\x7fnot json"),
        *(json.dumps({**V0, "data_version": version}) for version in (2, -1, "0", None, 0.5, True)),
        *(json.dumps({**V0, name: value}) for name in ("leaderId", "leaderEpoch", "votedId") for value in ("1", 2**31)),
        *(json.dumps({**V0, "currentVoters": voters}) for voters in (1, [1], [{"voterId": "1"}], [{}])),
        *(json.dumps({key: value for key, value in V0.items() if key != missing}) for missing in V0),
        *(json.dumps({key: value for key, value in V1.items() if key != missing}) for missing in V1),
        json.dumps({**V1, "votedDirectoryId": "?"}),
        json.dumps({**V0, "appliedOffset": 2**63}),
        json.dumps({**V0, "clusterId": 7}),
    ],
)
def test_a_quorum_state_that_no_broker_starts_with(text: str) -> None:
    log = closed_log()
    replace(log, "quorum-state", text.encode())
    (finding,) = findings(log)
    assert (finding.severity, finding.kind, finding.path) == (Severity.DAMAGE, FindingKind.QUORUM_STATE, "quorum-state")
    assert finding.reason.endswith("; no broker starts with it")


def test_the_topic_id_of_the_metadata_is_always_the_same() -> None:
    log = closed_log()

    def found(topic_id: str) -> list[Finding]:
        replace(log, "partition.metadata", f"version: 0\ntopic_id: {topic_id}".encode())
        return [each for each in findings(log) if each.kind is FindingKind.PARTITION_METADATA]

    assert found("AAAAAAAAAAAAAAAAAAAAAQ") == []
    [finding] = found("AAEAAAAAAAAAAAAAAAAAAQ")
    assert finding.reason == (
        "the topic id is AAEAAAAAAAAAAAAAAAAAAQ, and that of a cluster's metadata is always AAAAAAAAAAAAAAAAAAAAAQ"
    )
    assert finding.start_action == StartAction.REFUSE, "3.9 and 4 do not start with it"
