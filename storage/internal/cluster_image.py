"""The state that the records of the metadata log build up: topics, brokers, settings and the rest, as in a broker.

`ClusterImage.apply` takes the records in the order of their offsets, first those of a snapshot and then those of the
log after it. As in a broker, the records of a metadata transaction count when it ends, and never if it is aborted.
Reading files and decoding records is left to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from storage.internal.measuring import measured, table_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from storage.internal.outcome import Fields

"""The fields of one record, by the names that Kafka's schemas give them."""

NO_LEADER_CHANGE: Final = -2
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
RESOURCE_NAMES: Final[Mapping[int, str]] = {
    TOPIC_RESOURCE: "topic",
    BROKER_RESOURCE: "broker",
    8: "broker-logger",
    16: "client-metrics",
    32: "group",
}
"""The kinds of things that have settings, by Kafka's numbers for them."""

_BEGIN: Final = "BeginTransactionRecord"
_END: Final = "EndTransactionRecord"
_ABORT: Final = "AbortTransactionRecord"
_VOTERS: Final = "VotersRecord"
_KRAFT_VERSION: Final = "KRaftVersionRecord"
_CHANGE: Final = 1
_UNDO: Final = -1
_PARTITION_LISTS: Final = (
    "isr",
    "replicas",
    "removingReplicas",
    "addingReplicas",
    "directories",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)


class Resource(NamedTuple):
    """The owner of a setting: a kind from `RESOURCE_NAMES`, and a name, empty for the default of all brokers."""

    kind: int
    name: str


class RecordedSetting(NamedTuple):
    """A setting's value, and the offset of the record that set it; None for a record in a snapshot."""

    value: str
    offset: int | None


class Credential(NamedTuple):
    """A user's credential without its secrets, and the offset of its record; None for a record in a snapshot."""

    iterations: int
    offset: int | None


