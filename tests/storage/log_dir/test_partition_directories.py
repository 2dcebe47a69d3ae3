"""What is void counts as absent, is cleared up by the next change, and is never somebody else's."""

from __future__ import annotations

import errno

import pytest

from storage.testing.memory_files import MemoryFiles


class BreakableFiles(MemoryFiles):
    """While they are broken, nothing can be renamed, and the directory of partition 1 cannot be made."""

    is_broken = False

    def rename(self, old, new) -> None:
        if self.is_broken and not str(old).endswith(".tmp"):
            raise OSError(errno.EIO, "the disk is broken")
        super().rename(old, new)

    def make_directory(self, path, **options) -> None:
        if self.is_broken and str(path).endswith("-1"):
            raise OSError(errno.EIO, "the disk is broken")
        super().make_directory(path, **options)


@pytest.fixture
def broken(stores):
    stores.files = BreakableFiles()
    stores.paths = ("/a",)
    return stores


def test_a_topic_is_made_after_it_could_not_be(broken) -> None:
    store = broken.create()
    broken.files.is_broken = True
    with pytest.raises(OSError, match="the disk is broken"):
        store.topics.create("t", 3)
    assert broken.files.status("/a/t-0") is not None
    assert list(store.topics.inventory.topics) == list(broken.read().topics.inventory.topics) == []
    broken.files.is_broken = False
    store.topics.create("t", 3)
    assert list(store.topics.partitions("t")) == [0, 1, 2]
    assert len(store.topics.removals.due(2**60)) == 1


def test_a_deletion_that_was_not_finished_is_one_all_the_same(broken, caplog: pytest.LogCaptureFixture) -> None:
    store = broken.create()
    store.topics.create("t", 3)
    broken.files.is_broken = True
    store.topics.delete("t")  # the settings file says so; the directories wait
    assert "are renamed later: " in caplog.text
    assert broken.files.status("/a/t-0") is not None
    assert list(store.topics.inventory.topics) == list(broken.read().topics.inventory.topics) == []
    broken.files.is_broken = False
    store.close()
    with broken.open() as again:
        assert list(again.topics.inventory.topics) == []
        assert len(again.topics.removals.due(2**60)) == 3


def test_a_store_opens_on_a_full_disk_that_had_no_room_to_forget_a_topic(stores, store, caplog) -> None:
    store.topics.create("t", 2)
    file = store.topics.settings_file
    file.replace(file.current.with_void(["t-1"], store.topics.topic_id("t")))
    store.close()
    stores.files.capacity_bytes = 0
    with stores.open() as again:
        assert list(again.topics.partitions("t")) == [0]
        assert "what was left of topics is removed by the next change: " in caplog.text
        assert [name.partition for _, name in again.topics.inventory.unattached] == [1]
        stores.files.capacity_bytes = None
    with stores.open() as again:
        assert again.topics.settings_file.current.void == {}


@pytest.mark.parametrize("metadata", [b"version: 0\ntopic_id: FZTjvEy8lKP5DcrJNRCNmw", b"torn", None])
def test_what_a_broker_made_in_between_is_not_void(stores, store, metadata: bytes | None) -> None:
    store.topics.create("t")
    file, topic_id = store.topics.settings_file, store.topics.topic_id("t")
    file.replace(file.current.with_void(["t-0", "lost+found"], topic_id))
    assert list(stores.read().topics.inventory.topics) == []
    stores.files.remove("/a/t-0/partition.metadata")
    stores.files.open_writing("/a/t-0/00000000000000000000.log", create=True).close()
    if metadata is not None:
        with stores.files.open_writing("/a/t-0/partition.metadata", create=True) as written:
            written.write_at(0, [metadata])
    assert list(stores.read().topics.inventory.topics) == ["t"]
    store.close()
    with stores.open() as again:
        assert list(again.topics.inventory.topics) == ["t"]
        assert again.topics.settings_file.current.void == {}
