"""The tables of settings against those of a real Kafka 3.9.2, printed by its own LogConfig, KafkaConfig and
ServerTopicConfigSynonyms, and against what its 4.3.1 and 4.4.0 print otherwise.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from storage.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerKey, Setting, Sources, StoreConfig, TopicConfig
from storage.config.kinds import INT_MAX, LONG_MAX, LONG_MIN, Boolean, Choice, Directories, Integer, NameSet, Real
from storage.errors import ConfigError

# key|type|default|validator|synonyms, strongest first, with the milliseconds in their units. Long validators are cut.
TOPIC_TABLE = """
cleanup.policy|LIST|delete|[compact, delete]|log.cleanup.policy
compression.gzip.level|INT|-1|[1,...,9] or -1|compression.gzip.level
compression.lz4.level|INT|9|[1,...,17]|compression.lz4.level
compression.type|STRING|producer|[uncompressed, zstd, lz4, snappy, gzip, producer]|compression.type
compression.zstd.level|INT|3|[-131072,...,22]|compression.zstd.level
delete.retention.ms|LONG|86400000|[0,...]|log.cleaner.delete.retention.ms
file.delete.delay.ms|LONG|60000|[0,...]|log.segment.delete.delay.ms
flush.messages|LONG|9223372036854775807|[1,...]|log.flush.interval.messages
flush.ms|LONG|9223372036854775807|[0,...]|log.flush.interval.ms log.flush.scheduler.interval.ms
follower.replication.throttled.replicas|LIST||…|
index.interval.bytes|INT|4096|[0,...]|log.index.interval.bytes
leader.replication.throttled.replicas|LIST||…|
local.retention.bytes|LONG|-2|[-2,...]|log.local.retention.bytes
local.retention.ms|LONG|-2|[-2,...]|log.local.retention.ms
max.compaction.lag.ms|LONG|9223372036854775807|[1,...]|log.cleaner.max.compaction.lag.ms
max.message.bytes|INT|1048588|[0,...]|message.max.bytes
message.downconversion.enable|BOOLEAN|true||log.message.downconversion.enable
message.format.version|STRING|3.0-IV1|…|log.message.format.version
message.timestamp.after.max.ms|LONG|9223372036854775807|[0,...]|log.message.timestamp.after.max.ms
message.timestamp.before.max.ms|LONG|9223372036854775807|[0,...]|log.message.timestamp.before.max.ms
message.timestamp.difference.max.ms|LONG|9223372036854775807|[0,...]|log.message.timestamp.difference.max.ms
message.timestamp.type|STRING|CreateTime|[CreateTime, LogAppendTime]|log.message.timestamp.type
min.cleanable.dirty.ratio|DOUBLE|0.5|[0,...,1]|log.cleaner.min.cleanable.ratio
min.compaction.lag.ms|LONG|0|[0,...]|log.cleaner.min.compaction.lag.ms
min.insync.replicas|INT|1|[1,...]|min.insync.replicas
preallocate|BOOLEAN|false||log.preallocate
remote.log.copy.disable|BOOLEAN|false||
remote.log.delete.on.disable|BOOLEAN|false||
remote.storage.enable|BOOLEAN|false||
retention.bytes|LONG|-1||log.retention.bytes
retention.ms|LONG|604800000|[-1,...]|log.retention.ms log.retention.minutes*60000 log.retention.hours*3600000
segment.bytes|INT|1073741824|[14,...]|log.segment.bytes
segment.index.bytes|INT|10485760|[4,...]|log.index.size.max.bytes
segment.jitter.ms|LONG|0|[0,...]|log.roll.jitter.ms log.roll.jitter.hours*3600000
segment.ms|LONG|604800000|[1,...]|log.roll.ms log.roll.hours*3600000
unclean.leader.election.enable|BOOLEAN|false||unclean.leader.election.enable
"""

# The same of what is new in 4.4.0.
NEW_TOPIC_TABLE = """
errors.deadletterqueue.group.enable|BOOLEAN|false||
max.decompressed.message.bytes|INT|2147483639|[1,...,2147483639]|max.decompressed.message.bytes
remote.copy.lag.bytes|LONG|-1|[-1,...]|log.remote.copy.lag.bytes
remote.copy.lag.ms|LONG|0|[-1,...]|log.remote.copy.lag.ms
"""

# key|type|default|validator of the broker's own settings, and of all that stand in for a topic's.
BROKER_TABLE = """
compression.gzip.level|INT|-1|[1,...,9] or -1
compression.lz4.level|INT|9|[1,...,17]
compression.type|STRING|producer|[uncompressed, zstd, lz4, snappy, gzip, producer]
compression.zstd.level|INT|3|[-131072,...,22]
log.cleaner.backoff.ms|LONG|15000|[0,...]
log.cleaner.dedupe.buffer.size|LONG|134217728|
log.cleaner.delete.retention.ms|LONG|86400000|[0,...]
log.cleaner.enable|BOOLEAN|true|
log.cleaner.io.buffer.load.factor|DOUBLE|0.9|
log.cleaner.io.buffer.size|INT|524288|[0,...]
log.cleaner.io.max.bytes.per.second|DOUBLE|1.7976931348623157E308|
log.cleaner.max.compaction.lag.ms|LONG|9223372036854775807|[1,...]
log.cleaner.min.cleanable.ratio|DOUBLE|0.5|[0,...,1]
log.cleaner.min.compaction.lag.ms|LONG|0|[0,...]
log.cleaner.threads|INT|1|[0,...]
log.cleanup.policy|LIST|delete|[compact, delete]
log.dir|STRING|/tmp/kafka-logs|
log.dir.failure.timeout.ms|LONG|30000|[1,...]
log.dirs|STRING||
log.flush.interval.messages|LONG|9223372036854775807|[1,...]
log.flush.interval.ms|LONG||
log.flush.offset.checkpoint.interval.ms|INT|60000|[0,...]
log.flush.scheduler.interval.ms|LONG|9223372036854775807|
log.flush.start.offset.checkpoint.interval.ms|INT|60000|[0,...]
log.index.interval.bytes|INT|4096|[0,...]
log.index.size.max.bytes|INT|10485760|[4,...]
log.initial.task.delay.ms|LONG|30000|[0,...]
log.local.retention.bytes|LONG|-2|[-2,...]
log.local.retention.ms|LONG|-2|[-2,...]
log.message.downconversion.enable|BOOLEAN|true|
log.message.format.version|STRING|3.0-IV1|…
log.message.timestamp.after.max.ms|LONG|9223372036854775807|[0,...]
log.message.timestamp.before.max.ms|LONG|9223372036854775807|[0,...]
log.message.timestamp.difference.max.ms|LONG|9223372036854775807|[0,...]
log.message.timestamp.type|STRING|CreateTime|[CreateTime, LogAppendTime]
log.preallocate|BOOLEAN|false|
log.retention.bytes|LONG|-1|
log.retention.check.interval.ms|LONG|300000|[1,...]
log.retention.hours|INT|168|
log.retention.minutes|INT||
log.retention.ms|LONG||
log.roll.hours|INT|168|[1,...]
log.roll.jitter.hours|INT|0|[0,...]
log.roll.jitter.ms|LONG||
log.roll.ms|LONG||
log.segment.bytes|INT|1073741824|[14,...]
log.segment.delete.delay.ms|LONG|60000|[0,...]
message.max.bytes|INT|1048588|[0,...]
min.insync.replicas|INT|1|[1,...]
num.partitions|INT|1|[1,...]
num.recovery.threads.per.data.dir|INT|1|[1,...]
producer.id.expiration.check.interval.ms|INT|600000|[1,...]
producer.id.expiration.ms|INT|86400000|[1,...]
replica.high.watermark.checkpoint.interval.ms|LONG|5000|
unclean.leader.election.enable|BOOLEAN|false|
"""

NEW_BROKER_TABLE = """
log.remote.copy.lag.bytes|LONG|-1|[-1,...]
log.remote.copy.lag.ms|LONG|0|[-1,...]
max.decompressed.message.bytes|INT|2147483639|[1,...,2147483639]
"""

# Where a broker's definition says less than the broker enforces, or than makes sense, ours says it at once.
NARROWED = {
    "log.cleaner.dedupe.buffer.size": "LONG|134217728|[0,...]",  # it must be above 1 MiB for each thread
    "log.cleaner.io.buffer.load.factor": "DOUBLE|0.9|[0,...,1]",
    "log.cleaner.io.max.bytes.per.second": "DOUBLE|1.7976931348623157E308|[0,...]",
    "log.cleaner.threads": "INT|1|[1,...]",  # a broker with 0 dies of a division by zero
    "log.dir": "LIST|/tmp/kafka-logs|",
    "log.dirs": "LIST|/tmp/kafka-logs|",  # log.dir has that default
    "log.flush.interval.ms": "LONG||[0,...]",
    "log.flush.scheduler.interval.ms": "LONG|9223372036854775807|[0,...]",  # below 0 it is no flush.ms
    "log.roll.jitter.ms": "LONG||[0,...]",
    "log.roll.ms": "LONG||[1,...]",
    "replica.high.watermark.checkpoint.interval.ms": "LONG|5000|[0,...]",
}

FORMAT_VERSIONS = """
0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV0 0.10.0-IV1 0.10.1-IV0 0.10.1-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV0 0.11.0-IV1
0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV0 2.0-IV1 2.1-IV0 2.1-IV1 2.1-IV2 2.2-IV0 2.2-IV1 2.3-IV0 2.3-IV1 2.4-IV0 2.4-IV1
2.5-IV0 2.6-IV0 2.7-IV0 2.7-IV1 2.7-IV2 2.8-IV0 2.8-IV1 3.0-IV0 3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2
3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0
3.9-IV0 4.0-IV0 4.0-IV1
"""

# What Kafka 4.4.0 has otherwise.
CHANGED = {
    "errors.deadletterqueue.group.enable": "4.4: new",
    "max.decompressed.message.bytes": "4.4: new",
    "message.downconversion.enable": "4.0: gone",
    "message.format.version": "4.0: gone",
    "message.timestamp.after.max.ms": "4.0: the default is 3600000",
    "message.timestamp.difference.max.ms": "4.0: gone",
    "num.recovery.threads.per.data.dir": "4.0: the default is 2",
    "remote.copy.lag.bytes": "4.4: new",
    "remote.copy.lag.ms": "4.4: new",
    "segment.bytes": "4.0: at least 1048576",
}

# The broker's own defaults of settings that have none of their own in its table, or in another unit.
NO_DEFAULT = {"log.flush.interval.ms", "log.retention.ms", "log.retention.minutes", "log.roll.jitter.ms", "log.roll.ms"}


def kafka_form(kind: Any) -> tuple[str, str]:
    """Type and validator as Kafka prints them."""
    match kind:
        case Integer():
            of_type = "INT" if kind.maximum <= INT_MAX else "LONG"
            upper = "" if kind.maximum in {INT_MAX, LONG_MAX} else f",{kind.maximum}"
            bounds = "" if kind.minimum in {LONG_MIN, -INT_MAX - 1} else f"[{kind.minimum},...{upper}]"
            return of_type, bounds if kind.also is None else f"{bounds} or {kind.also}"
        case Real():
            return "DOUBLE", f"[{kind.minimum},...,{kind.maximum}]" if kind.maximum == 1 else f"[{kind.minimum},...]"
        case Boolean():
            return "BOOLEAN", ""
        case Choice():
            return "STRING", f"[{', '.join(kind.values)}]"
        case NameSet():
            return "LIST", f"[{', '.join(kind.names)}]"
        case Directories():
            return "LIST", ""
        case _:
            return "", "…"


def synonym(source: BrokerKey[Any]) -> str:
    unit = source.kind.unit if isinstance(source.kind, Integer) else 1
    return source.key if unit == 1 else f"{source.key}*{unit}"


def rows(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.split("\n") if line]


@pytest.mark.parametrize("row", rows(TOPIC_TABLE + NEW_TOPIC_TABLE), ids=lambda row: row[0])
def test_topic_settings_are_those_of_kafka(row: list[str]) -> None:
    key, of_type, default, validator, synonyms = row
    setting = TOPIC_SETTINGS[key]
    our_type, our_validator = kafka_form(setting.kind)
    assert (our_type or of_type, our_validator) == (of_type, validator)
    assert setting.write(setting.default) == default
    assert " ".join(synonym(source) for source in setting.broker_keys) == synonyms


def test_there_are_no_other_topic_settings() -> None:
    old, new = ({key for key, *_ in rows(table)} for table in (TOPIC_TABLE, NEW_TOPIC_TABLE))
    assert list(TOPIC_SETTINGS) == sorted(old | new)
    assert TopicConfig.resolve().keys == sorted(old)
    changed = old - {key for key, change in CHANGED.items() if change == "4.0: gone"}
    assert TopicConfig.resolve(sources=Sources(release=(4, 0))).keys == sorted(changed)
    assert TopicConfig.resolve(sources=Sources(release=(4, 4))).keys == sorted(changed | new)


def broker_keys() -> dict[str, tuple[Setting[Any], BrokerKey[Any]]]:
    topics_first = [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]
    return {source.key: (setting, source) for setting in topics_first for source in setting.broker_keys}


@pytest.mark.parametrize("row", rows(BROKER_TABLE + NEW_BROKER_TABLE), ids=lambda row: row[0])
def test_broker_settings_are_those_of_kafka(row: list[str]) -> None:
    key, of_type, default, validator = row
    if key in NARROWED:
        of_type, default, validator = NARROWED[key].split("|")
    setting, source = broker_keys()[key]
    kind = source.kind or setting.kind
    our_type, our_validator = kafka_form(kind)
    assert (our_type or of_type, our_validator) == (of_type, validator)
    if key not in NO_DEFAULT:
        assert kind.write(setting.default) == default


def test_there_are_no_other_broker_settings() -> None:
    assert sorted(broker_keys()) == sorted(key for key, *_ in rows(BROKER_TABLE + NEW_BROKER_TABLE))


def test_what_kafka_4_changed_is_noted() -> None:
    tables = {**TOPIC_SETTINGS, **BROKER_SETTINGS}
    assert {key: setting.since_4 for key, setting in tables.items() if setting.since_4} == CHANGED


def test_every_setting_says_what_it_means() -> None:
    for setting in [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()]:
        assert setting.description
        assert "\n" not in setting.description


@pytest.mark.parametrize(
    ("settings", "config", "extra"),
    [(TOPIC_SETTINGS, TopicConfig, ["origins", "unknown", "release"]), (BROKER_SETTINGS, StoreConfig, ["broker"])],
)
def test_every_setting_is_an_attribute(settings: dict[str, Setting[Any]], config: Any, extra: list[str]) -> None:
    attributes = [setting.attribute for setting in settings.values()]
    assert [each.name for each in fields(config)] == [*attributes, *extra]
    declared = {each.name: each.type for each in fields(config)}
    resolved = config.resolve()
    for setting in settings.values():
        value = getattr(resolved, setting.attribute)
        assert value == setting.default
        plain = str(declared[setting.attribute]).partition("[")[0]
        assert plain in {type(value).__name__, "Codec | None"}


def test_every_format_version_is_known_and_no_other() -> None:
    versions = FORMAT_VERSIONS.split()
    setting = TOPIC_SETTINGS["message.format.version"]
    assert [setting.read(version) for version in versions] == versions
    for version in versions:
        if "-IV" in version:
            release, _, last = version.partition("-IV")
            beyond = f"{release}-IV{int(last) + 1}"
            if beyond not in versions:
                with pytest.raises(ConfigError, match=beyond):
                    setting.read(beyond)
