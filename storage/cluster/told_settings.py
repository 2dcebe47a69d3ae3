"""What the metadata log tells of the settings of a topic, and of the broker that has the topic's partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.internal import metadata_versions
from storage.internal.cluster_image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

SETTING_RECORDS: Final = ("ConfigRecord", "TopicRecord", "RemoveTopicRecord")
"""The types of the records that say which settings a topic or a broker has."""

_FIRST_OF_4: Final = 22  # 4.0-IV0, of which no broker of 3.9 knows


class ToldSettings(NamedTuple):
    """The settings of a topic and of a broker, by their keys.

    `topic_id` is None if the cluster has no topic of that name. What the cluster tells the one broker hides what it
    tells all of them. `release` is the broker's major version, of which 3 stands for every one before 4.
    """

    topic_id: UUID | None
    topic: Mapping[str, Setting]
    broker: Mapping[str, Setting]
    snapshot: str
    release: int

    def origin(self, setting: Setting) -> str:
        """Where the setting is, as `config` prints it."""
        place = f"snapshot {self.snapshot}" if setting.offset is None else f"offset {setting.offset}"
        return f"metadata log, {place}"


def told_settings(image: ClusterImage, topic: str, node_id: int | None) -> ToldSettings:
    """What the cluster tells of the topic, and tells the broker of that id; it shares nothing with the image."""
    found = image.topic(topic)
    own = {} if node_id is None else image.settings_of(BROKER_RESOURCE, str(node_id))
    return ToldSettings(
        topic_id=None if found is None else found.topic_id,
        topic=dict(image.settings_of(TOPIC_RESOURCE, topic)),
        broker={**image.settings_of(BROKER_RESOURCE, ""), **own},
        snapshot=image.snapshot,
        release=_release(image, node_id),
    )


def _release(image: ClusterImage, node_id: int | None) -> int:
    """What the broker registered with tells its release; without that, what the cluster as a whole has agreed on."""
    registration = None if node_id is None else image.brokers.get(node_id)
    features = () if registration is None else registration.get("features", ())
    supported = [each["maxSupportedVersion"] for each in features if each["name"] == metadata_versions.FEATURE]
    level = max(supported, default=image.features.get(metadata_versions.FEATURE, 0))
    return 4 if level >= _FIRST_OF_4 else 3
