"""What is compacted into another store: byte by byte what the cleaner leaves of a copy of the same log."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compactable_logs import compactable_logs
from consuming import consumed
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_logs import NOW_MS, StandingClock

from storage.errors import CompactionError
from storage.files import Files
from storage.log.view import Isolation
from storage.log_dir.checkpoints import OffsetCheckpoint, write_offsets
from storage.record.encoding import BatchForm, batches_of_rows
from storage.record.kernel.offset_map import SLOT_BYTES
from storage.rewrite.compacted_copy import copy_compacted
from storage.rewrite.store_builder import StoreBuilder
from storage.rewrite.topics import built_topics
from storage.store.cleaning import StoreCompaction
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from compactable_logs import CompactableLog

FILES = Files()
LATER_MS = 1_795_300_000_000
SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.bytes": "20000",
    "delete.retention.ms": "1000",
}
DATA = {
    "kafka-2.2": ("kafka-2.2/d2", ("t-txn-compact", "t-compactdelete", "t-v1-compact")),
    "kafka-3.9-compaction": ("kafka-3.9-compaction-before", ("t-hold-none", "t-hold-lz4")),
}


class NoRoomError(Exception):
    """The map is so small that no run comes any further."""


def small_map(keys_max: int) -> dict[str, str]:
    """A broker's settings for a cleaner that knows no more keys than these at a time."""
    map_bytes = 1024 * 1024 + 1
    load_factor = keys_max * SLOT_BYTES / map_bytes
    return {"log.cleaner.dedupe.buffer.size": str(map_bytes), "log.cleaner.io.buffer.load.factor": f"{load_factor:.9f}"}


def compacted_in_place(
    paths: Sequence[str | Path],
    topics: Sequence[str],
    clock: StandingClock,
    *,
    rolls: bool,
    broker: Mapping[str, str],
    files: Files = FILES,
) -> None:
    """As `kafkafs compact --apply --force` does, run until nothing is dirty."""
    with Store.open(paths, mode=Mode.READ_WRITE, files=files, clock=clock, broker_settings=broker) as store:
        for topic in topics:
            store.topics.change_config(topic, SETTINGS)
            for partition in store.topics.partitions(topic):
                log = store.log(topic, partition)
                if rolls:
                    log.roll()
                compactions = StoreCompaction(store, clock, wait=lambda _: None)
                while (plan := compactions.plan(topic, partition)).is_applicable:
                    report = compactions.apply(topic, partition, plan)
                    if report.first_dirty_offset <= plan.first_dirty_offset:
                        raise NoRoomError


def compacted_into(
    paths: Sequence[str | Path],
    target: Path,
    topics: Sequence[str],
    clock: StandingClock,
    *,
    rolls: bool = False,
    broker: Mapping[str, str],
    files: Files = FILES,
) -> dict[tuple[str, int], dict[str, Any]]:
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=broker) as store:
        build = StoreBuilder.begin(files, clock, target, {}, built_topics(store, topics, SETTINGS))
        for partition in build.missing():
            task = StoreBuilder.opened(files, target, build.run)
            copy_compacted(store, task, partition, clock, rolls=rolls, wait=lambda _: None)
        told = build.publish(clock, [Path(path) for path in paths])
        build.close()
    verification = Verification(files, [target])
    assert list(verification.run(lambda: None)) == []
    assert verification.partitions == len(told)
    return told


