"""`config` says what holds for a topic; what is written changes those settings, all of a write or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock
from metadata_logs import TIME_MS, BrokerDir, partition_record, topic_record, topic_setting

from kafkafs.content import SizeCache
from kafkafs.locator.paths import ConfigPath, TopicPath
from kafkafs.tree.config_file import ConfigFile
from kafkafs.tree.context import TreeContext
from kafkafs.tree.errors import InvalidInputError, NotPermittedError, ReadOnlyTreeError
from kafkafs.tree.options import TreeOptions
from storage.clock import Clock
from storage.config import TOPIC_SETTINGS
from storage.errors import ConfigError
from storage.files import Files
from storage.log_dir.settings_file import SETTINGS_NAME
from storage.store.store import Mode, Store
from storage.testing.faults import Cut, Effect
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from conftest import Views

BROKER = {"log.retention.bytes": "123456"}


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def store(files: MemoryFiles) -> Store:
    store = Store.create(["/a"], files=files, clock=StandingClock(), broker_settings=BROKER)
    store.topics.create("orders", 1, {"segment.bytes": "4096"})
    store.topics.create("payments", 1)
    return store


def node(store: Store, topic: str = "orders") -> ConfigFile:
    context = TreeContext(store, TreeOptions(), clock=StandingClock(), sizes=SizeCache(store.files, None))
    return ConfigFile(ConfigPath(TopicPath(topic)), context, topic)


def text(store: Store, topic: str = "orders") -> str:
    file = node(store, topic)
    found = bytes(file.open().read(0, 100_000))
    assert file.attributes().size_bytes == len(found)
    return found.decode()


def write(store: Store, *writes: bytes, topic: str = "orders") -> None:
    writing = node(store, topic).open_writing()
    for data in writes:
        writing.write(data)
    writing.flush()
    writing.sync()
    assert writing.read(100) == b""
    writing.close()


def test_it_has_every_setting_and_says_where_it_comes_from(store: Store) -> None:
    lines = text(store).splitlines()
    of_39 = (key for key, setting in TOPIC_SETTINGS.items() if setting.since_4 != "4.4: new")
    assert [line.partition("=")[0] for line in lines] == sorted(of_39)
    assert {"segment.bytes=4096  # topic", "retention.bytes=123456  # broker", "retention.ms=604800000  # default"} <= {
        *lines
    }


@pytest.mark.parametrize(
    "writes",
    [
        [b"retention.ms=3600000\n"],
        [b"retention.ms=3600000"],
        [b"reten", b"tion.ms=3600000", b"\n"],
        [b"\n# a comment\n retention.ms = 3600000  # topic\n\n"],
        [b"retention.ms=1\nretention.ms=3600000\n"],
        [b"retention.ms=1\n", b"retention.ms=3600000\n"],
    ],
)
def test_what_is_written_holds_at_once_for_logs_that_are_open(store: Store, writes: list[bytes]) -> None:
    log = store.log("orders", 0)
    assert log.config.retention_ms == 604800000
    write(store, *writes)
    assert log.config.retention_ms == 3600000
    assert "retention.ms=3600000  # topic\n" in text(store)
    assert "segment.bytes=4096  # topic\n" in text(store)
    assert "retention.ms=604800000  # default\n" in text(store, "payments")


def test_a_setting_is_unset_by_asking_for_the_default(store: Store) -> None:
    write(store, b"retention.bytes=5\n")
    write(store, b"retention.bytes=default\nsegment.bytes=default\n")
    assert "retention.bytes=123456  # broker\n" in text(store)
    assert "segment.bytes=1073741824  # default\n" in text(store)


def test_a_copied_file_gives_a_topic_only_what_the_other_was_given(store: Store) -> None:
    write(store, text(store).encode(), topic="payments")
    assert text(store, "payments") == text(store)
    assert dict(store.topics.settings_file.current.topics["payments"].settings) == {"segment.bytes": "4096"}


@pytest.mark.parametrize(
    ("written", "error", "said"),
    [
        (b"retention.ms=5\nno.such.key=1\n", ConfigError, r"^line 2: .*no\.such\.key.*\(/orders/config\)$"),
        (b"retention.ms=5\nsegment.bytes=few\n", ConfigError, r"^line 2: segment\.bytes=few is refused"),
        (b"retention.ms\n", ConfigError, r"^line 1: .*key=value"),
        (b"min.compaction.lag.ms=9\nmax.compaction.lag.ms=8\n", ConfigError, r"min\.compaction\.lag\.ms"),
        (b"retention.ms=5\nretention.bytes=\xff\n", InvalidInputError, r"^/orders/config: byte 32 is not UTF-8$"),
        (b"retention.ms=5\n" + b"x" * 70_000, InvalidInputError, r"65536 bytes"),
    ],
)
def test_a_write_with_anything_bad_in_it_changes_nothing(
    store: Store, files: MemoryFiles, written: bytes, error: type[Exception], said: str
) -> None:
    before, steps = text(store), files.steps
    writing = node(store).open_writing()
    with pytest.raises(error, match=said):
        writing.write(written + b"and a half li")
    assert (text(store), files.steps) == (before, steps)
    writing.write(b"ne=1\nretention.ms=6\n")
    assert "retention.ms=6  # topic\n" in text(store)


def test_a_bad_line_without_a_newline_is_refused_at_the_flush(store: Store) -> None:
    writing = node(store).open_writing()
    writing.write(b"retention.ms=5\nretention.ms=few")
    with pytest.raises(ConfigError):
        writing.flush()
    writing.flush()
    assert "retention.ms=5  # topic\n" in text(store)


def test_what_only_tells_what_holds_writes_nothing(store: Store, files: MemoryFiles) -> None:
    steps = files.steps
    write(store, b"retention.ms=5  # default\nretention.bytes=7  # broker\n# nothing\n\n")
    assert files.steps == steps


def test_a_change_is_durable_when_the_write_returns(files: MemoryFiles, store: Store) -> None:
    node(store).open_writing().write(b"retention.ms=5\n")
    for seed in range(5):
        left = files.after_power_loss(seed)
        found = Store.open(["/a"], mode=Mode.READ_ONLY, files=left, clock=StandingClock())
        assert found.topics.config("orders").retention_ms == 5


def test_a_disk_that_is_full_changes_nothing(files: MemoryFiles, store: Store) -> None:
    before = text(store)
    files.cut = Cut(files.steps, Effect.DISK_FULL)
    with pytest.raises(OSError, match="No space"):
        node(store).open_writing().write(b"retention.ms=5\n")
    assert text(store) == before


def test_settings_that_are_not_allowed_can_be_mended(files: MemoryFiles, store: Store) -> None:
    path = f"/a/{SETTINGS_NAME}"
    store.close()
    bad = files.read(path).replace(b"segment.bytes=4096", b"segment.bytes=few")
    with files.open_writing(path) as settings:
        settings.truncate(0)
        settings.write_at(0, [bad])
    store = Store.open(["/a"], mode=Mode.READ_WRITE, files=files, clock=StandingClock())
    file = node(store)
    assert file.attributes().size_bytes is None
    with pytest.raises(ConfigError, match=r"segment\.bytes=few"):
        file.open()
    write(store, b"segment.bytes=default\n")
    assert "segment.bytes=1073741824  # default\n" in text(store)


def test_who_may_write_it(files: MemoryFiles, store: Store) -> None:
    assert node(store).attributes().is_writable
    assert node(store).attributes().modified_ms == files.now_ms
    store.close()
    files.make_directory("/a/__cluster_metadata-0")
    store = Store.open(["/a"], mode=Mode.READ_WRITE, files=files, clock=StandingClock())
    internal = node(store, "__cluster_metadata")
    assert not internal.attributes().is_writable
    with pytest.raises(NotPermittedError, match="__cluster_metadata/config"):
        internal.open_writing()
    store.close()
    reading = node(Store.open(["/a"], mode=Mode.READ_ONLY, files=files, clock=StandingClock()))
    assert not reading.attributes().is_writable
    with pytest.raises(ReadOnlyTreeError, match="orders/config"):
        reading.open_writing()


def test_a_store_without_a_settings_file_is_as_old_as_its_topic(views: Views) -> None:
    store = Store.open([views.root("kafka-2.2/kafka-2.2") / "d1"], mode=Mode.READ_ONLY, files=Files(), clock=Clock())
    topic = next(iter(store.topics.inventory.topics))
    directory = Path(store.topics.directory(topic, min(store.topics.partitions(topic))))
    assert node(store, topic).attributes().modified_ms == directory.stat().st_mtime_ns // 1_000_000
    assert "cleanup.policy=unknown  # unknown: the cluster has it in ZooKeeper (" in text(store, topic)


def test_it_is_as_new_as_the_last_change_in_the_cluster(files: MemoryFiles) -> None:
    broker = BrokerDir(files)
    broker.add_partition("orders")
    broker.tell(topic_record("orders"), partition_record(), topic_setting("orders", "retention.ms", "10"))
    with Store.open([broker.path], mode=Mode.READ_WRITE, files=files, clock=StandingClock()) as store:
        assert node(store).attributes().modified_ms == TIME_MS
        broker.tell(partition_record(1), time_ms=TIME_MS + 7)
        assert node(store).attributes().modified_ms == TIME_MS
        before = node(store).attributes().size_bytes
        broker.tell(topic_setting("orders", "retention.ms", "11"), time_ms=TIME_MS + 9)
        assert (node(store).attributes().size_bytes, node(store).attributes().modified_ms) == (before, TIME_MS + 9)
        files.now_ms = TIME_MS + 11
        write(store, b"flush.ms=5\n")
        assert node(store).attributes().modified_ms == TIME_MS + 11
