"""Stores are opened, followed and closed as brokers and those who read beside them expect."""

from __future__ import annotations

import pytest

from storage.errors import (
    ConfigError,
    CorruptMetadataError,
    DuplicatePartitionError,
    NotAStoreError,
    PoisonedLogError,
    StorageError,
    StoreLockedError,
    UnknownPartitionError,
)
from storage.log.followed_log import FollowedLog
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.recognition import CLEAN_MARKER_NAME

HEX = "0123456789abcdef0123456789abcdef"


def marked(stores) -> list[str]:
    return [path for path in stores.paths if CLEAN_MARKER_NAME in stores.files.names(path)]


def unmark(stores) -> None:
    for path in marked(stores):
        stores.files.remove(f"{path}/{CLEAN_MARKER_NAME}")


# Making


def test_a_new_store(stores) -> None:
    store = stores.create(cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=4)
    assert store.is_made_here
    assert list(store.topics.inventory.topics) == []
    found = [read_meta_properties(stores.files.directory(path)) for path in stores.paths]
    assert {(each.version, each.cluster_id, each.node_id) for each in found} == {(1, "MkU3OEVBNTcwNTJENDM2Qg", 4)}
    assert len({each.directory_id for each in found}) == 2
    store.close()
    assert marked(stores) == ["/a", "/b"]
    with stores.open() as again:
        assert again.is_made_here
        assert marked(stores) == []


def test_where_no_store_is_made(stores) -> None:
    stores.create().close()
    with pytest.raises(NotAStoreError, match=r"empty directory only \(/a\)"):
        stores.create()
    stores.files.make_directory("/full")
    stores.files.make_directory("/full/pictures")
    stores.paths = ("/new", "/full")
    with pytest.raises(NotAStoreError, match=r"empty directory only \(/full\)"):
        stores.create()
    stores.paths = ("/new", "/no/such")
    with pytest.raises(NotAStoreError, match="its parent /no does not exist"):
        stores.create()
    assert stores.files.status("/new") is None
    stores.paths = ("/a/meta.properties",)
    with pytest.raises(NotAStoreError):
        stores.create()


def test_a_brokers_directory_without_partitions_is_not_made_over(stores) -> None:
    """As kafka-storage leaves those that do not hold the metadata."""
    stores.create().close()
    stores.files.remove("/a/kafkafs-topics.properties")
    before = stores.files.read("/a/meta.properties")
    with pytest.raises(NotAStoreError, match="empty directory only"):
        stores.create()
    assert stores.files.read("/a/meta.properties") == before
    assert not stores.read().is_made_here


def test_bad_broker_settings_make_nothing(stores) -> None:
    with pytest.raises(ConfigError):
        stores.create(broker_settings={"log.retention.ms": "soon"})
    assert stores.files.steps == 0


# Opening


def test_what_is_no_store(stores) -> None:
    stores.paths = ("/a",)
    with pytest.raises(NotAStoreError, match="there is no such directory"):
        stores.read()
    stores.files.make_directory("/a")
    with pytest.raises(NotAStoreError, match="the directory is empty"):
        stores.open()
    assert stores.files.names("/a") == []
    stores.files.make_directory("/a/t-0")
    with pytest.raises(NotAStoreError, match="nor a partition with a segment"):
        stores.open()
    stores.files.open_writing(f"/a/t-0/{0:020d}.log", create=True).close()
    assert list(stores.read().topics.inventory.topics) == ["t"]
    assert not stores.read().is_made_here


def test_one_writer(stores, store) -> None:
    with pytest.raises(StoreLockedError):
        stores.open()
    stores.read()
    store.close()
    store.close()
    stores.open().close()


def test_a_partition_in_two_places(stores, store) -> None:
    store.topics.create("t")
    store.close()
    stores.files.make_directory("/b/t-0")
    steps = stores.files.steps
    for opened in (stores.open, stores.read):
        with pytest.raises(DuplicatePartitionError, match=r"^/a/t-0 is the same partition; .*\(/b/t-0\)"):
            opened()
    assert (stores.files.steps, marked(stores)) == (steps, ["/a", "/b"])
    stores.paths = ("/a",)
    stores.open().close()  # no process holds the lock


