"""A store with its logs is cut at every step of its life, and what it remembers is enough to keep all promises."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock, sent
from promises import LogPromises, PromisedBatch
from soundness import check_sound

from storage.errors import StorageError
from storage.log.flushing import Durability
from storage.record.encoding import BatchForm
from storage.record.reading import read_batches
from storage.store.cleaning import StoreRetention
from storage.store.log_opener import LogOpener
from storage.store.store import Mode, Store
from storage.testing.faults import BREAKS
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from storage.log.log import Log

pytestmark = pytest.mark.crash

PATHS = ("/a", "/b")
SETTINGS = {"segment.bytes": "700", "segment.index.bytes": "120", "index.interval.bytes": "100"}


@dataclass
class PromisingStore:
    """A store and what it has promised; `topics` are those that are there, `unsure` those that may be or not."""

    durability: Durability
    files: MemoryFiles = field(default_factory=MemoryFiles)
    topics: dict[str, int] = field(default_factory=dict)
    unsure: dict[str, int] = field(default_factory=dict)
    logs: dict[tuple[str, int], LogPromises] = field(default_factory=dict)
    store: Store | None = None
    opening: LogOpener | None = None

    def survivor(self, files: MemoryFiles) -> PromisingStore:
        logs = {partition: promises.copy() for partition, promises in self.logs.items()}
        return PromisingStore(self.durability, files, dict(self.topics), dict(self.unsure), logs)

    # Its life

    def open(self, make: bool = False) -> Store:
        self.opening = LogOpener(durability=self.durability, rng=random.Random(0))
        given = {"files": self.files, "clock": StandingClock(), "open_log": self.opening}
        entropy = random.Random(self.files.steps).randbytes
        if make:
            self.store = Store.create(PATHS, entropy=entropy, **given)
        else:
            self.store = Store.open(PATHS, mode=Mode.READ_WRITE, entropy=entropy, **given)
        return self.store

    def create(self, topic: str, partitions: int) -> None:
        self.unsure[topic] = partitions
        self.store.topics.create(topic, partitions, SETTINGS)
        self.topics[topic] = self.unsure.pop(topic)

    def delete(self, topic: str) -> None:
        self.unsure[topic] = self.topics.pop(topic)
        for doomed in self.store.topics.delete(topic):
            self.store.topics.removals.remove(doomed)
        self.forget(topic)

    def forget(self, topic: str) -> None:
        del self.unsure[topic]
        for partition in [partition for partition in self.logs if partition[0] == topic]:
            del self.logs[partition]

    def log(self, topic: str, number: int) -> tuple[Log, LogPromises]:
        promises = self.logs.setdefault((topic, number), LogPromises(self.durability is Durability.SYNCED))
        return self.store.log(topic, number), promises

    def append(self, topic: str, number: int, value: bytes, *, producer_id: int = -1) -> None:
        log, promises = self.log(topic, number)
        mine = [batch for batch in promises.batches if batch.producer[0] == producer_id >= 0]
        sequence = -1 if producer_id < 0 else mine[-1].producer[2] + 1 if mine else 0
        data = sent(
            value, BatchForm(producer_id=producer_id, producer_epoch=min(producer_id, 0), base_sequence=sequence)
        )
        batch = PromisedBatch.of(next(iter(read_batches(data))), offset=log.view.end_offset, leader_epoch=0)
        with promises.appending(batch):
            log.append_as_leader(data, leader_epoch=0)
        promises.flushed(log.recovery_point)

    def flush(self, topic: str, number: int) -> None:
        log, promises = self.log(topic, number)
        log.flush()
        promises.flushed(log.recovery_point)

    def truncate(self, topic: str, number: int, offset: int) -> None:
        log, promises = self.log(topic, number)
        with promises.truncating(offset):
            log.truncate_to(offset)

    def advance_start(self, topic: str, number: int, offset: int) -> None:
        log, promises = self.log(topic, number)
        with promises.starting(offset):
            log.advance_start(offset)

    def retain(self, topic: str, number: int, count: int) -> None:
        """Let retention take so many segments, or all, and their files right after."""
        log, promises = self.log(topic, number)
        view = log.view
        left_bytes = sum(segment.size_bytes for segment in view.segments[count:])
        self.store.topics.change_config(topic, {"retention.bytes": str(left_bytes)})
        retentions = StoreRetention(self.store, StandingClock())
        plan = retentions.plan(topic, number)
        assert len(plan.deleted) == count
        with promises.removing(plan.new_start_offset):
            retentions.apply(topic, number, plan)
        promises.starts.add(log.view.start_offset)  # a full disk keeps the last segment
        for doomed in self.store.topics.removals.due(2**62):
            self.store.topics.removals.remove(doomed)

    def write_checkpoints(self) -> None:
        self.store.write_checkpoints()
        for promises in self.logs.values():
            promises.starts = {max(promises.starts)}

    def close(self) -> None:
        self.store.close()
        for promises in self.logs.values():
            promises.durable_offset = promises.end_offset
            promises.starts = {max(promises.starts)}
        self.store = None


def fill(store: PromisingStore, topic: str, number: int, count: int) -> None:
    for index in range(count):
        store.append(topic, number, b"%d" % index * 150, producer_id=index % 2 - 1)


def first_life(store: PromisingStore) -> None:
    store.create("t", 2)
    fill(store, "t", 0, 5)
    fill(store, "t", 1, 2)
    store.write_checkpoints()
    store.advance_start("t", 0, 2)
    store.create("u", 1)
    fill(store, "u", 0, 2)
    store.flush("t", 0)
    store.write_checkpoints()
    fill(store, "t", 0, 2)
    store.delete("u")
    store.close()


def second_life(store: PromisingStore) -> None:
    """Not everything is opened, so that closing has to say what others left."""
    store.open()
    fill(store, "t", 0, 3)
    store.write_checkpoints()
    store.create("u", 2)
    fill(store, "u", 1, 3)
    store.close()
    store.open()
    store.delete("t")
    fill(store, "u", 1, 3)


def cut_back(store: PromisingStore) -> None:
    """A truncation far below what checkpoints say, and other records in the place of those that are gone."""
    store.open()
    store.flush("t", 0)
    store.advance_start("t", 0, 4)
    store.write_checkpoints()
    store.truncate("t", 0, 1)
    fill(store, "t", 0, 9)


def expiry(store: PromisingStore) -> None:
    """Retention takes the first segments, those below a start in the middle of one, and all that there are."""
    store.open()
    fill(store, "t", 0, 5)
    store.retain("t", 0, 2)
    store.advance_start("t", 0, store.log("t", 0)[0].view.bases[1] + 1)
    store.write_checkpoints()
    store.retain("t", 0, 1)
    fill(store, "t", 0, 2)
    store.write_checkpoints()
    store.retain("t", 0, len(store.log("t", 0)[0].view.bases))
    fill(store, "t", 0, 1)
    store.close()


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("act", [first_life, second_life, cut_back, expiry])
def test_a_store_keeps_its_promises(crashes, act, durability: Durability) -> None:
    def prepare() -> PromisingStore:
        store = PromisingStore(durability)
        for path in PATHS:
            store.files.make_directory(path)
        store.files.sync_directory("/")
        store.open(make=True)
        if act is not first_life:
            store.create("t", 2)
            fill(store, "t", 0, 5)
            fill(store, "t", 1, 2)
            store.advance_start("t", 1, 1)
            store.close()
        return store

    begun = prepare()

    def again() -> PromisingStore:
        return prepare() if act is first_life else begun.survivor(begun.files.after_process_death())

    for store, later in crashes.of(again, act):
        if later.effect in BREAKS:
            expect_refusals_or_go_on(store)
        closes = later.rng.randrange(2)
        if not later.is_dead and store.store is not None and closes:
            with suppress(StorageError, OSError):
                store.store.close()
        for files, has_lost_power in later:
            check_survivor(store, files, later, has_lost_power=has_lost_power)


def expect_refusals_or_go_on(store: PromisingStore) -> None:
    """Every log that is open refuses every write, or is as it was before something broke off, and takes more."""
    for (topic, number), log in store.store.open_logs().items() if store.store is not None else ():
        promises = store.logs.get((topic, number))
        if topic not in store.topics or promises is None:
            continue
        attempted, promises.attempted = promises.attempted, None
        try:
            log.append_as_leader(sent(b"and on"), leader_epoch=0)
        except StorageError:
            promises.attempted = attempted
            continue
        batch = PromisedBatch.of(log.view.find(promises.end_offset))
        assert batch.first_offset == promises.end_offset
        assert log.view.end_offset == batch.last_offset + 1
        with promises.appending(batch):
            found = [PromisedBatch.of(batch) for batch in log.view.batches(log.view.start_offset)]
            assert found[:-1] == [batch for batch in promises.batches if batch.last_offset >= log.view.start_offset]


def check_survivor(store: PromisingStore, files: MemoryFiles, later, *, has_lost_power: bool) -> None:
    """Open what is left, hold every log to its promises, go on, and lose the power again."""
    for _ in range(later.lives):
        survivor = store.survivor(files)
        survivor.open()
        check_topics(survivor)
        for (topic, number), promises in survivor.logs.items():
            log, _ = survivor.log(topic, number)
            first_offset = log.view.segments[0].base_offset
            assert first_offset <= max(promises.removed_offset, *promises.starts)
            assert log.view.start_offset in {*promises.starts, first_offset}
            promises.check(log.view, promises.durable_offset if has_lost_power else promises.written_offset)
            check_sound(log)
        for topic, count in survivor.topics.items():
            fill(survivor, topic, count - 1, 3)
        store, files, has_lost_power = survivor, survivor.files.after_power_loss(later.rng.getrandbits(32)), True
    survivor.close()
    survivor.open()
    for topic, number in survivor.logs:
        survivor.log(topic, number)
    steps = {partition: report.steps for partition, report in survivor.opening.reports.items() if report.steps}
    assert steps == {}
    survivor.close()


def check_topics(store: PromisingStore) -> None:
    """Topics are there whole or not at all."""
    found = {topic: len(places) for topic, places in store.store.topics.inventory.topics.items()}
    assert store.topics.items() <= found.items() <= {**store.topics, **store.unsure}.items()
    for topic in list(store.unsure):
        if topic in found:
            store.topics[topic] = store.unsure.pop(topic)
        else:
            store.forget(topic)
