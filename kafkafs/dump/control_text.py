"""Control records as kafka-dump-log shows them, and as JSON: what the transaction, the leader or the snapshot says."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any, Final

from storage.errors import StorageError
from storage.record import (
    ControlType,
    EndTransactionMarker,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    control_type_of,
    decode_control,
)

if TYPE_CHECKING:
    from uuid import UUID

    from storage.internal import Release
    from storage.record import Control, KRaftVoter, Record, Voter

_UNKNOWN: Final = "UNKNOWN"  # a type from the future
_TYPE_NAMES: Final[dict[int, str]] = {kind.value: kind.name for kind in ControlType}
_RECORD_NAMES: Final[dict[int, str]] = {
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def control_text(record: Record, release: Release = "3.9") -> str:
    """Return what the release's tool prints after a control record's metadata."""
    control_type = _control_type(record)
    type_name = _TYPE_NAMES.get(control_type, _UNKNOWN)
    if control_type in (ControlType.ABORT, ControlType.COMMIT):
        marker = _control(record)
        assert isinstance(marker, EndTransactionMarker)
        return f" endTxnMarker: {type_name} coordinatorEpoch: {marker.coordinator_epoch}"
    if control_type in _RECORD_NAMES:
        return f" {_RECORD_NAMES[control_type]} {_compact(_fields(_control(record)))}"
    if release == "4" and control_type == ControlType.LEADER_CHANGE:
        return f" LeaderChange: {_compact(_fields(_control(record)))}"
    return f" controlType: {type_name}({control_type})"


def control_object(record: Record) -> dict[str, Any]:
    """Return the control record's fields under the names of Kafka's own JSON."""
    control_type = _control_type(record)
    type_name = _TYPE_NAMES.get(control_type, _UNKNOWN)
    return {"type": type_name, "typeId": control_type, **_fields(_control(record))}


def _compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _control_type(record: Record) -> int:
    try:
        return control_type_of(record.key)
    except StorageError as error:
        raise error.located(offset=record.offset) from None


def _control(record: Record) -> Control:
    try:
        return decode_control(record.key, record.value)
    except StorageError as error:
        raise error.located(offset=record.offset) from None


def _fields(control: Control) -> dict[str, Any]:
    match control:
        case EndTransactionMarker():
            return {"version": control.version, "coordinatorEpoch": control.coordinator_epoch}
        case LeaderChange():
            return {
                "version": control.version,
                "leaderId": control.leader_id,
                "voters": [_voter(voter) for voter in control.voters],
                "grantingVoters": [_voter(voter) for voter in control.granting_voters],
            }
        case SnapshotHeader():
            return {"version": control.version, "lastContainedLogTimestamp": control.last_contained_log_timestamp}
        case SnapshotFooter():
            return {"version": control.version}
        case KRaftVersion():
            return {"version": control.version, "kRaftVersion": control.kraft_version}
        case KRaftVoters():
            return {"version": control.version, "voters": [_kraft_voter(voter) for voter in control.voters]}
        case UnknownControl():
            return {}


def _voter(voter: Voter) -> dict[str, Any]:
    fields: dict[str, Any] = {"voterId": voter.voter_id}
    if voter.directory_id is not None:
        fields["voterDirectoryId"] = _uuid(voter.directory_id)
    return fields


def _kraft_voter(voter: KRaftVoter) -> dict[str, Any]:
    return {
        "voterId": voter.voter_id,
        "voterDirectoryId": _uuid(voter.directory_id),
        "endpoints": [
            {"name": endpoint.name, "host": endpoint.host, "port": endpoint.port} for endpoint in voter.endpoints
        ],
        "kRaftVersionFeature": {
            "minSupportedVersion": voter.min_supported_version,
            "maxSupportedVersion": voter.max_supported_version,
        },
    }


def _uuid(identifier: UUID) -> str:
    """Return a UUID as Kafka writes it."""
    return urlsafe_b64encode(identifier.bytes).decode().rstrip("=")
