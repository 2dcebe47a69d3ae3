"""The settings that a topic has, each with the broker's settings that hold where the topic says nothing."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from storage.config.broker_settings import BROKER_SETTINGS
from storage.config.kinds import INT_MAX, LONG_MAX, LONG_MIN, Boolean, Integer, NameSet, Real, RetentionLimit
from storage.config.setting import BrokerKey, Setting
from storage.config.vocabulary import COMPRESSION_TYPES, FORMAT_VERSIONS, REPLICAS, TIMESTAMP_TYPES
from storage.errors import ConfigError
from storage.record.compression import Codec, level_range
from storage.record.layout import TimestampType

if TYPE_CHECKING:
    from collections.abc import Mapping

_MINUTE_MS: Final = 60 * 1000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

_BYTES: Final = Integer(0, INT_MAX)
_MS: Final = Integer(0)
_DECOMPRESSED_MAX: Final = 2**31 - 9  # the JVM's longest array
_GZIP_LEVELS: Final = level_range(Codec.GZIP)
_LZ4_LEVELS: Final = level_range(Codec.LZ4)
_ZSTD_LEVELS: Final = level_range(Codec.ZSTD)

_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    Setting(
        "cleanup.policy",
        NameSet(("compact", "delete")),
        frozenset({"delete"}),
        "whether old segments are deleted, compacted to each key's last record, or both; if nothing, all is kept",
        (BrokerKey("log.cleanup.policy"),),
    ),
    Setting(
        "compression.gzip.level",
        Integer(_GZIP_LEVELS[0], _GZIP_LEVELS[-1], also=-1),
        -1,
        "the level for gzip, -1 for the codec's own default",
        (BrokerKey("compression.gzip.level"),),
    ),
    Setting(
        "compression.lz4.level",
        Integer(_LZ4_LEVELS[0], _LZ4_LEVELS[-1]),
        9,
        "the level for lz4",
        (BrokerKey("compression.lz4.level"),),
    ),
    Setting(
        "compression.type",
        COMPRESSION_TYPES,
        None,
        "the codec of stored batches; `producer` keeps the one that a batch arrives with",
        (BrokerKey("compression.type"),),
        renamed="compression",
    ),
    Setting(
        "compression.zstd.level",
        Integer(_ZSTD_LEVELS[0], _ZSTD_LEVELS[-1]),
        3,
        "the level for zstd",
        (BrokerKey("compression.zstd.level"),),
    ),
    Setting(
        "delete.retention.ms",
        _MS,
        _DAY_MS,
        "how long compaction keeps tombstones and transaction markers after a first pass over them",
        (BrokerKey("log.cleaner.delete.retention.ms"),),
    ),
    Setting(
        "errors.deadletterqueue.group.enable",
        Boolean(),
        False,
        "whether share groups may write records here that they could not deliver; without meaning in a store",
        since_4="4.4: new",
    ),
    Setting(
        "file.delete.delay.ms",
        _MS,
        _MINUTE_MS,
        "how long a file stays, renamed, before it is removed",
        (BrokerKey("log.segment.delete.delay.ms"),),
    ),
    Setting(
        "flush.messages",
        Integer(1),
        LONG_MAX,
        "after how many records the log is flushed to disk",
        (BrokerKey("log.flush.interval.messages"),),
    ),
    Setting(
        "flush.ms",
        _MS,
        LONG_MAX,
        "after how long the log is flushed to disk",
        (BrokerKey("log.flush.interval.ms"), BrokerKey("log.flush.scheduler.interval.ms")),
    ),
    Setting(
        "follower.replication.throttled.replicas",
        REPLICAS,
        "",
        "which replicas a broker limits in speed as a follower; without meaning in a store",
    ),
    Setting(
        "index.interval.bytes",
        _BYTES,
        4096,
        "after how many bytes of log the indexes get an entry",
        (BrokerKey("log.index.interval.bytes"),),
    ),
    Setting(
        "leader.replication.throttled.replicas",
        REPLICAS,
        "",
        "which replicas a broker limits in speed as a leader; without meaning in a store",
    ),
    Setting(
        "local.retention.bytes",
        Integer(-2),
        -2,
        "`retention.bytes` for what is kept locally of a log in remote storage; -2 means the same as that",
        (BrokerKey("log.local.retention.bytes"),),
    ),
    Setting(
        "local.retention.ms",
        Integer(-2),
        -2,
        "`retention.ms` for what is kept locally of a log in remote storage; -2 means the same as that",
        (BrokerKey("log.local.retention.ms"),),
    ),
    Setting(
        "max.compaction.lag.ms",
        Integer(1),
        LONG_MAX,
        "how long a record may stay uncompacted",
        (BrokerKey("log.cleaner.max.compaction.lag.ms"),),
    ),
    Setting(
        "max.decompressed.message.bytes",
        Integer(1, _DECOMPRESSED_MAX),
        _DECOMPRESSED_MAX,
        "the largest record, decompressed, that a broker takes or compacts; without meaning in a store",
        (BrokerKey("max.decompressed.message.bytes"),),
        since_4="4.4: new",
    ),
    Setting(
        "max.message.bytes",
        _BYTES,
        1024 * 1024 + 12,
        "the largest batch that is appended",
        (BrokerKey("message.max.bytes"),),
    ),
    Setting(
        "message.downconversion.enable",
        Boolean(),
        True,
        "whether a broker rewrites batches for consumers that know only older formats",
        (BrokerKey("log.message.downconversion.enable"),),
        since_4="4.0: gone",
    ),
    Setting(
        "message.format.version",
        FORMAT_VERSIONS,
        "3.0-IV1",
        "the record format of brokers before 3.0; without effect since",
        (BrokerKey("log.message.format.version"),),
        since_4="4.0: gone",
    ),
    Setting(
        "message.timestamp.after.max.ms",
        _MS,
        LONG_MAX,
        "by how much a record's timestamp may be later than its append",
        (BrokerKey("log.message.timestamp.after.max.ms"),),
        since_4="4.0: the default is 3600000",
    ),
    Setting(
        "message.timestamp.before.max.ms",
        _MS,
        LONG_MAX,
        "by how much a record's timestamp may be earlier than its append",
        (BrokerKey("log.message.timestamp.before.max.ms"),),
    ),
    Setting(
        "message.timestamp.difference.max.ms",
        _MS,
        LONG_MAX,
        "the older form of both message.timestamp limits, for the one that has its default",
        (BrokerKey("log.message.timestamp.difference.max.ms"),),
        since_4="4.0: gone",
    ),
    Setting(
        "message.timestamp.type",
        TIMESTAMP_TYPES,
        TimestampType.CREATE_TIME,
        "whether records keep their producer's timestamp or get the time of their append",
        (BrokerKey("log.message.timestamp.type"),),
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        Real(0, 1),
        0.5,
        "how much of a log must be uncompacted for it to be compacted",
        (BrokerKey("log.cleaner.min.cleanable.ratio"),),
    ),
    Setting(
        "min.compaction.lag.ms",
        _MS,
        0,
        "how long a record stays uncompacted at least",
        (BrokerKey("log.cleaner.min.compaction.lag.ms"),),
    ),
    Setting(
        "min.insync.replicas",
        Integer(1, INT_MAX),
        1,
        "how many replicas must have a batch that a producer wants on all; without meaning in a store",
        (BrokerKey("min.insync.replicas"),),
    ),
    Setting(
        "preallocate",
        Boolean(),
        False,
        "whether a new segment's file gets its full size at once",
        (BrokerKey("log.preallocate"),),
    ),
    Setting(
        "remote.copy.lag.bytes",
        Integer(-1),
        -1,
        "how much newer log lets a closed segment be copied to remote storage; -1 means `local.retention.bytes`",
        (BrokerKey("log.remote.copy.lag.bytes"),),
        since_4="4.4: new",
    ),
    Setting(
        "remote.copy.lag.ms",
        Integer(-1),
        0,
        "how old a closed segment is when it may be copied to remote storage; -1 means `local.retention.ms`",
        (BrokerKey("log.remote.copy.lag.ms"),),
        since_4="4.4: new",
    ),
    Setting("remote.log.copy.disable", Boolean(), False, "whether a log in remote storage is no longer copied there"),
    Setting(
        "remote.log.delete.on.disable",
        Boolean(),
        False,
        "whether a log's remote part is deleted when its remote storage is switched off",
    ),
    Setting("remote.storage.enable", Boolean(), False, "whether a broker copies closed segments to remote storage"),
    Setting(
        "retention.bytes",
        Integer(LONG_MIN),
        -1,
        "how much of each partition is kept; negative is without limit",
        (BrokerKey("log.retention.bytes"),),
    ),
    Setting(
        "retention.ms",
        Integer(-1),
        7 * _DAY_MS,
        "how long records are kept; -1 is without limit",
        (
            BrokerKey("log.retention.ms", RetentionLimit(LONG_MIN)),
            BrokerKey("log.retention.minutes", RetentionLimit(-INT_MAX - 1, INT_MAX, unit=_MINUTE_MS)),
            BrokerKey("log.retention.hours", RetentionLimit(-INT_MAX - 1, INT_MAX, unit=_HOUR_MS)),
        ),
    ),
    Setting(
        "segment.bytes",
        Integer(14, INT_MAX),
        1024 * 1024 * 1024,
        "the size at which a new segment is begun",
        (BrokerKey("log.segment.bytes"),),
        since_4="4.0: at least 1048576",
    ),
    Setting(
        "segment.index.bytes",
        Integer(4, INT_MAX),
        10 * 1024 * 1024,
        "the size of a new segment's index files",
        (BrokerKey("log.index.size.max.bytes"),),
    ),
    Setting(
        "segment.jitter.ms",
        _MS,
        0,
        "by how much less than `segment.ms`, at random, a segment may live until a new one is begun",
        (BrokerKey("log.roll.jitter.ms"), BrokerKey("log.roll.jitter.hours", Integer(0, INT_MAX, unit=_HOUR_MS))),
    ),
    Setting(
        "segment.ms",
        Integer(1),
        7 * _DAY_MS,
        "the time after which a new segment is begun",
        (BrokerKey("log.roll.ms"), BrokerKey("log.roll.hours", Integer(1, INT_MAX, unit=_HOUR_MS))),
    ),
    Setting(
        "unclean.leader.election.enable",
        Boolean(),
        False,
        "whether a replica that lacks records may become leader; without meaning in a store",
        (BrokerKey("unclean.leader.election.enable"),),
    ),
)

TOPIC_SETTINGS: Final[Mapping[str, Setting[Any]]] = MappingProxyType({setting.key: setting for setting in _SETTINGS})
_TOPIC_KEY_OF: Final = {source.key: setting.key for setting in _SETTINGS for source in setting.broker_keys}


def topic_setting(key: str) -> Setting[Any]:
    """Return the topic setting of that name; raises `ConfigError`, with similar names, if there is none."""
    if key in TOPIC_SETTINGS:
        return TOPIC_SETTINGS[key]
    if key in _TOPIC_KEY_OF:
        raise ConfigError(f"{key} is a broker's setting; a topic's is {_TOPIC_KEY_OF[key]}")
    if key in BROKER_SETTINGS:
        raise ConfigError(f"{key} is a broker's setting, which no topic has")
    from difflib import get_close_matches

    near = get_close_matches(key, TOPIC_SETTINGS)
    raise ConfigError(f"there is no topic setting {key!r}" + (f", but there is {', '.join(near)}" if near else ""))


def check_topic_setting(key: str, value: str) -> str:
    """The value in the form in which Kafka prints it; raises `ConfigError` if a topic cannot have it."""
    setting = topic_setting(key)
    return setting.write(setting.read(value))
