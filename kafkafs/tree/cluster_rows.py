"""The rows of the metadata log's views: one function for each view, a dict for each thing.

Field names are those of Kafka's records, with the same meaning. Settings whose names say that they are secret are shown
as `REDACTED`, as Kafka's own tools do not show them either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, overload

from storage.cluster import QUORUM_STATE_NAME
from storage.ids import format_id
from storage.internal import RESOURCE_NAMES, TOPIC_RESOURCE, metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from storage.cluster import QuorumState
    from storage.internal import ClusterImage, Credential, RecordedSetting

Row = dict[str, Any]

REDACTED: Final = "(hidden)"

_SECRET: Final = re.compile(r"password|secret|jaas\.config|keystore\.key|credential", re.IGNORECASE)
_KINDS: Final = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_PATTERNS: Final = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_PERMISSIONS: Final = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_OPERATIONS: Final = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
_ODD_NUMBERS: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""What JSON has no number for, as Kafka's tools print it."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PARTITION_FIELDS: Final = (
    "leader",
    "leaderEpoch",
    "partitionEpoch",
    "replicas",
    "isr",
    "addingReplicas",
    "removingReplicas",
    "directories",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)


class _PartitionRows(Sequence[Row]):
    """A row a partition of one topic as it is now, made when it is asked for: there may be hundreds of thousands."""

    def __init__(self, partitions: Mapping[int, Mapping[str, Any]]) -> None:
        self._partitions = dict(partitions)  # the image replaces the fields of a partition, and never changes them
        self._numbers = sorted(partitions)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...

    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return self._row(self._numbers[at]) if isinstance(at, int) else list(map(self._row, self._numbers[at]))

    def _row(self, number: int) -> Row:
        return {"partition": number, **_selected(self._partitions[number], _PARTITION_FIELDS)}


def topic_rows(image: ClusterImage) -> Iterator[Row]:
    """A row a topic, by name, with its partitions and the settings that it has itself."""
    for name, topic_id in sorted(image.topic_ids.items()):
        partitions = image.topics[topic_id].partitions
        yield {
            "topic": name,
            "topicId": format_id(topic_id),
            "partitions": _PartitionRows(partitions),
            "settings": {
                key: _shown(key, setting) for key, setting in sorted(image.settings_of(TOPIC_RESOURCE, name).items())
            },
        }


def broker_rows(image: ClusterImage) -> Iterator[Row]:
    """A row a registered node, brokers first; a node that is both has two."""
    names = ("rack", "fenced", "inControlledShutdown", "logDirs", "cordonedLogDirs", "brokerEpoch", "incarnationId")
    for role, nodes in (("broker", image.brokers), ("controller", image.controllers)):
        for node_id, fields in sorted(nodes.items()):
            yield {
                "nodeId": node_id,
                "role": role,
                "endpoints": [_endpoint(each) for each in fields["endPoints"]],
                **_selected(fields, names),
            }


def config_rows(image: ClusterImage) -> Iterator[Row]:
    """A row a setting of a topic, a broker or another resource, and which record of the log set it.

    After them is a row for each credential of a user, of which only the iterations are shown.
    """
    for resource, settings in sorted(image.settings.items()):
        for key, setting in sorted(settings.items()):
            yield {
                "resource": RESOURCE_NAMES.get(resource.kind, str(resource.kind)),
                "name": resource.name or "(default)",
                "key": key,
                "value": _shown(key, setting),
                "source": source_of(image, setting),
            }
    for (user, mechanism), credential in sorted(image.users.items()):
        yield {
            "resource": "user",
            "name": user,
            "key": _name(_MECHANISMS, mechanism),
            "value": f"iterations={credential.iterations}",
            "source": source_of(image, credential),
        }


def feature_rows(image: ClusterImage) -> Iterator[Row]:
    """A row a feature, with the level that holds, and what Kafka calls that of `metadata.version`."""
    for name, level in sorted({**image.features, "kraft.version": image.kraft_version}.items()):
        release = metadata.VERSION_NAMES.get(level) if name == metadata.VERSION_FEATURE else None
        yield {"feature": name, "level": level, "release": release}


def quota_rows(image: ClusterImage) -> Iterator[Row]:
    """A row a quota and what it is of; a null name is that of all who have none of their own."""
    for entity, quotas in sorted(image.quotas.items(), key=repr):
        for key, value in sorted(quotas.items()):
            yield {
                "entity": dict(entity),
                "quota": key,
                "value": value if isfinite(value) else _ODD_NUMBERS[str(value)],
            }


def acl_rows(image: ClusterImage) -> Iterator[Row]:
    """A row an access control entry."""
    rows = (
        {
            "resourceType": _name(_KINDS, fields["resourceType"]),
            "resourceName": fields["resourceName"],
            "patternType": _name(_PATTERNS, fields["patternType"]),
            "principal": fields["principal"],
            "host": fields["host"],
            "operation": _name(_OPERATIONS, fields["operation"]),
            "permissionType": _name(_PERMISSIONS, fields["permissionType"]),
            "id": format_id(fields["id"]),
        }
        for fields in image.acls.values()
    )
    return iter(sorted(rows, key=lambda row: tuple(row.values())))


def voter_rows(image: ClusterImage, quorum: QuorumState | None) -> Iterator[Row]:
    """A row a voter of the quorum, with what the node of this replica knew last of who leads it.

    Voters are records of the log, or those of the nodes' settings, which the node remembers in its `quorum-state`; the
    endpoints of these are the ones that they registered with.
    """
    if image.voters:
        for fields in sorted(image.voters, key=lambda each: int(each["voterId"])):
            yield {
                "voterId": fields["voterId"],
                "voterDirectoryId": format_id(fields["voterDirectoryId"]),
                "endpoints": [_voter_endpoint(each) for each in fields["endpoints"]],
                **_standing(fields["voterId"], quorum),
                **_selected(fields["kRaftVersionFeature"], ("minSupportedVersion", "maxSupportedVersion")),
                "source": "metadata log",
            }
        return
    for voter_id in sorted(quorum.voter_ids) if quorum is not None else ():
        registered = image.controllers.get(voter_id)
        yield {
            "voterId": voter_id,
            "voterDirectoryId": None,
            "endpoints": [] if registered is None else [_voter_endpoint(each) for each in registered["endPoints"]],
            **_standing(voter_id, quorum),
            "source": QUORUM_STATE_NAME,
        }


def _standing(voter_id: int, quorum: QuorumState | None) -> Row:
    if quorum is None or quorum.leader_id < 0:
        return {"status": None, "leaderEpoch": None if quorum is None else quorum.leader_epoch}
    return {"status": "Leader" if voter_id == quorum.leader_id else "Follower", "leaderEpoch": quorum.leader_epoch}


ROWS: Final[Mapping[str, Callable[[ClusterImage], Iterator[Row]]]] = {
    "topics": topic_rows,
    "brokers": broker_rows,
    "configs": config_rows,
    "features": feature_rows,
    "quotas": quota_rows,
    "acls": acl_rows,
}
"""The views of the log alone, by their names."""
VOTERS: Final = "voters"
"""The view that `voter_rows` makes, for which the log does not always tell enough."""

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "topics": ("topic", "topicId", "partitions", "replicas", "settings"),
    "brokers": ("nodeId", "role", "rack", "fenced", "inControlledShutdown", "endpoints", "logDirs"),
    "configs": ("resource", "name", "key", "value", "source"),
    "features": ("feature", "level", "release"),
    "quotas": ("entity", "quota", "value"),
    "acls": ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"),
    "voters": ("voterId", "voterDirectoryId", "endpoints", "status", "leaderEpoch", "source"),
}
"""The columns of each view as text, of which `topics` counts partitions and replicas."""


def source_of(image: ClusterImage, setting: RecordedSetting | Credential) -> str:
    """Return the source of a setting or a credential, in words."""
    if setting.offset is not None:
        return f"metadata log, offset {setting.offset}"
    return f"metadata log, snapshot {image.snapshot}"


def cells(view: str, row: Row) -> list[object]:
    """The row's values for the columns of the view as text."""
    if view == "topics":
        replicas = max((len(each["replicas"]) for each in row["partitions"]), default=0)
        row = {**row, "partitions": len(row["partitions"]), "replicas": replicas}
    return [_cell(row.get(column)) for column in COLUMNS[view]]


