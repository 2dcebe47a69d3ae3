"""What holds for a topic, against the answers of a real Kafka 3.9.2 (answers-3.9.2.txt says how it was asked)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storage.config import BROKER_SETTINGS, TOPIC_SETTINGS, Sources, StoreConfig, TopicConfig, check_topic_setting
from storage.errors import ConfigError
from storage.record import Codec, TimestampType

ANSWERS = [
    line
    for line in (Path(__file__).parent / "answers-3.9.2.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
LONG_MAX = 2**63 - 1
WEEK_MS = 7 * 24 * 60 * 60 * 1000


def settings(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split(";") if "=" in each)


def answer(broker: dict[str, str], topic: dict[str, str]) -> str:
    """What we make of settings, in the form of the real answers."""
    try:
        config = StoreConfig.resolve(broker).topic(topic)
    except ConfigError:
        return "refused"
    default = TopicConfig.resolve()
    different = [f"{key}={config.value(key)}" for key in TOPIC_SETTINGS if config.value(key) != default.value(key)]
    if config.timestamp_age_max_ms != LONG_MAX:
        different.append(f"@before={config.timestamp_age_max_ms}")
    if config.timestamp_lead_max_ms != LONG_MAX:
        different.append(f"@after={config.timestamp_lead_max_ms}")
    if config.segment_age_max_ms != WEEK_MS:
        different.append(f"@maxSegmentMs={config.segment_age_max_ms}")
    return "; ".join(different) or "defaults"


@pytest.mark.golden
@pytest.mark.parametrize("line", ANSWERS)
def test_settings_mean_what_they_mean_to_kafka(line: str) -> None:
    question, _, expected = line.rpartition(" -> ")
    broker, _, topic = question.partition(" >> ")
    assert answer(settings(broker), settings(topic)) == expected


@pytest.mark.parametrize(
    ("broker", "topic", "kafka", "ours"),
    [
        # A set has no order, and Kafka 4 drops repetitions as well.
        ("", "cleanup.policy=delete,compact", "cleanup.policy=delete,compact", "cleanup.policy=compact,delete"),
        ("", "cleanup.policy=compact,compact", "cleanup.policy=compact,compact", "cleanup.policy=compact"),
        # Only decimal numbers in ASCII, and only those that are within the bounds.
        ("", "min.cleanable.dirty.ratio=NaN", "min.cleanable.dirty.ratio=NaN", "refused"),
        ("", "min.cleanable.dirty.ratio=0.5f", "defaults", "refused"),
        ("", "min.cleanable.dirty.ratio=0x1p-1", "defaults", "refused"),
        ("", "segment.bytes=\u0663\u0663\u0663", "segment.bytes=333", "refused"),
        # Whether a broker has remote storage is not in its topics' settings, so any topic may ask for it; and what is
        # kept of a log locally is compared with what is kept of all for those topics only.
        ("", "remote.storage.enable=true", "refused", "remote.storage.enable=true"),
        (
            "remote.log.storage.system.enable=true;log.local.retention.ms=700000000",
            "",
            "refused",
            "local.retention.ms=700000000",
        ),
        # Kafka 3 has this setting and passes it over.
        ("log.message.format.version=0.9.0", "", "defaults", "message.format.version=0.9.0"),
        # Values that make no sense are refused at once.
        ("log.cleaner.io.buffer.load.factor=-3", "", "defaults", "refused"),
        ("replica.high.watermark.checkpoint.interval.ms=-1", "", "defaults", "refused"),
    ],
)
def test_where_we_differ_from_kafka(broker: str, topic: str, kafka: str, ours: str) -> None:
    assert answer(settings(broker), settings(topic)) == ours != kafka


def test_values_come_from_the_topic_then_the_broker_then_the_default() -> None:
    config = TopicConfig.resolve(
        {"segment.bytes": "1000"},
        {"log.segment.bytes": "2000", "log.roll.hours": "2", "listeners": "PLAINTEXT://:9092"},
    )
    assert (config.segment_bytes, config.segment_ms, config.segment_index_bytes) == (1000, 7_200_000, 10 * 1024 * 1024)
    assert config.origin("segment.bytes") == "topic"
    assert config.origin("segment.ms") == "broker"
    assert config.origin("segment.index.bytes") == "default"


def test_a_default_that_somebody_gave_has_their_origin() -> None:
    config = TopicConfig.resolve({"retention.ms": "604800000"}, {"log.segment.bytes": "1073741824"})
    assert config == TopicConfig.resolve()
    assert config.origins == {"retention.ms": "topic", "segment.bytes": "broker"}


def test_a_brokers_older_timestamp_limit_counts_as_both_newer_ones() -> None:
    config = TopicConfig.resolve({}, {"log.message.timestamp.difference.max.ms": "11"})
    assert (config.timestamp_age_max_ms, config.timestamp_lead_max_ms) == (11, 11)
    assert config.origin("message.timestamp.before.max.ms") == "broker"


@pytest.mark.parametrize(
    ("text", "codec", "level"),
    [
        ("producer", None, None),
        ("uncompressed", Codec.NONE, None),
        ("gzip", Codec.GZIP, 5),
        ("snappy", Codec.SNAPPY, None),
        ("lz4", Codec.LZ4, 6),
        ("zstd", Codec.ZSTD, -7),
    ],
)
def test_codecs_and_their_levels(text: str, codec: Codec | None, level: int | None) -> None:
    levels = {"compression.gzip.level": "5", "compression.lz4.level": "6", "compression.zstd.level": "-7"}
    config = TopicConfig.resolve({"compression.type": text, **levels})
    assert config.compression is codec
    assert config.value("compression.type") == text
    if codec is not None:
        assert config.compression_level(codec) == level


def test_values_have_types_of_their_own() -> None:
    config = TopicConfig.resolve(
        {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact", "preallocate": "TRUE"}
    )
    assert config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.cleanup_policy == {"compact"}
    assert (config.compact, config.delete, config.preallocate) == (True, False, True)


def test_a_setting_that_is_told_is_listed_even_if_the_broker_has_none_like_it() -> None:
    config = TopicConfig.resolve({"max.decompressed.message.bytes": "9"})
    assert "max.decompressed.message.bytes=9  # topic" in config.lines()


def test_a_setting_that_the_cluster_kept_is_listed_only_if_the_broker_has_it() -> None:
    sources = Sources(topic={"message.format.version": "metadata log, offset 4"}, release=(4, 0))
    assert "message.format.version" not in TopicConfig.resolve({"message.format.version": "2.0"}, sources=sources).keys


@pytest.mark.parametrize(
    ("settings", "agree"),
    [
        ({"remote.copy.lag.ms": "7", "retention.ms": "7"}, True),
        ({"remote.copy.lag.ms": "7", "retention.ms": "-1"}, True),
        ({"remote.copy.lag.ms": "8", "retention.ms": "9", "local.retention.ms": "8"}, True),
        ({"remote.copy.lag.bytes": "7"}, True),
        ({"remote.copy.lag.bytes": "-1", "local.retention.bytes": "0"}, True),
        ({"remote.copy.lag.bytes": "8", "retention.bytes": "7"}, False),
        ({"remote.copy.lag.ms": "9", "retention.ms": "9", "local.retention.ms": "8"}, False),
        ({"remote.copy.lag.ms": "1", "local.retention.ms": "0"}, False),
    ],
)
def test_a_segment_is_copied_before_it_is_deleted_locally(settings: dict[str, str], agree: bool) -> None:
    """As 4.4's LogConfig refuses them for a topic in remote storage."""
    TopicConfig.resolve(settings)
    if agree:
        TopicConfig.resolve(settings | {"remote.storage.enable": "true"})
    else:
        with pytest.raises(
            ConfigError, match=r"^remote\.copy\.lag.* is refused: it must be at most what is kept locally"
        ):
            TopicConfig.resolve(settings | {"remote.storage.enable": "true"})


