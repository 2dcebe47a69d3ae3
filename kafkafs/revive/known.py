"""What is known about the cluster of dead brokers: its metadata log, and the settings files of kafkafs and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.revive.disks import AS_THE_BROKER, reason_of
from storage.cluster import BOOTSTRAP_NAME, MetadataLog, read_bootstrap
from storage.config import TOPIC_SETTINGS, StoreConfig, TopicConfig, check_topic_setting
from storage.errors import BuildError, ConfigError, StorageError
from storage.internal import TOPIC_RESOURCE, ClusterImage
from storage.log import FollowedLog
from storage.log_dir import CLUSTER_METADATA, COMPACTED_BY_BROKERS, DirectoryName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from uuid import UUID

    from kafkafs.revive.disks import Disk
    from storage.clock import Clock
    from storage.files import Directory

FROM_METADATA: Final = "the metadata log"
FROM_BOOTSTRAP: Final = BOOTSTRAP_NAME
FROM_SETTINGS_FILE: Final = "kafkafs' settings file"
FROM_BROKERS: Final = "what brokers give it when they make it"
UNKNOWN: Final = "unknown"

INTERNAL_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "__consumer_offsets": {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
    "__transaction_state": {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    },
    "__share_group_state": {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
}
"""The settings that a broker gives its own topics when it makes them, and never later."""


class Known(NamedTuple):
    """A topic's settings, and where they are from; `UNKNOWN` if it may have any."""

    settings: Mapping[str, str]
    origin: str


class Cluster(NamedTuple):
    """The cluster by the newest metadata log on the disks; an empty image without one.

    Where there is none, the cluster is that of a store that was revived and whose broker never ran, by the records that
    it would begin with. `directory` and `origin` are where the image is from. `flaw` says why it may differ from the
    cluster's.
    """

    image: ClusterImage
    directory: Directory | None = None
    flaw: str = ""
    origin: str = FROM_METADATA

    @property
    def is_known(self) -> bool:
        """True if something on the disks says what the cluster had."""
        return self.directory is not None

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic, None if the cluster has none of that name."""
        return self.image.topic_ids.get(topic)


def read_cluster(disks: Sequence[Disk], clock: Clock) -> tuple[Cluster, list[str]]:
    """Return the cluster by the metadata log that goes furthest, and sentences about those that cannot be read.

    Raises `BuildError` for one that the user may not read.
    """
    found: list[Cluster] = []
    flaws: list[str] = []
    for disk in disks:
        if DirectoryName(CLUSTER_METADATA, 0) not in disk.names:
            continue
        directory = disk.directory.at(str(DirectoryName(CLUSTER_METADATA, 0)))
        try:
            found.append(_read(directory, clock))
        except PermissionError as error:
            reason = f"the metadata log cannot be read ({reason_of(error)}): {AS_THE_BROKER}"
            raise BuildError(reason, path=directory) from None
        except (StorageError, OSError) as error:
            flaws.append(f"{directory}: the metadata log cannot be read ({reason_of(error)}), and is passed over")
    if not found:
        found = list(_begun(disks, flaws))
    best = max(found, key=lambda each: (each.image.end_offset, not each.flaw), default=Cluster(ClusterImage()))
    if best.flaw:
        flaws.append(f"{best.directory}: the metadata log ends before damage: {best.flaw}")
    return best, flaws


def _begun(disks: Iterable[Disk], flaws: list[str]) -> Iterator[Cluster]:
    """Yield the clusters that revived stores would begin with; what Kafka's tools write there has no topics."""
    for disk in disks:
        try:
            image = read_bootstrap(disk.directory)
        except (StorageError, OSError) as error:
            path = disk.directory.path_of(BOOTSTRAP_NAME)
            flaws.append(f"{path} cannot be read ({reason_of(error)}), and is passed over")
            continue
        if image is not None and image.topic_ids:
            yield Cluster(image, disk.directory, origin=FROM_BOOTSTRAP)


def _read(directory: Directory, clock: Clock) -> Cluster:
    config = StoreConfig.resolve({})
    followed = FollowedLog(clock, directory, config.topic({}), producer_expiration_ms=config.producer_id_expiration_ms)
    log = MetadataLog(directory, followed, keeps_secrets=True)
    image = log.ask(lambda image: image)
    return Cluster(image, directory, "" if log.damage is None else log.damage.reason)


def known_settings(topic: str, topic_id: UUID | None, cluster: Cluster, disks: Sequence[Disk]) -> Known:
    """Return the settings of a topic as far as anything on the disks says them."""
    from_cluster = cluster.topic_id(topic)
    own = [disk.topics[topic] for disk in disks if topic in disk.topics]
    written = next((each for each in own if topic_id is None or each.topic_id in (None, topic_id)), None)
    if from_cluster is not None and topic_id in (None, from_cluster):
        told = {key: each.value for key, each in cluster.image.settings_of(TOPIC_RESOURCE, topic).items()}
        settings = {**told, **({} if written is None else written.settings)}
        return Known(settings, cluster.origin)
    if written is not None:
        return Known(dict(written.settings), FROM_SETTINGS_FILE)
    if topic in INTERNAL_SETTINGS:
        return Known(INTERNAL_SETTINGS[topic], FROM_BROKERS)
    return Known({}, UNKNOWN)


def is_compacted(topic: str, known: Known) -> bool | None:
    """Return whether the topic is compacted by its settings, None if they are unknown."""
    if topic in COMPACTED_BY_BROKERS:
        return True
    return None if known.origin == UNKNOWN else "compact" in known.settings.get("cleanup.policy", "")


def topic_config(settings: Mapping[str, str]) -> TopicConfig:
    """Return the settings with which the copy of a log is recovered."""
    return TopicConfig.resolve(_allowed(settings), {}, must_agree=False)


def _allowed(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose keys and values Kafka's brokers know."""
    found = {}
    for key, value in settings.items():
        if key in TOPIC_SETTINGS:
            try:
                check_topic_setting(key, value)
            except ConfigError:
                continue
            found[key] = value
    return found