def test_directories_that_are_not_one_brokers(stores, store) -> None:
    store.close()
    stores.paths, stores.seed = ("/c",), 1
    stores.create().close()
    stores.paths = ("/a", "/c")
    steps = stores.files.steps
    for opened in (stores.open, stores.read):
        with pytest.raises(CorruptMetadataError, match=r"is of cluster .*\(/c\)"):
            opened()
    stores.paths = ("/a", "/a/")
    with pytest.raises(NotAStoreError, match="given twice"):
        stores.open()
    assert stores.files.steps == steps


def test_settings_are_found_in_any_order(stores, store) -> None:
    store.topics.create("t", settings={"retention.ms": "5"})
    store.close()
    stores.paths = ("/b", "/a")
    with stores.open() as again:
        assert again.is_made_here
        assert again.topics.config("t").retention_ms == 5


# Logs


def test_what_a_log_is_opened_with(stores, store) -> None:
    store.topics.create("t", 2, {"segment.ms": "5"})
    log = store.log("t", 0)
    assert store.log("t", 0) is log
    request = log.request
    assert (str(request.directory), request.partition) == ("/a/t-0", ("t", 0))
    assert (request.is_clean, request.recovery_point, request.start_offset) == (True, 0, 0)
    assert request.config is store.topics.config("t")
    log.first_base_offset, log.start_offset, log.end_offset = 3, 5, 9
    store.close()
    assert log.closed == 1
    assert stores.files.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 9\n"
    assert stores.files.read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 5\n"
    assert stores.files.read("/a/replication-offset-checkpoint") == b"0\n1\nt 0 9\n"
    with pytest.raises(StorageError, match="the store is closed"):
        store.log("t", 0)
    followed, request = stores.read().log("t", 0), stores.read().request("t", 0)
    assert isinstance(followed, FollowedLog)
    assert (followed.recovery_point, followed.checkpointed_start) == (9, 5)
    assert (request.is_clean, request.recovery_point, request.start_offset) == (True, 9, 5)
    unmark(stores)
    with stores.open() as again:
        log = again.log("t", 0)
        assert not isinstance(log, FollowedLog)
        assert not log.request.is_clean


def test_checkpoints_keep_what_is_not_open(stores, store) -> None:
    store.topics.create("t", 4)
    for number in range(4):
        log = store.log("t", number)
        log.start_offset = log.end_offset = log.recovery_point = 10 + number
    store.close()
    with stores.open() as again:
        log = again.log("t", 0)
        log.end_offset, log.first_base_offset, log.recovery_point = 30, 10, 20
        stores.files.rename("/a/t-2", f"/a/t-2.{HEX}-stray")
        again.refresh()
        again.write_checkpoints()
        assert stores.files.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 20\n"
        assert stores.files.read("/a/log-start-offset-checkpoint") == b"0\n0\n"
        assert stores.files.read("/b/log-start-offset-checkpoint") == b"0\n2\nt 1 11\nt 3 13\n"


def test_an_opening_that_fails_is_tried_again(stores, store) -> None:
    store.topics.create("t")
    opened = []

    def open_log(request, checkpoints):
        opened.append(request)
        if len(opened) == 1:
            raise PoisonedLogError("no")
        return stores.open_log(request, checkpoints)

    store.close()
    with stores.open(open_log=open_log) as again:
        with pytest.raises(PoisonedLogError):
            again.log("t", 0)
        again.log("t", 0)
        assert [request.is_clean for request in opened] == [True, False]
    assert marked(stores) == ["/a", "/b"]


# Closing


def test_the_marker_says_that_all_was_closed(stores, store) -> None:
    store.topics.create("t", 4)  # two in each directory
    store.close()
    assert marked(stores) == ["/a", "/b"]
    unmark(stores)
    with stores.open() as again:
        for number in (0, 2, 1):
            again.log("t", number)
    assert marked(stores) == ["/a"]
    with stores.open() as again:
        again.log("t", 3)
        again.topics.create("u", 2)
    assert marked(stores) == ["/a"]
    with stores.open() as again:
        for topic, partitions in again.topics.inventory.topics.items():
            for number in partitions:
                again.log(topic, number)
    assert marked(stores) == ["/a", "/b"]


