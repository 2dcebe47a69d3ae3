"""Settings that brokers live with, and that would be refused if they were given now: nothing becomes unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from metadata_logs import (
    NODE_ID,
    BrokerDir,
    broker_setting,
    partition_record,
    topic_record,
    topic_setting,
)

from storage.clock import Clock
from storage.errors import ConfigError
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_PROPERTIES = {"log.retention.hours": "1"}


@pytest.fixture
def broker() -> BrokerDir:
    """Give the log dir of a broker that has a partition of `orders`."""
    made = BrokerDir(MemoryFiles())
    made.add_partition("orders")
    made.tell(topic_record("orders"), partition_record())
    return made


def opened(broker: BrokerDir, mode: Mode = Mode.READ_ONLY, told: Mapping[str, str] | None = SERVER_PROPERTIES) -> Store:
    return Store.open([broker.path], mode=mode, files=broker.files, clock=Clock(), broker_settings=told or {})


def values(store: Store, *keys: str) -> list[str]:
    lines = list(store.topics.config("orders").lines())
    return [each for key in keys for each in lines if each.startswith(f"{key}=")]


def test_what_a_broker_was_given_after_a_topic_may_contradict_it(broker: BrokerDir) -> None:
    broker.tell(topic_setting("orders", "max.compaction.lag.ms", "1000"))
    broker.tell(broker_setting("log.cleaner.min.compaction.lag.ms", "5000"))
    broker.tell(topic_setting("orders", "remote.storage.enable", "true"))
    broker.tell(broker_setting("log.cleanup.policy", "compact", node_id=NODE_ID))
    store = opened(broker)
    assert values(store, "max.compaction.lag.ms", "min.compaction.lag.ms") == [
        "max.compaction.lag.ms=1000  # metadata log, offset 2",
        "min.compaction.lag.ms=5000  # broker, metadata log, offset 3",
    ]
    assert store.log("orders", 0).view.end_offset == 0


def test_brokers_refuse_new_values_that_contradict_the_others_and_so_does_the_own_file(broker: BrokerDir) -> None:
    broker.tell(broker_setting("log.cleaner.min.compaction.lag.ms", "5000"))
    with opened(broker, Mode.READ_WRITE) as store:
        with pytest.raises(ConfigError, match=r"^min.compaction.lag.ms=5000 is refused: .*, which is 1000$"):
            store.topics.change_config("orders", {"max.compaction.lag.ms": "1000"})
        store.topics.change_config("orders", {"max.compaction.lag.ms": "6000"})
        broker.tell(broker_setting("log.cleaner.min.compaction.lag.ms", "7000"))
        assert values(store, "max.compaction.lag.ms", "min.compaction.lag.ms") == [
            "max.compaction.lag.ms=6000  # topic",
            "min.compaction.lag.ms=7000  # broker, metadata log, offset 3",
        ]


@pytest.mark.parametrize("value", ["soon", "0", "", "9" * 30])
def test_a_value_of_the_broker_that_is_not_known_leaves_that_setting_unknown(broker: BrokerDir, value: str) -> None:
    broker.tell(broker_setting("log.retention.ms", value), broker_setting("log.segment.bytes", "2000000"))
    store = opened(broker)
    assert values(store, "retention.ms", "segment.bytes") == [
        "retention.ms=unknown  # unknown: the metadata log gives the broker a value that kafkafs does not know",
        "segment.bytes=2000000  # broker, metadata log, offset 3",
    ]
    broker.tell(topic_setting("orders", "retention.ms", "10"))
    assert values(store, "retention.ms") == ["retention.ms=10  # metadata log, offset 4"]


@pytest.mark.parametrize("rest", [".\x1b[31mred", ".x # default", ".\r", ".\u2028x", ".", ".x y"])
def test_a_value_is_shown_only_if_it_can_do_no_harm_there(broker: BrokerDir, rest: str) -> None:
    broker.tell(topic_setting("orders", "message.format.version", f"3.0{rest}!"), topic_setting("orders", "x\n", "y\n"))
    lines = list(opened(broker).topics.config("orders").lines())
    assert all(line.isprintable() and line.count("#") == 1 for line in lines)
    assert len(lines) == 36


def test_settings_of_a_newer_version_may_say_anything(broker: BrokerDir) -> None:
    record = topic_setting("orders", "retention.ms", "10")
    broker.tell(record, record[:2] + b"\x01" + record[3:])
    [line] = values(opened(broker), "retention.ms")
    assert line == (
        "retention.ms=unknown  # unknown: the metadata log cannot be read: "
        "ConfigRecord has no version 1 here; the newest is 0"
    )


def test_why_the_metadata_log_cannot_be_read_names_no_path(broker: BrokerDir) -> None:
    other = BrokerDir(broker.files, "/b\nretention.ms=1", first_offset=5)
    other.add_partition("orders")
    other.tell(topic_record("orders"))
    store = opened(other)
    [line] = values(store, "retention.ms")
    assert line == (
        "retention.ms=unknown  # unknown: the metadata log cannot be read: the log begins at offset 5, and no whole "
        "snapshot ends there or later (__cluster_metadata-0)"
    )


@pytest.mark.parametrize("key", ["node.id", "broker.id"])
def test_the_server_properties_of_another_broker_do_not_hold(broker: BrokerDir, key: str) -> None:
    told = {**SERVER_PROPERTIES, key: f" {NODE_ID} "}
    assert values(opened(broker, told=told), "retention.ms") == ["retention.ms=3600000  # broker"]
    store = opened(broker, told={**told, key: str(NODE_ID + 1)})
    [line] = values(store, "retention.ms")
    assert line == (
        f"retention.ms=unknown  # unknown: the server.properties given is of another broker than {NODE_ID}; "
        "this broker's may set it (--server-properties FILE, -o server_properties=FILE)"
    )


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (b"version=0\nbroker.id=1\n", "the cluster has it in ZooKeeper"),
        (
            f"version=1\nnode.id={NODE_ID}\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n".encode(),
            "the metadata log is not here: give its log directory too, metadata.log.dir or the first of log.dirs",
        ),
        (None, "there is no metadata log in these log directories"),
    ],
)
def test_where_settings_are_that_are_not_here_is_said(properties: bytes | None, why: str) -> None:
    broker = BrokerDir(MemoryFiles())
    broker.add_partition("orders")
    files = broker.files
    files.remove(f"{broker.path}/__cluster_metadata-0/partition.metadata")
    files.remove_directory(f"{broker.path}/__cluster_metadata-0")
    files.remove(f"{broker.path}/meta.properties")
    if properties is not None:
        with files.open_writing(f"{broker.path}/meta.properties", create=True) as file:
            file.write_at(0, [properties])
    assert values(opened(broker), "retention.ms") == [
        f"retention.ms=unknown  # unknown: {why} (kafkafs topics config can set it)"
    ]
