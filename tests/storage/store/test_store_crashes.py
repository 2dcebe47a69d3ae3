"""Every step of making, changing, deleting and closing is cut once: afterwards a topic is there whole or not at all."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from storage.errors import StorageError
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.creation import are_vacant
from storage.log_dir.recognition import CLEAN_MARKER_NAME
from storage.testing.faults import Cut, CutError, Effect, InterruptError
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from storage.store.store import Store

POWER_LOSSES = 4
SETTINGS = {"retention.ms": "5"}


def cuts(stores, prepare: Callable[[], Store], act: Callable[[Store], None]) -> Iterator[tuple[Store, bool, int]]:
    """The store at each step at which the act is cut, whether the process is dead, and the step."""
    for effect in Effect:
        step = 0
        while True:
            stores.files = MemoryFiles()
            store = prepare()
            stores.files.cut = Cut(stores.files.steps + step, effect)
            try:
                act(store)
            except CutError:
                yield store, True, step
            except (OSError, StorageError, MemoryError, InterruptError):
                stores.files.cut = None
                yield store, False, step
            else:
                # A step that may fail in silence is followed by others; the end is where no step was cut.
                if stores.files.steps <= stores.files.cut.step:
                    break
                stores.files.cut = None
                yield store, False, step
            step += 1
        assert step >= 4, "there is something to cut"


def later(stores, *, dead: bool, step: int) -> Iterator[MemoryFiles]:
    """What the next process may find."""
    yield stores.files.after_process_death()
    if dead:
        for seed in range(POWER_LOSSES):
            yield stores.files.after_power_loss(POWER_LOSSES * step + seed)


def check_whole(stores, files: MemoryFiles, partitions: dict[str, int], *, due_of: str = "") -> Store:
    """Readers and the next writer see each topic whole, with its settings, or not at all; and then it can be made."""
    seen = []
    for opened in (stores.on(files).read, stores.on(files).open):
        store = opened()
        found = {topic: len(places) for topic, places in store.topics.inventory.topics.items()}
        assert found.items() <= partitions.items()
        for topic in found:
            if topic != "old":
                assert store.topics.config(topic).retention_ms == 5
            ids = {store.topics.topic_id(topic) for number in store.topics.partitions(topic)}
            assert len(ids) == 1
        seen.append(found)
    assert seen[0] == seen[1]
    assert store.topics.settings_file.current.void == {}
    if due_of and due_of not in found:
        assert set(store.topics.settings_file.current.topics) <= set(found)
        store.topics.create(due_of)
    store.close()
    stores.on(files).open().close()
    return store


def test_making_a_topic(stores) -> None:
    def prepare() -> Store:
        store = stores.create()
        store.topics.create("old")
        return store

    outcomes = set()
    for store, dead, step in cuts(stores, prepare, lambda store: store.topics.create("t", 3, SETTINGS)):
        if not dead:  # the process goes on, and sees what is there
            outcomes.add("t" in store.topics.inventory.topics)
            if "t" not in store.topics.inventory.topics:
                store.topics.create("t", 3, SETTINGS)
        for files in later(stores, dead=dead, step=step):
            was_made_now = "t" in check_whole(stores, files, {"old": 1, "t": 3}, due_of="t").topics.made
            outcomes.add(was_made_now)
    assert outcomes == {True, False}


def test_an_acknowledged_topic_survives(stores) -> None:
    stores.create().topics.create("t", 3, SETTINGS)
    for seed in range(20):
        store = stores.on(stores.files.after_power_loss(seed)).open()
        assert len(store.topics.partitions("t")) == 3
        assert store.topics.config("t").retention_ms == 5


def test_adding_a_partition(stores) -> None:
    def prepare() -> Store:
        store = stores.create()
        store.topics.create("t", 2, SETTINGS)
        return store

    for _, dead, step in cuts(stores, prepare, lambda store: store.topics.add_partition("t")):
        for files in later(stores, dead=dead, step=step):
            with stores.on(files).open() as store:
                assert len(store.topics.partitions("t")) in (2, 3)
                assert store.topics.config("t").retention_ms == 5
                number = store.topics.add_partition("t")
                assert list(store.topics.partitions("t")) == list(range(number + 1))


def test_deleting_a_topic(stores) -> None:
    def prepare() -> Store:
        store = stores.create()
        store.topics.create("old")
        store.topics.create("t", 3, SETTINGS)
        for number in range(3):
            log = store.log("t", number)
            log.start_offset = log.end_offset = 9
        store.write_checkpoints()
        return store

    def delete(store: Store) -> None:
        for doomed in store.topics.delete("t"):
            store.topics.removals.remove(doomed)

    outcomes = set()
    for store, dead, step in cuts(stores, prepare, delete):
        if not dead and "t" in store.topics.inventory.topics:
            store.topics.delete("t")
        for files in later(stores, dead=dead, step=step):
            outcomes.add("t" in stores.on(files).read().topics.inventory.topics)
            check_whole(stores, files, {"old": 1, "t": 3}, due_of="t")
    assert outcomes == {True, False}


def test_a_deleted_topic_stays_deleted(stores) -> None:
    store = stores.create()
    store.topics.create("t", 3)
    store.topics.delete("t")
    for seed in range(20):
        later_store = stores.on(stores.files.after_power_loss(seed)).open()
        assert list(later_store.topics.inventory.topics) == []
        assert len(later_store.topics.removals.due(2**60)) == 3


def test_changing_settings(stores) -> None:
    def prepare() -> Store:
        store = stores.create()
        store.topics.create("t", 1, SETTINGS)
        return store

    for store, dead, step in cuts(
        stores, prepare, lambda store: store.topics.change_config("t", {"retention.ms": "6"})
    ):
        for files in later(stores, dead=dead, step=step):
            found = stores.on(files).read().topics.config("t").retention_ms
            assert found in (5, 6)
            if not dead:
                assert store.topics.settings_file.current.topics["t"].settings == {"retention.ms": str(found)}


CHANGES = {
    "make a topic": lambda store: store.topics.create("new", 3, SETTINGS),
    "add a partition": lambda store: store.topics.add_partition("t"),
    "change settings": lambda store: store.topics.change_config("t", {"retention.ms": "6"}),
    "stop compacting": lambda store: store.topics.change_config("t", {"cleanup.policy": "delete"}),
    "delete a topic": lambda store: store.topics.delete("t"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_full_disk_refuses_has_changed_nothing(stores, name: str) -> None:
    """The topics, their settings, and the directories that a broker would find."""

    def state(store: Store) -> object:
        topics = store.topics
        places = {topic: sorted(topics.partitions(topic)) for topic in topics.inventory.topics}
        names = {name for path in stores.paths for name in stores.files.names(path)}
        directories = {name for name in names if name.startswith(("t-", "new-")) and not name.endswith("-delete")}
        return places, {topic: list(topics.config(topic).lines()) for topic in places}, directories

    refused, step = 0, 0
    while True:
        stores.files = MemoryFiles()
        store = stores.create()
        store.topics.create("t", 2, {**SETTINGS, "cleanup.policy": "compact"})
        before = state(store)
        stores.files.cut = Cut(stores.files.steps + step, Effect.DISK_FULL, seed=step)
        number = 0
        try:
            CHANGES[name](store)
        except OSError as error:
            refused, number = refused + 1, error.errno
        if stores.files.steps <= stores.files.cut.step:
            break
        assert (state(store) == before) == (number == errno.ENOSPC) or number == errno.EIO
        stores.files.cut = None
        if state(store) == before:
            CHANGES[name](store)
            assert state(store) != before
        step += 1
    assert refused >= 4


def test_making_a_store(stores) -> None:
    def act(_: object) -> None:
        stores.create()

    for _, dead, step in cuts(stores, lambda: None, act):
        for files in later(stores, dead=dead, step=step):
            again = stores.on(files)
            store = again.create() if are_vacant([files.directory(path) for path in stores.paths]) else again.open()
            assert store.is_made_here
            store.topics.create("t", 2)
            assert {str(log_dir.path) for log_dir in store.topics.partitions("t").values()} == {"/a", "/b"}


def test_closing(stores) -> None:
    """The marker never says more than is true, and a checkpoint says the old or the new."""

    def prepare() -> Store:
        store = stores.create()
        store.topics.create("t", 2)
        for number in range(2):
            log = store.log("t", number)
            log.end_offset = log.recovery_point = 3
        store.write_checkpoints()
        for number in range(2):
            store.log("t", number).end_offset = 7
        return store

    for _, dead, step in cuts(stores, prepare, lambda store: store.close()):
        for files in later(stores, dead=dead, step=step):
            for number, path in enumerate(("/a", "/b")):
                offsets = read_offsets(files.directory(path), OffsetCheckpoint.RECOVERY_POINT)
                assert offsets[("t", number)] in (3, 7)
                if CLEAN_MARKER_NAME in files.names(path):
                    assert offsets[("t", number)] == 7
            stores.on(files).open().close()


def test_opening(stores) -> None:
    def prepare() -> None:
        stores.create().close()

    for _, dead, step in cuts(stores, prepare, lambda _: stores.open()):
        for files in later(stores, dead=dead, step=step):
            stores.on(files).open().close()


def test_what_is_open_for_writing_is_not_marked(stores) -> None:
    stores.create().close()
    stores.open()
    for seed in range(20):
        files = stores.files.after_power_loss(seed)
        assert not any(CLEAN_MARKER_NAME in files.names(path) for path in stores.paths)
