"""A store compared with the metadata log of its cluster: compacted topics, strays, topic ids, log directories' ids.

A broker that starts renames a partition to `-stray` if the partition has no topic id, if the cluster has no topic of
that id, or if it has the partition on other brokers only. The name of the directory does not count. A metadata log that
is damaged, or has records of a newer version, says nothing: such a record may change any of that.

A topic that is deleted and created again has another id. Where no metadata log is known, the partitions of a topic
have to agree about its id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.clock import Clock
from storage.cluster.metadata_log import SETTING_RECORDS, MetadataLog
from storage.config import TopicConfig
from storage.errors import StorageError
from storage.ids import format_id
from storage.internal.cluster_image import BROKER_RESOURCE, TOPIC_RESOURCE
from storage.log.followed_log import FollowedLog
from storage.log.partition_metadata import PARTITION_METADATA_NAME
from storage.log_dir.meta_properties import KRAFT_VERSION, META_PROPERTIES_NAME
from storage.log_dir.names import CLUSTER_METADATA, DirectoryName, DirectoryState
from storage.topics.bare_log_dirs import PLACING_RECORDS, Surroundings, described
from storage.verify.at_start import NOT_SERVED, not_served, registered_again
from storage.verify.finding import Finding, FindingKind, damage, notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from storage.files import Directory
    from storage.internal.cluster_image import ClusterImage
    from storage.log_dir.checkpoints import Partition
    from storage.log_dir.settings_file import SettingsFileContents
    from storage.verify.log_dir_check import LogDirCheck, PartitionTarget

_NAME: Final = str(DirectoryName(CLUSTER_METADATA, 0))
_POLICY: Final = "cleanup.policy"
_BROKER_POLICY: Final = "log.cleanup.policy"
_COMPACT: Final = "compact"
_SET_ASIDE: Final = "a broker renames its directory to -stray and serves it no more"
_REGISTERING: Final = ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")
_RECORDS: Final = (*SETTING_RECORDS, *PLACING_RECORDS)


class _ClusterTopics(NamedTuple):
    """One answer of the metadata log: topics by id, with the brokers of each partition, and cleanup policies.

    `log_dir_ids` are those that the broker registered with last; empty if the log does not say.
    """

    log_dir_ids: Collection[UUID]
    topics: dict[UUID, tuple[str, dict[int, Collection[int]]]]
    policies: dict[str, str]
    default_policy: str | None
    end_offset: int

    def why_stray(self, target: PartitionTarget, topic_id: UUID | None, node_id: int | None) -> str:
        """Return the reason why a broker takes the partition for a stray; empty if it does not."""
        if topic_id is None:
            return "it has no partition.metadata, and so no topic id"
        name, replicas_of = self.topics.get(topic_id, (None, {}))
        if name is None:
            return f"the cluster has no topic of the id {format_id(topic_id)}"
        number = target.partition[1]
        if number not in replicas_of:
            return f"the cluster's topic {name!r} has no partition {number}"
        replicas = replicas_of[number]
        if node_id is None or node_id in replicas:
            return ""
        brokers = f"broker{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))}"
        return f"the cluster has the partition on {brokers} and not on {node_id}"

    def why_not_served(self, target: PartitionTarget, topic_id: UUID) -> str:
        """Return the reason why a broker serves a partition that is no stray to no client; empty if it does."""
        name, _ = self.topics[topic_id]
        return "" if name == target.partition[0] else f"its id {format_id(topic_id)} is that of the topic {name!r}"


class ClusterCheck:
    """The metadata log of a store, if one of its log directories has it."""

    def __init__(self, log_dirs: Collection[LogDirCheck]) -> None:
        self._log: MetadataLog | None = None
        self._log_dirs = log_dirs
        self._properties = [each.properties for each in log_dirs if each.properties is not None]
        self._partitions = {(name.topic, name.partition) for each in log_dirs for name in each.listing.partitions}
        self._node_id = next((each.node_id for each in self._properties), None)
        self._has_topic_ids = any(each.version == KRAFT_VERSION for each in self._properties)
        for log_dir in log_dirs:
            if any(str(name) == _NAME for name in log_dir.listing.partitions):
                self._log = self._followed(log_dir.directory.at(_NAME))
                break

    def _followed(self, directory: Directory) -> MetadataLog:
        log = FollowedLog(Clock(), directory, TopicConfig.resolve(), producer_expiration_ms=0)
        return MetadataLog(directory, log)

    def compacted(self, topics: Collection[str], server_properties: Mapping[str, str]) -> frozenset[str]:
        """Return those of the topics that the cluster compacts; where it says nothing, server.properties does."""
        known = self._known()
        default = _COMPACT in server_properties.get(_BROKER_POLICY, "")
        if known is None:
            return frozenset(topics) if default else frozenset()
        policies = ((topic, known.policies.get(topic, known.default_policy)) for topic in topics)
        return frozenset(topic for topic, policy in policies if (default if policy is None else _COMPACT in policy))

    def bare_log_dirs(self, bare: Collection[Directory], settings: SettingsFileContents) -> Iterator[Finding]:
        """Yield a finding for each bare log directory: damage if partitions are missing, or a notice."""
        around = Surroundings(self._properties, settings, self._log, self._partitions)
        for each in described(bare, around):
            finding = (damage if each.is_damage else notice)(FindingKind.BARE_LOG_DIR, "", each.reason)
            yield finding.within("", log_dir=each.directory.path)

    def unregistered(self) -> Iterator[Finding]:
        """Yield a notice for each log directory whose id is not among those that its broker registered with.

        A broker registers the directories of its partitions, so one with nothing but the metadata log is passed over.
        """
        known = self._known()
        if known is None or not known.log_dir_ids:
            return
        for each in self._log_dirs:
            if each.properties is None or all(str(name) == _NAME for name in each.listing.partitions):
                continue
            directory_id = each.properties.directory_id
            if directory_id not in known.log_dir_ids:
                if directory_id is None:
                    reason = f"it has no directory.id, and broker {self._node_id} registered with one"
                else:
                    reason = f"broker {self._node_id} registered no log directory of the id {format_id(directory_id)}"
                finding = notice(FindingKind.META_PROPERTIES, META_PROPERTIES_NAME, f"{reason}, {_as_said(known)}")
                yield registered_again(finding.within("", log_dir=each.directory.path))

    def topic_ids(self) -> Mapping[str, UUID] | None:
        """Return the ids of the cluster's topics by their names; None if they are not known."""
        known = self._known()
        return None if known is None else {name: topic_id for topic_id, (name, _) in known.topics.items()}

    def strays(self, topic_ids: Iterable[tuple[PartitionTarget, UUID | None]]) -> Iterator[Finding]:
        """Yield a notice for each partition that a broker renames to `-stray` when it starts.

        One that has the id of another topic is damage: no broker leaves it, and none serves it to a client.
        The metadata log is read again, and a directory that is gone by now has no notice: a broker may be running.
        """
        known = self._known()
        if known is None:
            return
        where = _as_said(known)
        for target, topic_id in topic_ids:
            if target.partition[0] == CLUSTER_METADATA or not self._is_there(target, topic_id):
                continue
            why = known.why_stray(target, topic_id, self._node_id)
            if why:
                yield target.located(notice(FindingKind.STRAY, "", f"{why}, {where}: {_SET_ASIDE}"))
            elif topic_id is not None and (why := known.why_not_served(target, topic_id)):
                finding = damage(FindingKind.STRAY, "", f"{why}, {where}: {NOT_SERVED}")
                yield target.located(not_served(finding))

    def duplicate_copies(self, copies: Iterable[tuple[PartitionTarget, UUID | None]]) -> Iterator[Finding]:
        """Yield damage for each further copy of a partition on its way to another log directory.

        A broker keeps one such copy of a partition. It first renames strays, so a copy that is one does not count.
        """
        known = self._known()
        first: dict[Partition, PartitionTarget] = {}
        for target, topic_id in sorted(copies, key=_order):
            if known is None:
                is_stray = self._has_topic_ids and topic_id is None
            else:
                is_stray = known.why_stray(target, topic_id, self._node_id) != ""
            if is_stray or not self._is_there(target, topic_id):
                continue
            other = first.setdefault(target.partition, target)
            if other is not target:
                reason = f"{other.log_dir}/{other.name} is a copy of the same partition; no broker starts with both"
                yield target.located(damage(FindingKind.DUPLICATE_COPY, "", reason))

    def _is_there(self, target: PartitionTarget, topic_id: UUID | None) -> bool:
        """Return True if the partition is there, and still without an id if it had none."""
        try:
            names = target.log_dir.at(target.name).names()
        except OSError:
            return False  # gone, or a finding of its own
        return topic_id is not None or PARTITION_METADATA_NAME not in names

    def _known(self) -> _ClusterTopics | None:
        if self._log is None:
            return None
        try:
            known = self._log.ask(self._asked)
        except (StorageError, OSError):
            return None  # which is a finding of its own
        return known if self._log.damage is None else None

    def _asked(self, image: ClusterImage) -> _ClusterTopics | None:
        if image.why_unknown(*_RECORDS):
            return None
        brokers = (image.settings_of(BROKER_RESOURCE, name) for name in (str(self._node_id), ""))
        default = next((settings[_BROKER_POLICY].value for settings in brokers if _BROKER_POLICY in settings), None)
        policies = {}
        topics: dict[UUID, tuple[str, dict[int, Collection[int]]]] = {}
        for topic_id, topic in image.topics.items():
            replicas: dict[int, Collection[int]] = {
                number: tuple(each["replicas"]) for number, each in topic.partitions.items()
            }
            topics[topic_id] = topic.name, replicas
            policy = image.settings_of(TOPIC_RESOURCE, topic.name).get(_POLICY)
            if policy is not None:
                policies[topic.name] = policy.value
        registration = image.brokers.get(self._node_id, {}) if self._node_id is not None else {}
        log_dir_ids = () if image.why_unknown(*_REGISTERING) else registration.get("logDirs") or ()
        return _ClusterTopics(log_dir_ids, topics, policies, default, image.end_offset)


