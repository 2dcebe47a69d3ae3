"""A topic whose id cannot be read is read, by settings that are unknown, and not written."""

from __future__ import annotations

import pytest
from memory_logs import sent

from storage.clock import Clock
from storage.errors import CorruptMetadataError
from storage.log.partition_metadata import PARTITION_METADATA_NAME
from storage.store import Mode, Store
from storage.testing.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    """Make a store with a topic of two partitions, each with a record."""
    files = MemoryFiles()
    files.make_directory("/a")
    with Store.create(["/a"], files=files, clock=Clock()) as store:
        store.topics.create("t", 2, {"cleanup.policy": "compact"})
        for partition in range(2):
            store.log_to_write("t", partition).append_as_leader(sent(b"x"))
    return files


def damage(files: MemoryFiles, *partitions: int) -> None:
    for partition in partitions:
        with files.open_writing(f"/a/t-{partition}/{PARTITION_METADATA_NAME}") as file:
            file.truncate(0)


def opened(files: MemoryFiles, mode: Mode = Mode.READ_ONLY) -> Store:
    return Store.open(["/a"], mode=mode, files=files, clock=Clock())


def test_another_partition_tells_the_id(files: MemoryFiles) -> None:
    whole = opened(files)
    topic_id = whole.topics.topic_id("t")
    damage(files, 0)
    store = opened(files)
    assert store.topics.topic_id("t") == topic_id
    assert not store.topics.config("t").unknown


def test_its_records_are_read_and_its_settings_unknown(files: MemoryFiles) -> None:
    damage(files, 0, 1)
    store = opened(files)
    assert [batch.base_offset for batch in store.log("t", 0).view.batches(0)] == [0]
    reason = "the topic's id cannot be read: the file does not consist of a version and a topic id (partition.metadata)"
    assert store.topics.config("t").unknown["cleanup.policy"] == reason
    with pytest.raises(CorruptMetadataError):
        store.topics.topic_id("t")


def test_it_is_not_written_until_the_file_is_back(files: MemoryFiles) -> None:
    data = files.read(f"/a/t-0/{PARTITION_METADATA_NAME}")
    damage(files, 0, 1)
    with opened(files, Mode.READ_WRITE) as store:
        with pytest.raises(CorruptMetadataError):
            store.log("t", 0)
        with files.open_writing(f"/a/t-0/{PARTITION_METADATA_NAME}") as file:
            file.write_at(0, [data])
        assert store.log_to_write("t", 0).append_as_leader(sent(b"y")).first_offset == 1
