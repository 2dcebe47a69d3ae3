"""What holds for a store as a whole."""

from __future__ import annotations

import pytest

from storage.config import StoreConfig, TopicConfig
from storage.errors import ConfigError


def test_a_broker_without_settings_has_the_defaults() -> None:
    store = StoreConfig.resolve()
    assert store.log_dirs == ("/tmp/kafka-logs",)
    assert store.log_retention_check_interval_ms == 300_000
    assert store.log_cleaner_enable is True
    assert store.topic() == TopicConfig.resolve()


def test_a_brokers_settings_are_its_own_and_its_topics() -> None:
    store = StoreConfig.resolve(
        {
            "listeners": "PLAINTEXT://:9092",
            "log.dirs": "/a , /b,",
            "log.dir": "/c",
            "log.cleaner.threads": "2",
            "log.flush.scheduler.interval.ms": "9",
            "log.retention.minutes": "5",
        }
    )
    assert store.log_dirs == ("/a", "/b")
    assert store.log_cleaner_threads == 2
    assert store.log_flush_scheduler_interval_ms == 9
    topic = store.topic({"flush.messages": "3"})
    assert (topic.flush_ms, topic.retention_ms, topic.flush_messages) == (9, 300_000, 3)
    assert topic.origin("flush.ms") == "broker"
    assert topic.origin("flush.messages") == "topic"


def test_the_older_name_of_log_dirs_holds_where_the_newer_is_not_given() -> None:
    assert StoreConfig.resolve({"log.dir": "/a,/b"}).log_dirs == ("/a", "/b")


def test_what_was_given_stays_as_it_was() -> None:
    given = {"log.retention.ms": "5"}
    store = StoreConfig.resolve(given)
    given["log.retention.ms"] = "6"
    assert store.topic().retention_ms == 5


@pytest.mark.parametrize(
    ("broker", "sentence"),
    [
        (
            {"log.cleaner.threads": "0"},
            "log.cleaner.threads=0 is refused: it must be a whole number from 1 to 2147483647",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "2097153", "log.cleaner.threads": "2"},
            "log.cleaner.dedupe.buffer.size=2097153 is refused: for 2 log.cleaner.threads it must be at least 2097154",
        ),
        (
            {"log.dirs": " , "},
            "log.dirs= ,  is refused: it must be the path of a directory, or several with commas between them",
        ),
        (
            {"log.segment.bytes": "x"},
            "log.segment.bytes=x is refused: it must be a whole number from 14 to 2147483647",
        ),
        (
            {"log.retention.ms": "5", "log.retention.hours": "x"},
            "log.retention.hours=x is refused: it must be a whole number from -2147483648 to 2147483647",
        ),
    ],
)
def test_errors_name_the_brokers_setting(broker: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        StoreConfig.resolve(broker)
    assert str(caught.value) == sentence
