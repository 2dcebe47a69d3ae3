"""The settings that hold for topics: from kafkafs's own file, the metadata log and the broker's server.properties.

A setting in kafkafs' own file comes first, since a user gave it to kafkafs by name. What the cluster tells of the topic
follows, then what it tells the broker, then server.properties, then Kafka's default. A value is unknown where one of
these may have it and cannot be read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from storage.config import BROKER_SETTINGS, TOPIC_SETTINGS, Sources, StoreConfig, TopicConfig, check_topic_setting
from storage.errors import ConfigError, CorruptMetadataError, StorageError
from storage.log_dir.names import CLUSTER_METADATA
from storage.log_dir.settings_file import SETTINGS_NAME, KnownTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from storage.cluster.metadata_log import ToldSettings
    from storage.internal.cluster_image import RecordedSetting
    from storage.log_dir.settings_file import SettingsFile
    from storage.topics.cluster_metadata import ClusterMetadata

_CAN_SET_IT: Final = "(kafkafs topics config can set it)"
_NOT_IN_CLUSTER: Final = f"the metadata log has no topic of this id {_CAN_SET_IT}"
_NO_ID: Final = "the topic's id cannot be read: "
_METADATA_LOG: Final = "the broker has settings of its own for this log, metadata.log.* in its server.properties"
_REFUSED: Final = "the metadata log gives the topic a value that kafkafs does not know"
_REFUSED_OF_BROKER: Final = "the metadata log gives the broker a value that kafkafs does not know"
_NODE_ID_KEYS: Final = ("node.id", "broker.id")
UNREADABLE: Final = "the metadata log cannot be read: "
"""The beginning of the reason for settings that are unknown because of the metadata log."""
MAY_SET_IT: Final = "may set it (--server-properties FILE, -o server_properties=FILE)"
"""The end of the reason for settings that are unknown without the broker's file."""
NO_SERVER_PROPERTIES: Final = f"server.properties {MAY_SET_IT}"
"""The reasons why settings of the topic or the broker are unknown."""


class _Resolved(NamedTuple):
    """The settings of a topic, with everything that they were resolved from."""

    entry: KnownTopic | None
    told: ToldSettings | str
    topic_id: UUID | None
    looks: int
    config: TopicConfig


