"""The settings in force for one topic, and the source of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from storage.config.sources import BROKER, DEFAULT, DEFAULTS_4, GONE_IN_4, NEW_IN_4_4, TOPIC, UNKNOWN, Sources
from storage.config.topic_settings import TOPIC_SETTINGS, topic_setting
from storage.errors import ConfigError
from storage.record.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from storage.record.layout import TimestampType

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_NO_KEYS: Final[frozenset[str]] = frozenset()
_ALL_GIVEN: Final = Sources()
_RELEASE_4: Final = (4, 0)
_RELEASE_4_4: Final = (4, 4)
_AS_RETENTION: Final = -2
_UNLIMITED: Final = -1
_TIMESTAMP_LIMIT_KEYS: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_TIMESTAMP_LIMIT_DEFAULT_MS: Final = TOPIC_SETTINGS["message.timestamp.difference.max.ms"].default


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of a topic, each allowed and all of them together; `TOPIC_SETTINGS` says what they mean.

    Made by `resolve`. `origins` says of the settings that were given where that was. `unknown` says of others why they
    may have been given as well; they have their defaults here. `release` is the broker's, as `Sources` has it.
    """

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression: Codec | None  # None keeps the codec that a batch arrives with
    compression_zstd_level: int
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: str
    index_interval_bytes: int
    leader_replication_throttled_replicas: str
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_decompressed_message_bytes: int
    max_message_bytes: int
    message_downconversion_enable: bool
    message_format_version: str
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_difference_max_ms: int
    message_timestamp_type: TimestampType
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_copy_lag_bytes: int
    remote_copy_lag_ms: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    origins: Mapping[str, str] = field(compare=False, repr=False)
    unknown: Mapping[str, str] = field(compare=False, repr=False)
    release: tuple[int, int] = field(compare=False, repr=False)

    @classmethod
    def resolve(
        cls,
        topic: Mapping[str, str] = _NONE,
        broker: Mapping[str, str] = _NONE,
        sources: Sources = _ALL_GIVEN,
        *,
        must_agree: bool = True,
    ) -> Self:
        """Return the settings in force for a topic on a broker; the topic's own come first.

        The broker's may be all that its settings file says: what does not concern topics is passed over. Raises
        `ConfigError` for a topic setting that does not exist, for a value that is not allowed, even where another
        one hides it, and for values that are not allowed together, unless they need not agree: a broker takes new
        values only if they agree with those that the topic has, but goes by what it was given before.
        """
        values, origins = _broker_level(broker, sources)
        unknown = MappingProxyType(_unknown(topic, broker, sources))
        config = cls(**values, origins=MappingProxyType(origins), unknown=unknown, release=sources.release)
        if must_agree:
            config._check_compaction_lags()
        if not topic:
            return config
        for key, text in topic.items():
            setting = topic_setting(key)
            values[setting.attribute] = setting.read(text)
            origins[key] = sources.topic.get(key, TOPIC)
        config = cls(**values, origins=MappingProxyType(origins), unknown=unknown, release=sources.release)
        if must_agree:
            config.check_agreement()
        return config

    def check_agreement(self) -> None:
        """Raise `ConfigError` if the values are not allowed together."""
        self._check_compaction_lags()
        self._check_remote_storage()

    @property
    def keys(self) -> Sequence[str]:
        """The settings that topics have on the broker, ascending; those that kafkafs was told are always among them."""
        absent = (GONE_IN_4 if self.release >= _RELEASE_4 else _NO_KEYS) | (
            NEW_IN_4_4 if self.release < _RELEASE_4_4 else _NO_KEYS
        )
        return sorted(key for key in TOPIC_SETTINGS if key not in absent or self.origins.get(key) == TOPIC)

    def origin(self, key: str) -> str:
        """Return the source of the setting's value, or the reason why the value is unknown."""
        key = topic_setting(key).key
        if key in self.unknown:
            return f"{UNKNOWN}: {self.unknown[key]}"
        return self.origins.get(key, DEFAULT)

    def why_unknown(self, *keys: str) -> str:
        """Return a sentence that names those of the settings that are unknown, and why; empty if none is."""
        missing = [key for key in keys if key in self.unknown]
        return f"{', '.join(missing)} {UNKNOWN}: {self.unknown[missing[0]]}" if missing else ""

    def value(self, key: str) -> str:
        """The value of the setting, as Kafka prints it."""
        setting = topic_setting(key)
        return setting.write(getattr(self, setting.attribute))

    def lines(self) -> Iterator[str]:
        """Every setting as `key=value  # origin`, in the order of their keys; `parse_config_lines` reads them back."""
        for key in self.keys:
            yield f"{key}={UNKNOWN if key in self.unknown else self.value(key)}  # {self.origin(key)}"

    @property
    def compact(self) -> bool:
        """True if the topic is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """True if segments are deleted for their age or the log's size."""
        return "delete" in self.cleanup_policy

    @property
    def segment_age_max_ms(self) -> int:
        """The time after which a new segment is begun; only closed ones are compacted, so that limit counts too."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def timestamp_age_max_ms(self) -> int:
        """By how much a record's timestamp may be earlier than its append, the older setting taken into account."""
        return self._timestamp_limit_ms(self.message_timestamp_before_max_ms)

    @property
    def timestamp_lead_max_ms(self) -> int:
        """By how much a record's timestamp may be later than its append, the older setting taken into account."""
        return self._timestamp_limit_ms(self.message_timestamp_after_max_ms)

    def compression_level(self, codec: Codec) -> int | None:
        """The level at which the topic uses a codec; None for a codec that has no levels."""
        return {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }.get(codec)

    def _timestamp_limit_ms(self, limit_ms: int) -> int:
        # A broker compares values: a topic that states the default itself gets the older setting as well.
        return self.message_timestamp_difference_max_ms if limit_ms == _TIMESTAMP_LIMIT_DEFAULT_MS else limit_ms

    def _check_compaction_lags(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is refused: it must be at most "
                f"max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            )

    def _check_remote_storage(self) -> None:
        if not self.remote_storage_enable:
            return
        if self.compact:
            raise ConfigError("remote.storage.enable=true is refused: the cleanup.policy must be without compact")
        for local_key, key in (("local.retention.bytes", "retention.bytes"), ("local.retention.ms", "retention.ms")):
            local: int = getattr(self, TOPIC_SETTINGS[local_key].attribute)
            total: int = getattr(self, TOPIC_SETTINGS[key].attribute)
            self._check_copy_lag(local_key, total if local == _AS_RETENTION else local)
            if local == _AS_RETENTION:
                continue
            if total > _UNLIMITED and not _UNLIMITED < local <= total:
                raise ConfigError(
                    f"{local_key}={local} is refused: it must be from 0 to {key}, which is {total}, "
                    f"or {_AS_RETENTION} for the same as that"
                )
            if self.remote_log_copy_disable and local != total:
                raise ConfigError(
                    f"{local_key}={local} is refused: with remote.log.copy.disable it must be {key}, which is {total}, "
                    f"or {_AS_RETENTION} for the same as that"
                )

    def _check_copy_lag(self, local_key: str, kept: int) -> None:
        lag_key = local_key.replace("local.retention", "remote.copy.lag")
        lag: int = getattr(self, TOPIC_SETTINGS[lag_key].attribute)
        if kept > _UNLIMITED and lag > kept:
            raise ConfigError(
                f"{lag_key}={lag} is refused: it must be at most what is kept locally, which is {kept} by {local_key}"
            )


def _unknown(topic: Mapping[str, str], broker: Mapping[str, str], sources: Sources) -> dict[str, str]:
    """Return the settings whose values `resolve` cannot know, and why."""
    if not (sources.topic_unknown or sources.broker_unknown or sources.refused):
        return {}
    found: dict[str, str] = {}
    for key, setting in TOPIC_SETTINGS.items():
        keys = setting.broker_keys
        why = sources.unknown(key, is_given_first=bool(keys) and keys[0].key in broker, has_broker_keys=bool(keys))
        if why and key not in topic:
            found[key] = why
    return found


def _broker_level(broker: Mapping[str, str], sources: Sources) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values for a topic without settings, by attribute, and the sources of the broker's own, by key."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, setting in TOPIC_SETTINGS.items():
        given = setting.broker_values(broker)
        default = DEFAULTS_4.get(key, setting.default) if sources.release >= _RELEASE_4 else setting.default
        values[setting.attribute] = given[0] if given else default
        if given:
            first = next(source.key for source in setting.broker_keys if source.key in broker)
            origins[key] = sources.broker.get(first, BROKER)
    retention = TOPIC_SETTINGS["retention.ms"]
    if values[retention.attribute] == 0:
        given_key = next(source.key for source in retention.broker_keys if source.key in broker)
        raise ConfigError(f"{given_key}=0 is refused: it must be at least 1, or negative for no limit")
    # Topics get a broker's older setting as the newer ones, so that their own older setting cannot displace it.
    older = TOPIC_SETTINGS["message.timestamp.difference.max.ms"]
    if older.key in origins:
        for key in _TIMESTAMP_LIMIT_KEYS:
            attribute = TOPIC_SETTINGS[key].attribute
            if values[attribute] == _TIMESTAMP_LIMIT_DEFAULT_MS:
                values[attribute] = values[older.attribute]
                origins[key] = origins[older.key]
    return values, origins