@dataclass(slots=True)
class ClusterTopic:
    """A topic, with each partition as `PartitionRecord` has it; `offset` is that of its `TopicRecord`."""

    name: str
    topic_id: UUID
    offset: int | None
    partitions: dict[int, Fields] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterImage:
    """The state of a cluster by its metadata log up to `end_offset`; not for several threads at once.

    `snapshot` is the id of the snapshot that the image began with, empty without one. Entries of `features` and the
    other tables are the fields of the last record about each. Secrets of users are kept in `secrets` alone, and only
    if `keeps_secrets`; else they are dropped as they are read. `unknown` counts the
    records of unknown types, by their names. `unread` has, for known types, the reason why records could not be read,
    such as a newer version. `settings_ms` is the time of the newest record that may have changed a setting; the caller
    of `apply` sets it.
    """

    snapshot: str = ""
    end_offset: int = 0
    topics: dict[UUID, ClusterTopic] = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    brokers: dict[int, Fields] = field(default_factory=dict)
    controllers: dict[int, Fields] = field(default_factory=dict)
    settings: dict[Resource, dict[str, RecordedSetting]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = field(default_factory=dict)
    acls: dict[UUID, Fields] = field(default_factory=dict)
    users: dict[tuple[str, int], Credential] = field(default_factory=dict)  # by name and mechanism
    tokens: dict[str, Fields] = field(default_factory=dict)
    next_producer_id: int = 0
    kraft_version: int = 0
    voters: list[Fields] = field(default_factory=list)  # as `VotersRecord` has them; none where the quorum is static
    unknown: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    settings_ms: int = 0
    keeps_secrets: bool = False
    secrets: dict[tuple[str, int], Fields] = field(default_factory=dict, repr=False)  # by name and mechanism
    _pending: list[tuple[str, Fields, int | None]] | None = None
    _eligible: dict[UUID, set[int]] = field(default_factory=dict)  # the partitions that have eligible replicas

    def apply(self, name: str, fields: Fields, offset: int | None) -> None:
        """Apply the next record, of the schema `name`; a record of an unknown type changes only `unknown`."""
        if offset is not None:
            self.end_offset = offset + 1
        if name == _BEGIN:
            self._pending = []
        elif name == _END:
            pending, self._pending = self._pending or [], None
            for each in pending:
                self._apply(*each)
        elif name == _ABORT:
            self._pending = None
        elif self._pending is not None:
            self._pending.append((name, fields, offset))
        else:
            self._apply(name, fields, offset)

    def apply_control(self, name: str, fields: Fields, offset: int | None) -> None:
        """Apply the next record if it is a control record, which no metadata transaction holds back."""
        if offset is not None:
            self.end_offset = offset + 1
        if name == _VOTERS:
            self.voters = fields["voters"]
        elif name == _KRAFT_VERSION:
            self.kraft_version = fields["kRaftVersion"]

    def why_unknown(self, *names: str) -> str:
        """Return why records of these types were not all read; empty if they were."""
        return next((self.unread[each] for each in (*names, _BEGIN, _END, _ABORT) if each in self.unread), "")

    def topic(self, name: str) -> ClusterTopic | None:
        """Return the topic of that name; None if the cluster has none."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def replicas(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """Return the brokers that have each partition, by topic and number."""
        return {
            (topic.name, number): tuple(fields["replicas"])
            for topic in self.topics.values()
            for number, fields in topic.partitions.items()
        }

    def assigned_to(self, node_id: int) -> dict[tuple[str, int], UUID | None]:
        """Return the partitions that a broker has, each with the id of its log directory; None where no id is given.

        Without those that are still on their way to it from other brokers.
        """
        found: dict[tuple[str, int], UUID | None] = {}
        for topic in self.topics.values():
            for number, fields in topic.partitions.items():
                replicas, directories = fields["replicas"], fields.get("directories") or ()
                if node_id in replicas and node_id not in (fields.get("addingReplicas") or ()):
                    at = replicas.index(node_id)
                    found[topic.name, number] = directories[at] if at < len(directories) else None
        return found

    def size_bytes(self) -> int:
        """Return about how many bytes of memory it takes."""
        tables: list[Mapping[Any, Any]] = [
            *(self.topics, self.topic_ids, self._eligible, self.brokers, self.controllers, self.acls, self.tokens),
            *(self.features, self.users, self.secrets, self.unknown, self.unread),
            *self.settings.values(),
            *self.quotas.values(),
            *(each.partitions for each in self.topics.values()),
        ]
        rest = [list(self.settings), list(self.quotas), self.voters, self._pending]
        return sum(map(table_bytes, tables)) + measured(rest)

    def settings_of(self, kind: int, name: str) -> Mapping[str, RecordedSetting]:
        """Return the settings of a topic, a broker or another resource itself."""
        return self.settings.get(Resource(kind, name), {})

    def _apply(self, name: str, fields: Fields, offset: int | None) -> None:
        applied = self._APPLIED.get(name)
        if applied is None:
            self.unknown[name] = self.unknown.get(name, 0) + 1
        else:
            applied(self, fields, offset)

    # Topics

    def _topic(self, fields: Fields, offset: int | None) -> None:
        """Add a topic. Each id has one name, and each name one id: the last ones that the log has."""
        topic = ClusterTopic(fields["name"], fields["topicId"], offset)
        self._forget_topic(topic.topic_id)
        self._forget_topic(self.topic_ids.get(topic.name))
        self.topics[topic.topic_id] = topic
        self.topic_ids[topic.name] = topic.topic_id

    def _remove_topic(self, fields: Fields, _: int | None) -> None:
        topic = self._forget_topic(fields["topicId"])
        if topic is not None:
            self.settings.pop(Resource(TOPIC_RESOURCE, topic.name), None)

    def _forget_topic(self, topic_id: UUID | None) -> ClusterTopic | None:
        """Remove and return the topic of that id, if there is one."""
        topic = None if topic_id is None else self.topics.pop(topic_id, None)
        if topic is not None:
            del self.topic_ids[topic.name]
            self._eligible.pop(topic.topic_id, None)
        return topic

    def _partition(self, fields: Fields, _: int | None) -> None:
        topic = self.topics.get(fields["topicId"])
        if topic is not None:
            self._set_partition(topic, fields["partitionId"], fields)

    def _set_partition(self, topic: ClusterTopic, number: int, fields: Fields) -> None:
        topic.partitions[number] = fields
        if fields.get("eligibleLeaderReplicas") or fields.get("lastKnownElr"):
            self._eligible.setdefault(topic.topic_id, set()).add(number)

    def _change_partition(self, fields: Fields, _: int | None) -> None:
        topic = self.topics.get(fields["topicId"])
        known = None if topic is None else topic.partitions.get(fields["partitionId"])
        if topic is None or known is None:
            return
        changed = {**known, "partitionEpoch": known["partitionEpoch"] + 1}
        changed.update({key: fields[key] for key in _PARTITION_LISTS if fields.get(key) is not None})
        if fields["leader"] != NO_LEADER_CHANGE:
            changed.update(leader=fields["leader"], leaderEpoch=known["leaderEpoch"] + 1)
        if fields["leaderRecoveryState"] >= 0:
            changed["leaderRecoveryState"] = fields["leaderRecoveryState"]
        self._set_partition(topic, fields["partitionId"], changed)

    def _clear_eligible(self, fields: Fields, _: int | None) -> None:
        """Clear the lists of one topic or of all: those of the partitions alone that have any, as a broker does."""
        name = fields["topicName"]
        for topic_id in [self.topic_ids.get(name)] if name else list(self._eligible):
            if topic_id is None:
                continue
            partitions = self.topics[topic_id].partitions
            for number in self._eligible.pop(topic_id, ()):
                partitions[number] = {**partitions[number], "eligibleLeaderReplicas": [], "lastKnownElr": []}

    # Brokers and controllers

    def _broker(self, fields: Fields, _: int | None) -> None:
        self.brokers[fields["brokerId"]] = fields

    def _remove_broker(self, fields: Fields, _: int | None) -> None:
        self.brokers.pop(fields["brokerId"], None)

    def _fence(self, fields: Fields, _: int | None) -> None:
        self._change_broker(fields["id"], fenced=True)

    def _unfence(self, fields: Fields, _: int | None) -> None:
        self._change_broker(fields["id"], fenced=False)

    def _broker_change(self, fields: Fields, _: int | None) -> None:
        changes: Fields = {}
        if fields["fenced"] in (_CHANGE, _UNDO):
            changes["fenced"] = fields["fenced"] == _CHANGE
        if fields.get("inControlledShutdown") == _CHANGE:
            changes["inControlledShutdown"] = True
        if fields.get("logDirs"):
            changes["logDirs"] = fields["logDirs"]
        if fields.get("cordonedLogDirs") is not None:
            changes["cordonedLogDirs"] = fields["cordonedLogDirs"]
        self._change_broker(fields["brokerId"], **changes)

    def _change_broker(self, broker_id: int, **changes: object) -> None:
        known = self.brokers.get(broker_id)
        if known is not None:
            self.brokers[broker_id] = {**known, **changes}

    def _controller(self, fields: Fields, _: int | None) -> None:
        self.controllers[fields["controllerId"]] = fields

    def _remove_controller(self, fields: Fields, _: int | None) -> None:
        self.controllers.pop(fields["controllerId"], None)

    # Settings, features, quotas

    def _setting(self, fields: Fields, offset: int | None) -> None:
        resource = Resource(fields["resourceType"], fields["resourceName"])
        value = fields["value"]
        if value is not None:
            self.settings.setdefault(resource, {})[fields["name"]] = RecordedSetting(value, offset)
        elif resource in self.settings:
            self.settings[resource].pop(fields["name"], None)
            if not self.settings[resource]:
                del self.settings[resource]

    def _feature(self, fields: Fields, _: int | None) -> None:
        if fields["featureLevel"] == 0:
            self.features.pop(fields["name"], None)
        else:
            self.features[fields["name"]] = fields["featureLevel"]

    def _quota(self, fields: Fields, _: int | None) -> None:
        # As in a broker, an entity has one part of a type: the last.
        entity = tuple(sorted({each["entityType"]: each["entityName"] for each in fields["entity"]}.items()))
        if not fields["remove"]:
            self.quotas.setdefault(entity, {})[fields["key"]] = fields["value"]
        elif entity in self.quotas:
            self.quotas[entity].pop(fields["key"], None)
            if not self.quotas[entity]:
                del self.quotas[entity]

    # Access control

    def _acl(self, fields: Fields, _: int | None) -> None:
        self.acls[fields["id"]] = fields

    def _remove_acl(self, fields: Fields, _: int | None) -> None:
        self.acls.pop(fields["id"], None)

    def _user(self, fields: Fields, offset: int | None) -> None:
        self.users[fields["name"], fields["mechanism"]] = Credential(fields["iterations"], offset)
        if self.keeps_secrets:
            self.secrets[fields["name"], fields["mechanism"]] = fields

    def _remove_user(self, fields: Fields, _: int | None) -> None:
        self.users.pop((fields["name"], fields["mechanism"]), None)
        self.secrets.pop((fields["name"], fields["mechanism"]), None)

    def _token(self, fields: Fields, _: int | None) -> None:
        self.tokens[fields["tokenId"]] = fields

    def _remove_token(self, fields: Fields, _: int | None) -> None:
        self.tokens.pop(fields["tokenId"], None)

    def _producer_ids(self, fields: Fields, _: int | None) -> None:
        self.next_producer_id = fields["nextProducerId"]

    def _nothing(self, _fields: Fields, _offset: int | None) -> None:
        pass

    _APPLIED: ClassVar[Mapping[str, Callable[[ClusterImage, Fields, int | None], None]]] = {
        "TopicRecord": _topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _partition,
        "PartitionChangeRecord": _change_partition,
        "ClearElrRecord": _clear_eligible,
        "RegisterBrokerRecord": _broker,
        "UnregisterBrokerRecord": _remove_broker,
        "FenceBrokerRecord": _fence,
        "UnfenceBrokerRecord": _unfence,
        "BrokerRegistrationChangeRecord": _broker_change,
        "RegisterControllerRecord": _controller,
        "UnregisterControllerRecord": _remove_controller,
        "ConfigRecord": _setting,
        "FeatureLevelRecord": _feature,
        "ClientQuotaRecord": _quota,
        "AccessControlEntryRecord": _acl,
        "RemoveAccessControlEntryRecord": _remove_acl,
        "UserScramCredentialRecord": _user,
        "RemoveUserScramCredentialRecord": _remove_user,
        "DelegationTokenRecord": _token,
        "RemoveDelegationTokenRecord": _remove_token,
        "ProducerIdsRecord": _producer_ids,
        "NoOpRecord": _nothing,
        "ZkMigrationStateRecord": _nothing,
    }