class EffectiveSettings:
    """The settings of each topic; `topic_id` returns the id of its partitions here. Any thread may ask."""

    def __init__(
        self,
        config: StoreConfig,
        settings_file: SettingsFile,
        cluster: ClusterMetadata,
        topic_id: Callable[[str], UUID | None],
    ) -> None:
        self._config = config
        self._settings_file = settings_file
        self._cluster = cluster
        self._topic_id = topic_id
        self._looks = 0  # how often `look` was called
        self._resolved: dict[str, _Resolved] = {}
        self._for_store: tuple[Mapping[str, str], StoreConfig] | None = None
        self._for_none: tuple[tuple[Mapping[str, str], Sources], TopicConfig] | None = None
        self._of_broker: tuple[Mapping[str, RecordedSetting], _BrokerSettings] | None = None

    def look(self) -> None:
        """Read the ids of topics again when they are asked for next: they may be others of the same name."""
        self._looks += 1

    def config(self, topic: str) -> TopicConfig:
        """Return the topic's settings, which are unknown if its id cannot be read.

        Raises `ConfigError` if its settings on disk are not allowed.
        """
        entry = self._settings_file.current.topics.get(topic)
        told = self._told(topic)
        looks, resolved = self._looks, self._resolved.get(topic)
        if resolved is not None and resolved.looks == looks and (resolved.entry, resolved.told) == (entry, told):
            return resolved.config
        try:
            topic_id = self._topic_id(topic)
        except (CorruptMetadataError, OSError) as error:
            return self._config_with(topic, KnownTopic(None), f"{_NO_ID}{_reason(error)}")
        is_same = resolved is not None and (resolved.entry, resolved.told, resolved.topic_id) == (entry, told, topic_id)
        config = resolved.config if resolved and is_same else self._config_with(topic, self.written(topic), told)
        self._resolved[topic] = _Resolved(entry, told, topic_id, looks, config)
        return config

    def config_with(self, topic: str, written: KnownTopic) -> TopicConfig:
        """Return the topic's settings if this were written about it.

        Raises `ConfigError` as `config` does, and for values that are not allowed together, which brokers refuse too.
        """
        config = self._config_with(topic, written, self._told(topic))
        config.check_agreement()
        return config

    def store_config(self, topic: str) -> StoreConfig:
        """Return the store's settings for opening a log of the topic: what the cluster tells comes first.

        Settings that kafkafs does not know, or would refuse, are passed over.
        """
        told = self._told(topic)
        given = {} if isinstance(told, str) else {key: each.value for key, each in told.broker.items()}
        dynamic = {key: value for key, value in given.items() if key in BROKER_SETTINGS}
        if not dynamic:
            return self._config
        if self._for_store is None or self._for_store[0] != dynamic:
            try:
                config = StoreConfig.resolve({**self._config.broker, **dynamic})
            except ConfigError:
                config = self._config
            self._for_store = dynamic, config
        return self._for_store[1]

    def written(self, topic: str) -> KnownTopic:
        """Return what kafkafs's own file says about the topic; nothing if it may be about another of the same name."""
        entry = self._settings_file.current.topics.get(topic)
        if entry is None:
            return KnownTopic(None)
        try:
            topic_id = self._topic_id(topic)
        except (CorruptMetadataError, OSError):
            return KnownTopic(None)
        return entry if entry.topic_id == topic_id else KnownTopic(topic_id)

    def known(self, topic: str) -> KnownTopic:
        """The settings of the topic itself, those that the cluster tells included."""
        written, told = self.written(topic), self._told(topic)
        topic_id = self._topic_id(topic)
        if isinstance(told, str) or told.topic_id != topic_id or written.is_made_here:
            return replace(written, topic_id=topic_id)
        settings = {key: setting.value for key, setting in _allowed(told.topic).items()}
        return KnownTopic(topic_id, settings=MappingProxyType({**settings, **written.settings}))

    def is_told(self, topic: str, key: str, value: str) -> bool:
        """True if the cluster gives the topic this value, so that it need not be written."""
        told = self._told(topic)
        if isinstance(told, str) or key not in told.topic or told.topic_id != self._topic_id(topic):
            return False
        return told.topic[key].value == value

    def _told(self, topic: str) -> ToldSettings | str:
        """Return the cluster's settings of the topic and the broker, or why they are unknown."""
        if topic == CLUSTER_METADATA:
            return _METADATA_LOG
        try:
            told = self._cluster.settings(topic)
        except (StorageError, OSError) as error:
            return f"{UNREADABLE}{_reason(error)}"
        return f"{self._cluster.why_none} {_CAN_SET_IT}" if told is None else told

    def _config_with(self, topic: str, written: KnownTopic, told: ToldSettings | str) -> TopicConfig:
        try:
            if isinstance(told, str):
                why = "" if written.is_complete else told
                return self._resolve(written.settings, self._config.broker, Sources(topic_unknown=why))
            is_the_topic = told.topic_id is not None and told.topic_id == self._topic_id(topic)
            from_cluster = _allowed(told.topic) if is_the_topic else {}
            of_broker = self._broker_settings(told)
            from_file, broker_unknown = self._server_properties()
            refused = {key: _REFUSED for key in told.topic if key in TOPIC_SETTINGS and key not in from_cluster}
            sources = Sources(
                topic={key: told.origin(each) for key, each in from_cluster.items() if key not in written.settings},
                broker={key: f"broker, {told.origin(each)}" for key, each in of_broker.allowed.items()},
                refused={**dict.fromkeys(of_broker.refused, _REFUSED_OF_BROKER), **refused},
                topic_unknown="" if is_the_topic or written.is_complete else _NOT_IN_CLUSTER,
                broker_unknown="" if written.is_complete else broker_unknown,
                release=told.release,
            )
            settings = {**{key: each.value for key, each in from_cluster.items()}, **written.settings}
            broker = {**from_file, **{key: each.value for key, each in of_broker.allowed.items()}}
            return self._resolve(settings, broker, sources)
        except ConfigError as error:
            path = self._settings_file.directory.path_of(SETTINGS_NAME)
            raise ConfigError(f"in the settings of {topic}, {error.reason}", path=path) from None

    def _server_properties(self) -> tuple[Mapping[str, str], str]:
        """Return the broker's file, and why it is unknown: it may not be given, or be that of another broker."""
        given, node_id = self._config.broker, self._cluster.node_id
        named = next((given[key].strip() for key in _NODE_ID_KEYS if key in given), None)
        if named is not None and node_id is not None and named != str(node_id):
            return {}, f"the server.properties given is of another broker than {node_id}; this broker's {MAY_SET_IT}"
        return given, "" if given else NO_SERVER_PROPERTIES

    def _broker_settings(self, told: ToldSettings) -> _BrokerSettings:
        if self._of_broker is None or self._of_broker[0] != told.broker:
            self._of_broker = told.broker, _BrokerSettings.of(told.broker)
        return self._of_broker[1]

    def _resolve(self, topic: Mapping[str, str], broker: Mapping[str, str], sources: Sources) -> TopicConfig:
        """Resolve settings. The result is shared by all topics without settings of their own."""
        if topic:
            return TopicConfig.resolve(topic, broker, sources, must_agree=False)
        given = (broker, sources)
        if self._for_none is None or self._for_none[0] != given:
            self._for_none = given, TopicConfig.resolve(topic, broker, sources, must_agree=False)
        return self._for_none[1]


class _BrokerSettings(NamedTuple):
    """The settings that the cluster tells a broker, and the topic settings whose value kafkafs does not know."""

    allowed: Mapping[str, RecordedSetting]
    refused: frozenset[str]

    @classmethod
    def of(cls, settings: Mapping[str, RecordedSetting]) -> Self:
        refused: dict[str, str] = {}  # keys of topics by those of brokers
        for key, setting in TOPIC_SETTINGS.items():
            for source in setting.broker_keys:
                if source.key in settings and not _is_allowed(source.key, settings[source.key].value):
                    refused[source.key] = key
        allowed = {key: each for key, each in settings.items() if key not in refused}
        return cls(allowed, frozenset(refused.values()))


def _is_allowed(broker_key: str, value: str) -> bool:
    try:
        TopicConfig.resolve(broker={broker_key: value}, must_agree=False)
    except ConfigError:
        return False
    return True


def _reason(error: StorageError | OSError) -> str:
    """Say what went wrong and in which file, without the store's path, which may contain anything."""
    if isinstance(error, OSError):
        reason, path = error.strerror or type(error).__name__, error.filename
    else:
        reason, path = error.reason, error.path
    return f"{reason} ({Path(path).name})" if path else reason


def _allowed(settings: Mapping[str, RecordedSetting]) -> dict[str, RecordedSetting]:
    """The settings that kafkafs knows; a newer broker may have others, and other values."""
    found = {}
    for key, setting in settings.items():
        if key in TOPIC_SETTINGS:
            try:
                check_topic_setting(key, setting.value)
            except ConfigError:
                continue
            found[key] = setting
    return found
