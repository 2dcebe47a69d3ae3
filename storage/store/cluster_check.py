"""What the metadata log among some log directories says of the partitions there: which are compacted, which are strays.

A broker that starts goes by what its cluster knows. It puts a partition aside, as a stray, if the cluster has no topic
of that id, or has the partition on other brokers only. Nothing is known where the log is damaged, as a later record may
say something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.clock import Clock
from storage.cluster.metadata_log import MetadataLog
from storage.config import TopicConfig
from storage.errors import StorageError
from storage.ids import format_id
from storage.internal.cluster_image import BROKER_RESOURCE, TOPIC_RESOURCE
from storage.partition.followed_log import FollowedLog
from storage.segment.finding import Finding, FindingKind, notice
from storage.store.directory_names import DirectoryName
from storage.store.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path
    from uuid import UUID

    from storage.files import Files
    from storage.internal.cluster_image import ClusterImage
    from storage.store.log_dir_check import LogDirCheck, PartitionPlace

_NAME: Final = str(DirectoryName(CLUSTER_METADATA, 0))
_POLICY: Final = "cleanup.policy"
_BROKER_POLICY: Final = "log.cleanup.policy"
_COMPACT: Final = "compact"
_SET_ASIDE: Final = "a broker renames its directory to -stray and serves it no more"


class _Known(NamedTuple):
    """What one question to the log gave."""

    topics: dict[UUID, tuple[str, dict[int, Collection[int]]]]
    policies: dict[str, str]
    default_policy: str | None
    end_offset: int


class ClusterCheck:
    """The metadata log of some log directories, if one of them has it."""

    def __init__(self, files: Files, log_dirs: Iterable[LogDirCheck]) -> None:
        self._files = files
        self._log: MetadataLog | None = None
        self._nodes = {str(each.path): each.properties.node_id for each in log_dirs if each.properties is not None}
        for log_dir in log_dirs:
            if any(str(name) == _NAME for name in log_dir.listing.partitions):
                self._log = self._followed(log_dir.path / _NAME)
                break

    def _followed(self, directory: Path) -> MetadataLog:
        log = FollowedLog(self._files, Clock(), directory, TopicConfig.resolve(), producer_expiration_ms=0)
        return MetadataLog(self._files, directory, log)

    def compacted(self, topics: Collection[str], server_properties: Mapping[str, str]) -> frozenset[str]:
        """Those of some topics that the cluster has compacted; server.properties holds where it says nothing of one."""
        known = self._known()
        default = _COMPACT in server_properties.get(_BROKER_POLICY, "")
        if known is None:
            return frozenset(topics) if default else frozenset()
        policies = ((topic, known.policies.get(topic, known.default_policy)) for topic in topics)
        return frozenset(topic for topic, policy in policies if (default if policy is None else _COMPACT in policy))

    def strays(self, topic_ids: Iterable[tuple[PartitionPlace, UUID]]) -> Iterator[Finding]:
        """A notice for each partition that a broker would put aside at its start.

        The log is read again for it, and a directory that is gone by now is passed over: a broker may be running.
        """
        known = self._known()
        if known is None:
            return
        for place, topic_id in topic_ids:
            if place.partition[0] == CLUSTER_METADATA:
                continue
            why = _why_stray(known, place, topic_id, self._nodes.get(place.log_dir))
            if why and self._files.status(f"{place.log_dir}/{place.name}") is not None:
                where = f"the metadata log, which ends at offset {known.end_offset}"
                yield place.located(notice(FindingKind.STRAY, "", f"{why}, as {where}, says: {_SET_ASIDE}"))

    def _known(self) -> _Known | None:
        if self._log is None:
            return None
        try:
            known = self._log.ask(_asked)
        except (StorageError, OSError):
            return None  # which is a finding of its own
        return known if self._log.damage is None else None


def _asked(image: ClusterImage) -> _Known:
    default = image.settings_of(BROKER_RESOURCE, "").get(_BROKER_POLICY)
    policies = {}
    topics: dict[UUID, tuple[str, dict[int, Collection[int]]]] = {}
    for topic_id, topic in image.topics.items():
        topics[topic_id] = topic.name, {number: tuple(each["replicas"]) for number, each in topic.partitions.items()}
        policy = image.settings_of(TOPIC_RESOURCE, topic.name).get(_POLICY)
        if policy is not None:
            policies[topic.name] = policy.value
    return _Known(topics, policies, None if default is None else default.value, image.end_offset)


def _why_stray(known: _Known, place: PartitionPlace, topic_id: UUID, node_id: int | None) -> str:
    """Why a broker takes the partition for a stray; empty if it does not."""
    name, number = place.partition
    found = known.topics.get(topic_id)
    if found is None:
        return f"the cluster has no topic of the id {format_id(topic_id)}"
    if found[0] != name:
        return f"the id {format_id(topic_id)} is that of the cluster's topic {found[0]}"
    replicas = found[1].get(number)
    if replicas is None:
        return f"the cluster's topic {name} has no partition {number}"
    if node_id is None or node_id in replicas:
        return ""
    brokers = f"broker{'s' if len(replicas) > 1 else ''} {', '.join(map(str, replicas))}"
    return f"the cluster has the partition on {brokers} and not on {node_id}"