def _cell(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return ",".join(f"{key}={'(default)' if each is None else each}" for key, each in value.items()) or None
        case list():
            return ",".join(map(str, value)) or None
    return value


def _selected(fields: Mapping[str, Any], names: Sequence[str]) -> Row:
    """Those of the fields that the record has, with ids as Kafka writes them."""
    return {name: _plain(fields[name]) for name in names if name in fields}


def _plain(value: Any) -> Any:  # noqa: ANN401 -- any value of a record
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return format_id(value) if hasattr(value, "bytes") and hasattr(value, "int") else value


def _endpoint(fields: Mapping[str, Any]) -> str:
    protocol = _name(_PROTOCOLS, fields["securityProtocol"])
    return f"{fields['name']}://{_address(fields)}" + ("" if protocol == fields["name"] else f" ({protocol})")


def _voter_endpoint(fields: Mapping[str, Any]) -> str:
    return f"{fields['name']}://{_address(fields)}"


def _address(fields: Mapping[str, Any]) -> str:
    host = str(fields["host"])
    return f"[{host}]:{fields['port']}" if ":" in host else f"{host}:{fields['port']}"


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"UNKNOWN({number})"


def _shown(key: str, setting: RecordedSetting) -> str:
    return REDACTED if _SECRET.search(key) else setting.value