def _as_said(known: _ClusterTopics) -> str:
    return f"as the metadata log, which ends at offset {known.end_offset}, says"


def other_topics(
    topic_ids: Iterable[tuple[PartitionTarget, UUID]], rightful: Mapping[str, UUID] | None
) -> Iterator[Finding]:
    """Yield a finding for each partition whose topic id is not that of most partitions of the topic.

    If no id is the most frequent one, all are reported, as any may be the wrong one. `rightful` are the cluster's own
    ids if they are known. A partition with another id is then left to `ClusterCheck`, which reports strays; only a copy
    from another log directory has to be of the same topic.
    """
    by_topic: defaultdict[str, list[tuple[PartitionTarget, UUID]]] = defaultdict(list)
    for target, topic_id in topic_ids:
        by_topic[target.partition[0]].append((target, topic_id))
    for topic, found in by_topic.items():
        if rightful is None:
            yield from _disagreements(topic, found)
        elif topic in rightful:
            copies = [each for each in found if each[0].state is not DirectoryState.CURRENT]
            for target, topic_id in copies:
                if topic_id != rightful[topic]:
                    yield _of_another_topic(target, topic_id, f"the cluster's {topic} has", rightful[topic])


def _disagreements(topic: str, found: Sequence[tuple[PartitionTarget, UUID]]) -> Iterator[Finding]:
    (usual, most), *others = Counter(topic_id for _, topic_id in found).most_common()
    if not others:
        return
    is_tie = others[0][1] == most
    for target, topic_id in sorted(found, key=_order):
        if is_tie:
            reason = f"the partitions of {topic} disagree about its id: this one has {format_id(topic_id)}"
            yield target.located(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
        elif topic_id != usual:
            yield _of_another_topic(target, topic_id, f"the other partitions of {topic} have", usual)


def _order(each: tuple[PartitionTarget, UUID | None]) -> tuple[Partition, str, str]:
    target, _ = each
    return target.partition, target.log_dir.path, target.name


def _of_another_topic(target: PartitionTarget, topic_id: UUID, others: str, usual: UUID) -> Finding:
    ids = f"its id is {format_id(topic_id)}, and {others} {format_id(usual)}"
    reason = f"the partition is of another topic: {ids}"
    return target.located(damage(FindingKind.PARTITION_METADATA, PARTITION_METADATA_NAME, reason))
