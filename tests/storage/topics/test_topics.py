"""Topics are made, changed and deleted whole, and stand where a broker expects them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import ConfigError, InvalidTopicError, ReadOnlyStoreError, TopicExistsError, UnknownPartitionError
from storage.ids import format_id
from storage.log.partition_metadata import read_topic_id
from storage.log_dir.names import parse_directory_name
from storage.log_dir.settings_file import SETTINGS_NAME


def directories(files, *paths: str) -> dict[str, set[str]]:
    return {path: {name for name in files.names(path) if files.status(f"{path}/{name}").is_directory} for path in paths}


def test_a_new_topic(stores, store) -> None:
    store.topics.create("t", 3, {"retention.ms": "+5", "cleanup.policy": "delete,compact"})
    assert {topic: list(partitions) for topic, partitions in store.topics.inventory.topics.items()} == {"t": [0, 1, 2]}
    assert directories(stores.files, "/a", "/b") == {"/a": {"t-0", "t-2"}, "/b": {"t-1"}}
    topic_id = store.topics.topic_id("t")
    for number in range(3):
        directory = store.topics.directory("t", number)
        assert stores.files.names(directory) == ["partition.metadata"]
        assert read_topic_id(stores.files.directory(directory)) == topic_id
    assert stores.files.read(f"/a/{SETTINGS_NAME}").decode().splitlines()[1:] == [
        *("/version=1", f"/cluster.id={store.topics.settings_file.current.cluster_id}", "/made=true"),
        *(f"t/topic.id={format_id(topic_id)}", "t/made=true"),
        *("t/cleanup.policy=compact,delete", "t/retention.ms=5"),
    ]
    assert store.topics.config("t").retention_ms == 5
    assert not store.topics.config("t").unknown


def test_new_partitions_go_where_the_fewest_are(stores, store) -> None:
    stores.files.make_directory("/a/x-0.0123456789abcdef0123456789abcdef-future")
    stores.files.make_directory("/b/y-0.0123456789abcdef0123456789abcdef-delete")
    store.refresh()
    store.topics.create("t", 3)
    assert [str(store.topics.location("t", number)[1].path) for number in range(3)] == ["/b", "/a", "/b"]
    assert store.topics.add_partition("t") == 3
    assert str(store.topics.location("t", 3)[1].path) == "/a"
    assert read_topic_id(stores.files.directory("/a/t-3")) == store.topics.topic_id("t")


def test_how_many_partitions(stores) -> None:
    store = stores.create(broker_settings={"num.partitions": "4"})
    store.topics.create("t")
    assert len(store.topics.partitions("t")) == 4
    for count in (0, -1, 100_001):
        with pytest.raises(InvalidTopicError, match="from 1 to 100000"):
            store.topics.create("u", count)


def test_what_cannot_be_made(stores, store) -> None:
    store.topics.create("a.b")
    steps = stores.files.steps
    with pytest.raises(TopicExistsError):
        store.topics.create("a.b")
    with pytest.raises(TopicExistsError):
        store.topics.create("a_b")
    with pytest.raises(InvalidTopicError, match="the cluster's own log"):
        store.topics.create("__cluster_metadata")
    with pytest.raises(InvalidTopicError):
        store.topics.create("a/b")
    with pytest.raises(ConfigError, match="must be"):
        store.topics.create("c", settings={"retention.ms": "soon"})
    with pytest.raises(ConfigError, match="at most"):
        store.topics.create("c", settings={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})
    assert stores.files.steps == steps


def test_what_is_not_there(store) -> None:
    store.topics.create("t")
    for ask in (store.topics.partitions, store.topics.config, store.topics.delete, store.topics.add_partition):
        with pytest.raises(UnknownPartitionError, match="there is no topic 'u'"):
            ask("u")
    with pytest.raises(UnknownPartitionError, match="the topic t has no partition 1"):
        store.log("t", 1)


def test_settings_change_together_or_not_at_all(stores, store) -> None:
    store.topics.create("t", settings={"retention.ms": "5"})
    log = store.log("t", 0)
    assert store.topics.change_config("t", {"retention.ms": None, "segment.ms": "7"}) is log.config
    assert (log.config.retention_ms, log.config.segment_ms) == (604_800_000, 7)
    text = stores.files.read(f"/a/{SETTINGS_NAME}")
    assert b"t/segment.ms=7\n" in text
    assert b"retention" not in text
    for wrong in (
        {"segment.ms": "8", "no.such": "1"},
        {"segment.ms": "0"},
        {"min.compaction.lag.ms": str(2**63 - 1), "max.compaction.lag.ms": "1"},
    ):
        with pytest.raises(ConfigError):
            store.topics.change_config("t", wrong)
    assert stores.files.read(f"/a/{SETTINGS_NAME}") == text
    store.close()
    assert stores.read().topics.config("t").segment_ms == 7


def test_a_deleted_topic(stores, store) -> None:
    store.topics.create("t", 2)
    store.topics.create("u")
    logs = [store.log("t", number) for number in range(2)]
    with stores.files.open_writing("/a/t-0/00000000000000000000.log", create=True) as file:
        file.write_at(0, [b"x"])
    doomed = store.topics.delete("t")
    assert [log.closed for log in logs] == [1, 1]
    assert list(store.topics.inventory.topics) == ["u"]
    assert b"t/" not in stores.files.read(f"/a/{SETTINGS_NAME}").replace(b"/t", b"")
    names = [parse_directory_name(each.name) for each in doomed]
    assert sorted((name.topic, name.partition, str(name.state), len(name.unique_id)) for name in names) == [
        ("t", 0, "-delete", 32),
        ("t", 1, "-delete", 32),
    ]
    due_ms = stores.clock.ms + 60_000
    assert store.topics.removals.due(due_ms - 1) == []
    assert set(store.topics.removals.due(due_ms)) == set(doomed)
    for each in doomed:
        store.topics.removals.remove(each)
    assert store.topics.removals.due(due_ms) == []
    assert directories(stores.files, "/a", "/b") == {"/a": {"u-0"}, "/b": set()}
    store.topics.create("t")
    assert store.topics.config("t").origins == {}


def test_what_an_earlier_topic_left_is_not_inherited(stores, store) -> None:
    store.topics.create("t", 2)
    for number in range(2):
        log = store.log("t", number)
        log.start_offset = log.end_offset = log.recovery_point = 9
    store.write_checkpoints()
    assert stores.files.read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 9\n"
    store.topics.delete("t")
    for path in ("/a", "/b"):
        assert stores.files.read(f"{path}/log-start-offset-checkpoint") == b"0\n0\n"
        assert stores.files.read(f"{path}/recovery-point-offset-checkpoint") == b"0\n0\n"
    # A checkpoint that another process left.
    with stores.files.open_writing("/b/log-start-offset-checkpoint") as file:
        file.truncate(0)
        file.write_at(0, [b"0\n2\nt 0 9\nkeep 0 9\n"])
    store.close()
    with stores.open() as again:
        again.topics.create("t")
        assert again.log("t", 0).request.start_offset == 0
        assert stores.files.read("/b/log-start-offset-checkpoint") == b"0\n1\nkeep 0 9\n"


def test_settings_of_a_namesake_do_not_hold(stores, store) -> None:
    store.topics.create("t", settings={"retention.ms": "5"})
    store.close()
    with stores.files.open_writing("/a/t-0/partition.metadata") as file:
        file.write_at(0, [b"version: 0\ntopic_id: FZTjvEy8lKP5DcrJNRCNmw"])
    found = stores.read().topics
    assert found.config("t").retention_ms == 604_800_000
    assert found.config("t").why_unknown("cleanup.policy")


def test_a_brokers_topic_is_known_once_its_policy_is(stores, store) -> None:
    stores.files.make_directory("/b/old-3")
    store.refresh()
    assert store.topics.config("old").why_unknown("cleanup.policy")
    assert store.topics.topic_id("old") is None
    store.topics.change_config("old", {"retention.ms": "1"})
    assert store.topics.config("old").why_unknown("cleanup.policy")
    store.topics.change_config("old", {"cleanup.policy": "compact"})
    assert not store.topics.config("old").unknown
    assert store.topics.add_partition("old") == 4
    assert stores.files.names(store.topics.directory("old", 4)) == []


def test_impossible_settings_harm_no_other_topic(stores, store) -> None:
    store.topics.create("t")
    store.topics.create("u", settings={"retention.ms": "5"})
    store.close()
    text = stores.files.read(f"/a/{SETTINGS_NAME}") + b"t/retention.ms=soon\ngone/x=y\n"
    with stores.files.open_writing(f"/a/{SETTINGS_NAME}") as file:
        file.write_at(0, [text])
    with stores.open() as again:
        assert again.topics.config("u").retention_ms == 5
        with pytest.raises(ConfigError, match=r"^in the settings of t, retention\.ms=soon is refused") as caught:
            again.topics.config("t")
        assert caught.value.path == f"/a/{SETTINGS_NAME}"
        again.topics.change_config("t", {"retention.ms": "6"})
        assert again.topics.config("t").retention_ms == 6
    assert b"gone/x=y\n" in stores.files.read(f"/a/{SETTINGS_NAME}")


def test_reading_changes_nothing(stores, store) -> None:
    store.topics.create("t")
    store.close()
    found, steps = stores.read(), stores.files.steps
    for change in (
        lambda: found.topics.create("u"),
        lambda: found.topics.delete("t"),
        lambda: found.topics.add_partition("t"),
        lambda: found.topics.change_config("t", {}),
        found.write_checkpoints,
    ):
        with pytest.raises(ReadOnlyStoreError, match="open for reading only"):
            change()
    found.log("t", 0)
    found.refresh()
    found.close()
    assert stores.files.steps == steps


def test_a_log_directory_that_vanishes_takes_only_its_own_partitions(stores, store, caplog) -> None:
    store.topics.create("t", 3)
    store.close()
    reader = stores.read()
    stores.files.rename("/b", "/elsewhere")
    reader.refresh()
    reader.refresh()
    assert list(reader.topics.partitions("t")) == [0, 2]
    assert [record.message for record in caplog.records] == [
        "the log directory /b and all that is in it are gone: [Errno 2] No such file or directory: '/b'"
    ]
    stores.files.rename("/elsewhere", "/b")
    reader.refresh()
    assert list(reader.topics.partitions("t")) == [0, 1, 2]


def test_a_writer_says_what_somebody_took_away_and_goes_on(stores, store, caplog) -> None:
    store.topics.create("t", 4)
    for number in range(4):
        store.log("t", number)
    stores.files.rename("/a/t-0", "/a/aside")
    stores.files.rename("/b", "/elsewhere")
    stores.files.make_directory("/b")  # as a disk that is unmounted leaves it
    store.refresh()
    store.refresh()
    assert list(store.topics.partitions("t")) == [2]
    assert [log.closed for log in stores.logs] == [1, 1, 0, 1]
    assert [record.message for record in caplog.records] == [
        "the log directory /b and all that is in it are gone: [Errno 2] No such file or directory: '/b'",
        "t-0 is gone: somebody removed its directory from /a",
    ]
    store.topics.create("u", 2)
    assert {log_dir.path for log_dir in store.topics.partitions("u").values()} == {Path("/a")}
    store.close()
    assert stores.files.names("/b") == []
    assert ".kafka_cleanshutdown" in stores.files.names("/a")


def test_a_log_that_could_not_be_closed_as_it_went_away_is_recovered_when_it_is_back(stores, store) -> None:
    store.topics.create("t", 2)
    store.log("t", 0)
    stores.logs[0].fails_to_close = True
    stores.files.rename("/a/t-0", "/a/aside")
    store.refresh()
    stores.files.rename("/a/aside", "/a/t-0")
    store.refresh()
    assert not store.request("t", 0).is_clean
    assert store.request("t", 1).is_clean
