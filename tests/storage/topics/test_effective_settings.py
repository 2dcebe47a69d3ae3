"""What holds for a broker's topics: each setting from where a broker would take it, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from metadata_logs import (
    NODE_ID,
    TOPIC_ID,
    BrokerDir,
    broker_setting,
    partition_record,
    registration,
    topic_record,
    topic_setting,
)

from storage.clock import Clock
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHER_ID = UUID(int=99)
RETENTION = "retention.ms"


@pytest.fixture
def broker() -> BrokerDir:
    """Give the log dir of a broker that has a partition of `orders`."""
    made = BrokerDir(MemoryFiles())
    made.add_partition("orders")
    made.tell(topic_record("orders"), partition_record())
    return made


def opened(broker: BrokerDir, mode: Mode = Mode.READ_ONLY, told: Mapping[str, str] | None = None) -> Store:
    return Store.open([broker.path], mode=mode, files=broker.files, clock=Clock(), broker_settings=told or {})


def line(store: Store, key: str, topic: str = "orders") -> str:
    return next(each for each in store.topics.config(topic).lines() if each.startswith(f"{key}="))


SERVER_PROPERTIES = {"log.retention.hours": "1", "log.segment.bytes": "2000000"}


def test_each_setting_comes_from_where_a_broker_takes_it(broker: BrokerDir) -> None:
    assert broker.tell(broker_setting("log.retention.ms", "30")) == 2
    broker.tell(
        broker_setting("log.retention.ms", "40", node_id=NODE_ID), broker_setting("log.retention.ms", "50", node_id=7)
    )
    store = opened(broker, told=SERVER_PROPERTIES)
    assert line(store, RETENTION) == "retention.ms=40  # broker, metadata log, offset 3"
    broker.tell(topic_setting("orders", RETENTION, "10"))
    assert line(store, RETENTION) == "retention.ms=10  # metadata log, offset 5"
    assert line(store, "segment.bytes") == "segment.bytes=2000000  # broker"
    assert line(store, "cleanup.policy") == "cleanup.policy=delete  # default"
    assert not store.topics.config("orders").unknown
    broker.tell(topic_setting("orders", RETENTION, None), broker_setting("log.retention.ms", None, node_id=NODE_ID))
    assert line(store, RETENTION) == "retention.ms=30  # broker, metadata log, offset 2"
    broker.tell(broker_setting("log.retention.ms", None))
    assert line(store, RETENTION) == "retention.ms=3600000  # broker"


def test_the_own_file_comes_first_and_is_not_filled_with_what_is_told(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", RETENTION, "10"), topic_setting("orders", "cleanup.policy", "compact"))
    with opened(broker, Mode.READ_WRITE, SERVER_PROPERTIES) as store:
        store.topics.change_config("orders", {RETENTION: "5", "cleanup.policy": "compact"})
        assert line(store, RETENTION) == "retention.ms=5  # topic"
        assert line(store, "cleanup.policy") == "cleanup.policy=compact  # metadata log, offset 3"
        assert dict(store.topics.settings_file.current.topics["orders"].settings) == {RETENTION: "5"}
        store.topics.change_config("orders", {RETENTION: None})
        assert line(store, RETENTION) == "retention.ms=10  # metadata log, offset 2"
    broker.tell(topic_setting("orders", "cleanup.policy", "delete"))
    assert line(opened(broker), "cleanup.policy") == "cleanup.policy=delete  # metadata log, offset 4"


def test_what_server_properties_may_say_is_unknown_without_it(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", RETENTION, "10"), broker_setting("log.cleanup.policy", "compact"))
    store = opened(broker)
    assert line(store, RETENTION) == "retention.ms=10  # metadata log, offset 2"
    assert line(store, "cleanup.policy") == "cleanup.policy=compact  # broker, metadata log, offset 3"
    assert line(store, "segment.bytes").startswith("segment.bytes=unknown  # unknown: server.properties may set it")
    # Nothing but the topic itself has these.
    assert line(store, "remote.storage.enable") == "remote.storage.enable=false  # default"
    assert store.topics.config("orders").why_unknown(RETENTION, "cleanup.policy") == ""
    assert store.topics.config("orders").why_unknown(RETENTION, "segment.ms").startswith("segment.ms unknown: ")


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([topic_record("orders", OTHER_ID)], "the metadata log has no topic of this id"),
        ([], "the metadata log has no topic of this id"),
    ],
)
def test_a_topic_that_is_not_the_cluster_s_is_unknown(records: list[bytes], why: str) -> None:
    broker = BrokerDir(MemoryFiles())
    broker.add_partition("orders")
    broker.tell(registration(metadata_version=21), *records, topic_setting("orders", RETENTION, "10"))
    store = opened(broker, told=SERVER_PROPERTIES)
    assert line(store, RETENTION).startswith(f"retention.ms=unknown  # unknown: {why}")
    assert line(store, "remote.storage.enable").startswith("remote.storage.enable=unknown  # ")


def test_damage_in_the_metadata_log_leaves_settings_unknown(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", RETENTION, "10"), topic_setting("orders", "flush.ms", "20"))
    path = f"{broker.path}/__cluster_metadata-0/{0:020d}.log"
    with broker.files.open_writing(path) as file:
        file.write_at(broker.files.read(path).index(b"flush.ms"), [b"x"])
    store = opened(broker, told=SERVER_PROPERTIES)
    assert line(store, RETENTION).startswith("retention.ms=unknown  # unknown: the metadata log cannot be read: ")


def test_what_a_newer_broker_has_besides_does_no_harm(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", "errors.tolerance", "9"), topic_setting("orders", "segment.bytes", "huge"))
    broker.tell(topic_setting("orders", RETENTION, "10"))
    store = opened(broker, told=SERVER_PROPERTIES)
    assert line(store, RETENTION) == "retention.ms=10  # metadata log, offset 4"
    assert line(store, "segment.bytes").startswith("segment.bytes=unknown  # unknown: the metadata log gives the topic")


@pytest.mark.parametrize(
    ("level", "after", "count"),
    [
        (21, "9223372036854775807", 36),
        (25, "3600000", 33),
        (31, "3600000", 33),
        (33, "3600000", 37),
    ],
)
def test_defaults_are_those_of_the_broker_s_release(broker: BrokerDir, level: int, after: str, count: int) -> None:
    broker.tell(registration(metadata_version=level))
    store = opened(broker, told=SERVER_PROPERTIES)
    assert line(store, "message.timestamp.after.max.ms") == f"message.timestamp.after.max.ms={after}  # default"
    assert len(list(store.topics.config("orders").lines())) == count


def test_what_all_brokers_are_told_holds_for_logs_that_are_opened(broker: BrokerDir) -> None:
    store = opened(broker, told={"producer.id.expiration.ms": "70"})
    assert store.topics.store_config("orders").producer_id_expiration_ms == 70
    broker.tell(broker_setting("producer.id.expiration.ms", "1000"), broker_setting("num.io.threads", "9"))
    assert store.topics.store_config("orders").producer_id_expiration_ms == 1000
    assert store.topics.store_config("__cluster_metadata") is store.config
    broker.tell(broker_setting("producer.id.expiration.ms", "0"))  # which no broker takes
    assert store.topics.store_config("orders") is store.config


def test_a_policy_in_the_own_file_stands_for_all_that_is_not_told(broker: BrokerDir) -> None:
    with opened(broker, Mode.READ_WRITE) as store:
        assert store.topics.config("orders").unknown
        config = store.topics.change_config("orders", {"cleanup.policy": "delete"})
        assert not config.unknown
        assert store.topics.config("orders") == config


def test_settings_are_copied_with_the_topic(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", RETENTION, "10"), topic_setting("orders", "cleanup.policy", "compact"))
    known = opened(broker).topics.known("orders")
    assert (known.topic_id, dict(known.settings), known.is_complete) == (
        TOPIC_ID,
        {RETENTION: "10", "cleanup.policy": "compact"},
        True,
    )


def test_a_store_of_kafkafs_knows_all_of_its_topics() -> None:
    files: Any = MemoryFiles()
    files.make_directory("/own")
    with Store.create(["/own"], files=files, clock=Clock()) as store:
        store.topics.create("orders")
        assert not store.topics.config("orders").unknown
        assert line(store, RETENTION) == "retention.ms=604800000  # default"