def contents(
    paths: Sequence[str | Path], topics: Sequence[str], clock: StandingClock, files: Files = FILES
) -> dict[tuple[str, int], object]:
    """What consumers see of each partition, and each batch of it, empty ones too."""
    found: dict[tuple[str, int], object] = {}
    with Store.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock) as store:
        for topic in topics:
            for partition in store.topics.partitions(topic):
                log = store.log(topic, partition)
                view = log.view
                found[topic, partition] = (
                    (view.start_offset, view.end_offset, view.last_stable_offset, log.epochs.entries),
                    [list(consumed(log, isolation)) for isolation in Isolation],
                    [bytes(batch.view(0, batch.size_bytes)) for batch in view.batches(view.start_offset)],
                    view.aborted(view.start_offset, view.end_offset),
                    sorted(log.producers.states(), key=lambda state: state.producer_id),
                )
    return found


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize("name", DATA)
def test_real_logs_become_what_the_cleaner_makes_of_them(
    datasets: Callable[[str], Path], tmp_path: Path, name: str, *, rolls: bool
) -> None:
    place, topics = DATA[name]
    source, copy, target = (tmp_path / each for each in ("source", "copy", "target"))
    shutil.copytree(datasets(name) / place, source)
    # Nothing is clean yet, and all of it is replicated.
    (source / OffsetCheckpoint.FIRST_DIRTY).unlink(missing_ok=True)
    write_offsets(FILES.directory(source), OffsetCheckpoint.HIGH_WATERMARK, {(topic, 0): 10**6 for topic in topics})
    shutil.copytree(source, copy)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    clock = StandingClock(LATER_MS)
    told = compacted_into([source], target, topics, clock, rolls=rolls, broker={})
    compacted_in_place([copy], topics, clock, rolls=rolls, broker={})
    assert contents([target], topics, clock) == contents([copy], topics, clock)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert sum(each["superseded"] for each in told.values()) > (100 if rolls or name != "kafka-2.2" else -1)
    assert all(each["isApplied"] for each in told.values())


def made_store(path: Path, clock: StandingClock) -> None:
    """A store with more keys than a small map has room for, tombstones, and transactions."""
    with Store.create([path], files=FILES, clock=clock) as store:
        store.topics.create("t", 2, {**SETTINGS, "segment.bytes": "2000"})
        for partition in range(2):
            log = store.log("t", partition)
            for number in range(300):
                key, value = b"%d" % (number % 70), None if number % 11 == 5 else b"value %d" % number * 3
                form = BatchForm()
                if number % 2:
                    form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=number // 2)
                (batch,) = batches_of_rows([(NOW_MS + number, key, value, (("h", b"x"),))], form=form)
                log.append_as_leader(batch, leader_epoch=number // 200)


@pytest.mark.parametrize("rolls", [False, True])
def test_a_map_that_is_too_small_takes_more_runs(tmp_path: Path, *, rolls: bool) -> None:
    clock = StandingClock(NOW_MS)
    source, copy, target = (tmp_path / each for each in ("source", "copy", "target"))
    made_store(source, clock)
    shutil.copytree(source, copy)
    broker = small_map(20)
    told = compacted_into([source], target, ["t"], clock, rolls=rolls, broker=broker)
    compacted_in_place([copy], ["t"], clock, rolls=rolls, broker=broker)
    assert contents([target], ["t"], clock) == contents([copy], ["t"], clock)
    for each in told.values():
        assert each["runs"] > 2
        assert each["recordsRead"] - each["recordsKept"] == each["superseded"] + each["expired"]
        assert each["recordsRead"] == 300 if rolls else each["recordsRead"] < 300


@pytest.mark.property
@settings(max_examples=40)
@given(log=compactable_logs(), rolls=st.booleans(), keys_max=st.sampled_from([3, 1000]))
def test_any_log_becomes_what_the_cleaner_makes_of_it(log: CompactableLog, rolls: bool, keys_max: int) -> None:
    clock = StandingClock(NOW_MS)
    files = MemoryFiles()
    broker = small_map(keys_max)
    with Store.create(["/"], files=files, clock=clock) as store:
        store.topics.create("topic", 1, SETTINGS)
    log.write(files)
    with Store.open(["/"], mode=Mode.READ_WRITE, files=files, clock=clock) as store:
        store.log("topic", 0)  # which makes its indexes
    copy = files.after_process_death()
    files.make_directory("/new")
    try:
        compacted_in_place(["/"], ["topic"], clock, rolls=rolls, broker=broker, files=copy)
    except NoRoomError:
        with pytest.raises(CompactionError, match="has no room for one batch's keys"):
            compacted_into(["/"], Path("/new/store"), ["topic"], clock, rolls=rolls, broker=broker, files=files)
        return
    told = compacted_into(["/"], Path("/new/store"), ["topic"], clock, rolls=rolls, broker=broker, files=files)
    assert told["topic", 0]["recordsKept"] <= told["topic", 0]["recordsRead"]
    assert contents(["/new/store"], ["topic"], clock, files) == contents(["/"], ["topic"], clock, copy)