def test_texts_follow_the_values() -> None:
    config = replace(TopicConfig.resolve({"segment.jitter.ms": "5"}), segment_jitter_ms=0)
    assert config.value("segment.jitter.ms") == "0"


def test_a_config_can_be_a_key() -> None:
    assert len({TopicConfig.resolve(), TopicConfig.resolve({"flush.ms": "5"}), TopicConfig.resolve()}) == 2


REFUSED = [
    (
        {"segment.bytes": "12"},
        {},
        "segment.bytes=12 is refused: it must be a whole number from 14 to 2147483647",
    ),
    (
        {"compression.gzip.level": "0"},
        {},
        "compression.gzip.level=0 is refused: it must be a whole number from 1 to 9, or -1",
    ),
    (
        {"min.cleanable.dirty.ratio": "2"},
        {},
        "min.cleanable.dirty.ratio=2 is refused: it must be a number from 0 to 1",
    ),
    ({"preallocate": "yes"}, {}, "preallocate=yes is refused: it must be true or false"),
    (
        {"message.timestamp.type": "x"},
        {},
        "message.timestamp.type=x is refused: it must be one of CreateTime, LogAppendTime",
    ),
    (
        {"cleanup.policy": "compact,x"},
        {},
        (
            "cleanup.policy=compact,x is refused: "
            "it must be a list of compact, delete with commas between them, or nothing"
        ),
    ),
    (
        {"message.format.version": "7"},
        {},
        "message.format.version=7 is refused: it must be a version of Kafka from 0.8.0 to 3.9",
    ),
    (
        {"leader.replication.throttled.replicas": "0"},
        {},
        (
            "leader.replication.throttled.replicas=0 is refused: "
            "it must be partition:broker,partition:broker,…, or * for all, or nothing"
        ),
    ),
    (
        {},
        {"log.roll.hours": "0"},
        "log.roll.hours=0 is refused: it must be a whole number from 1 to 2147483647",
    ),
    (
        {},
        {"log.retention.hours": "0"},
        "log.retention.hours=0 is refused: it must be at least 1, or negative for no limit",
    ),
    (
        {"min.compaction.lag.ms": "9"},
        {"log.cleaner.max.compaction.lag.ms": "8"},
        "min.compaction.lag.ms=9 is refused: it must be at most max.compaction.lag.ms, which is 8",
    ),
    (
        {"remote.storage.enable": "true", "cleanup.policy": "compact"},
        {},
        "remote.storage.enable=true is refused: the cleanup.policy must be without compact",
    ),
    (
        {"remote.storage.enable": "true", "retention.bytes": "5", "local.retention.bytes": "6"},
        {},
        (
            "local.retention.bytes=6 is refused: "
            "it must be from 0 to retention.bytes, which is 5, or -2 for the same as that"
        ),
    ),
    (
        {"remote.storage.enable": "true", "retention.bytes": "5", "remote.copy.lag.bytes": "6"},
        {},
        (
            "remote.copy.lag.bytes=6 is refused: "
            "it must be at most what is kept locally, which is 5 by local.retention.bytes"
        ),
    ),
    (
        {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "6"},
        {},
        (
            "local.retention.ms=6 is refused: with remote.log.copy.disable "
            "it must be retention.ms, which is 604800000, or -2 for the same as that"
        ),
    ),
]