@pytest.mark.parametrize("trouble", ["is_poisoned", "fails_to_close"])
def test_no_marker_where_a_log_was_not_closed(stores, store, trouble: str) -> None:
    store.topics.create("t", 2)
    bad, good = store.log("t", 0), store.log("t", 1)
    setattr(bad, trouble, True)
    if trouble == "fails_to_close":
        with pytest.raises(PoisonedLogError):
            store.close()
    else:
        store.close()
    assert good.closed == bad.closed == 1
    assert marked(stores) == ["/b"]
    stores.open().close()


def test_no_marker_after_a_deletion_that_broke_off(stores, store) -> None:
    """A log of the topic was not closed, and the topic is still there: what it has may not be on disk."""
    store.topics.create("t", 2)
    store.topics.create("u", 1)
    bad = store.log("u", 0)

    def close() -> None:
        raise MemoryError

    bad.close = close
    with pytest.raises(MemoryError):
        store.topics.delete("u")
    store.close()
    assert "u" in stores.read().topics.inventory.topics
    assert marked(stores) == ["/b"]


def test_no_marker_after_an_opening_that_failed(stores, store) -> None:
    def open_log(_, __):
        raise PoisonedLogError("no")

    store.topics.create("t", 2)
    store.close()
    with stores.open(open_log=open_log) as again, pytest.raises(PoisonedLogError):
        again.log("t", 0)
    assert marked(stores) == ["/b"]


# Following


def test_a_reader_sees_what_a_broker_does(stores, store) -> None:
    store.topics.create("t", 2)
    reader = stores.read()
    log, other = reader.log("t", 0), reader.log("t", 1)
    before = reader.topics.inventory
    store.topics.create("u", settings={"retention.ms": "5"})
    store.topics.change_config("t", {"retention.ms": "6"})
    stores.files.rename("/a/t-0", f"/a/t-0.{HEX}-stray")
    stores.files.make_directory("/b/lost+found")
    assert reader.topics.inventory is before
    steps = stores.files.steps
    reader.refresh()
    assert {topic: list(found) for topic, found in reader.topics.inventory.topics.items()} == {"t": [1], "u": [0]}
    assert [str(name) for _, name in reader.topics.inventory.unattached] == [f"t-0.{HEX}-stray"]
    assert [str(place.path) for place in reader.topics.inventory.foreign] == ["/b/lost+found"]
    assert reader.topics.config("u").retention_ms == 5
    assert reader.topics.config("t").retention_ms == 6
    assert (log.is_parted, other.is_parted) == (True, False)
    with pytest.raises(UnknownPartitionError):
        reader.log("t", 0)
    assert list(before.topics["t"]) == [0, 1]
    assert stores.files.steps == steps


def test_a_partition_that_moves_is_where_it_was_until_it_is_gone(stores, store) -> None:
    store.topics.create("t")
    reader = stores.read()
    stores.files.make_directory("/b/t-0")
    reader.refresh()
    assert str(reader.topics.directory("t", 0)) == "/a/t-0"
    stores.files.rename("/a/t-0", f"/a/t-0.{HEX}-delete")
    reader.refresh()
    assert str(reader.topics.directory("t", 0)) == "/b/t-0"


def test_a_reader_reads_checkpoints_again(stores, store) -> None:
    store.topics.create("t", 2)
    reader = stores.read()
    assert reader.log("t", 0).checkpointed_start == 0
    log = store.log("t", 1)
    log.start_offset = log.end_offset = 7
    store.write_checkpoints()
    reader.refresh()
    assert reader.log("t", 1).checkpointed_start == 7


def test_deleted_directories_of_an_earlier_time_are_due_later(stores, store) -> None:
    store.close()
    stores.files.make_directory(f"/b/t-0.{HEX}-delete")
    store = stores.open(broker_settings={"log.segment.delete.delay.ms": "100"})
    due_ms = stores.clock.ms + 100
    stores.clock.ms += 50
    store.refresh()
    assert store.topics.removals.due(due_ms - 1) == []
    assert [doomed.path for doomed in store.topics.removals.due(due_ms)] == [f"/b/t-0.{HEX}-delete"]
    store.close()
    assert stores.read().topics.removals.due(2**60) == []