@pytest.mark.parametrize(
    ("topic", "broker", "sentence"),
    REFUSED,
)
def test_errors_name_the_setting_the_value_and_what_is_allowed(
    topic: dict[str, str], broker: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        TopicConfig.resolve(topic, broker)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("key", ["min.cleanable.dirty.ratio", "retention.ms"])
def test_a_number_of_many_characters_is_refused_without_reading_it(key: str) -> None:
    assert TopicConfig.resolve({key: "0" * 999 + "1"}, {})
    with pytest.raises(ConfigError, match=f"{key}=00"):
        TopicConfig.resolve({key: "0" * 1000 + "1"}, {})


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (
            "segment.byte",
            "there is no topic setting 'segment.byte', but there is segment.bytes, segment.index.bytes, segment.ms",
        ),
        (
            "Retention.MS",
            "there is no topic setting 'Retention.MS', but there is retention.ms, retention.bytes, local.retention.ms",
        ),
        ("prealocate", "there is no topic setting 'prealocate', but there is preallocate"),
        ("zzz", "there is no topic setting 'zzz'"),
        ("log.retention.hours", "log.retention.hours is a broker's setting; a topic's is retention.ms"),
        ("message.max.bytes", "message.max.bytes is a broker's setting; a topic's is max.message.bytes"),
        ("log.cleaner.threads", "log.cleaner.threads is a broker's setting, which no topic has"),
    ],
)
def test_for_an_unknown_name_the_likely_ones_are_told(key: str, sentence: str) -> None:
    for attempt in (
        lambda: check_topic_setting(key, "1"),
        lambda: TopicConfig.resolve({key: "1"}),
        lambda: TopicConfig.resolve().value(key),
        lambda: TopicConfig.resolve().origin(key),
    ):
        with pytest.raises(ConfigError) as caught:
            attempt()
        assert str(caught.value) == sentence


def test_a_checked_value_is_given_as_kafka_prints_it() -> None:
    assert check_topic_setting("segment.bytes", " +0100 ") == "100"
    assert check_topic_setting("min.cleanable.dirty.ratio", "1e-5") == "1.0E-5"
    assert check_topic_setting("cleanup.policy", "compact , delete") == "compact,delete"
    assert check_topic_setting("preallocate", "False") == "false"


@pytest.mark.parametrize(
    ("number", "text"),
    [  # as Double.toString prints them
        ("1", "1.0"),
        ("0", "0.0"),
        ("1e-3", "0.001"),
        ("9.99e-4", "9.99E-4"),
        ("1.5e-7", "1.5E-7"),
        ("1e7", "1.0E7"),
        ("9999999.5", "9999999.5"),
        ("123456789.125", "1.23456789125E8"),
        ("1e21", "1.0E21"),
        ("100", "100.0"),
        ("0.30000000000000004", "0.30000000000000004"),
    ],
)
def test_doubles_are_printed_as_the_jvm_prints_them(number: str, text: str) -> None:
    setting = BROKER_SETTINGS["log.cleaner.io.max.bytes.per.second"]
    assert setting.write(setting.read(number)) == text
