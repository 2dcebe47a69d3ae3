"""A store that is built appears whole or not at all, even if its builders die."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from consuming import consumed
from memory_logs import NOW_MS, StandingClock

from storage.commit.applied import Transaction
from storage.errors import BuildError, NotAStoreError, StoreLockedError
from storage.files import Files
from storage.log.view import Isolation
from storage.record.compression import Codec
from storage.record.encoding import batches_of_rows
from storage.rewrite.rewritten_copy import RewriteRules, copy_rewritten
from storage.rewrite.store_builder import StoreBuilder
from storage.rewrite.topics import built_topics
from storage.store.log_opener import LogOpener
from storage.store.store import Mode, Store
from storage.testing.faults import Cut, CutError, Effect
from storage.testing.memory_files import MemoryFiles
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE, TARGET = Path("/source"), Path("/target")
BUILDING = Path("/target.kafkafs-building")
RULES = RewriteRules(codec=Codec.GZIP)
PURPOSE = {"codec": "gzip"}
CLOCK = StandingClock()


def source_files() -> MemoryFiles:
    """A store with a topic of two partitions; one is empty."""
    files = MemoryFiles()
    opening = LogOpener(rng=random.Random(0))  # without a thread, which would come when it likes
    given = {"files": files, "clock": CLOCK, "open_log": opening, "cluster_id": "of-the-source", "node_id": 5}
    with Store.create([SOURCE], **given) as store:
        store.topics.create("t", 2, {"segment.bytes": "600", "retention.ms": "1000"})
        log = store.log("t", 0)
        for number in range(12):
            (batch,) = batches_of_rows([(NOW_MS + number, b"key", b"value" * 20, ())])
            log.append_as_leader(batch, leader_epoch=0)
    return files


def begin(files: MemoryFiles, *, resumes: bool = True, purpose: Mapping[str, object] = PURPOSE) -> StoreBuilder:
    with Store.open([SOURCE], mode=Mode.READ_ONLY, files=files, clock=CLOCK) as store:
        topics = built_topics(store, None, {})
    entropy = random.Random(files.steps).randbytes
    return StoreBuilder.begin(files, CLOCK, TARGET, purpose, topics, resumes=resumes, entropy=entropy)


def work(files: MemoryFiles, build: StoreBuilder, partition: tuple[str, int]) -> None:
    with Store.open([SOURCE], mode=Mode.READ_ONLY, files=files, clock=CLOCK) as store:
        copy_rewritten(store, StoreBuilder.opened(files, TARGET, build.run), partition, RULES)


def run(files: MemoryFiles) -> dict[tuple[str, int], dict[str, Any]]:
    build = begin(files)
    try:
        for partition in build.missing():
            work(files, build, partition)
        return build.publish(CLOCK, [SOURCE])
    finally:
        build.close()


def content(files: MemoryFiles, path: Path) -> list[object]:
    with Store.open([path], mode=Mode.READ_ONLY, files=files, clock=CLOCK) as store:
        logs = [store.log("t", partition) for partition in range(2)]
        return [(log.view.end_offset, list(consumed(log, Isolation.UNCOMMITTED))) for log in logs]


def check_whole(files: MemoryFiles) -> None:
    assert content(files, TARGET) == content(files, SOURCE)
    assert list(Verification(files, [TARGET]).run(lambda: None)) == []
    assert sorted(files.names("/")) == ["source", "target"]
    left = {name for name in files.names(TARGET) if "built" in name or "building" in name or "attempt" in name}
    assert not left
    assert not [name for name in files.names(TARGET / "t-0") if "report" in name]


def test_it_belongs_to_the_same_node_and_is_closed_properly() -> None:
    files = source_files()
    with Store.open([SOURCE], mode=Mode.READ_WRITE, files=files, clock=CLOCK) as source:
        source.commits.commit([], Transaction("app", 7), ["t"])
    told = run(files)
    check_whole(files)
    assert told["t", 0]["recordsAfter"] == 12
    with (
        Store.open([SOURCE], mode=Mode.READ_ONLY, files=files, clock=CLOCK) as source,
        Store.open([TARGET], mode=Mode.READ_WRITE, files=files, clock=CLOCK) as store,
    ):
        ((before,), (after,)) = ([each.properties for each in opened.log_dirs] for opened in (source, store))
        assert before is not None
        assert after is not None
        assert (after.cluster_id, after.node_id) == (before.cluster_id, before.node_id) == ("of-the-source", 5)
        assert after.directory_id != before.directory_id
        assert store.topics.known("t") == source.topics.known("t")
        assert store.commits.has(Transaction("app", 7))
        assert not store.commits.has(Transaction("app", 8))
        assert store.topics.config("t").retention_ms == 1000
        assert store.log("t", 0).recovery_point == 12
        (batch,) = batches_of_rows([(NOW_MS, b"key", b"more", ())])
        assert store.log("t", 0).append_as_leader(batch).first_offset == 12


def test_of_several_attempts_the_first_that_is_done_counts() -> None:
    files = source_files()
    build = begin(files)
    for _ in range(3):
        work(files, build, ("t", 0))
    assert build.missing() == [("t", 1)]
    with pytest.raises(BuildError, match="was not built"):
        build.publish(CLOCK, [SOURCE])
    work(files, build, ("t", 1))
    late = StoreBuilder.opened(files, TARGET, build.run)
    with late.attempt(("t", 0)):
        build.publish(CLOCK, [SOURCE])
    with pytest.raises(BuildError, match="is finished, or was begun again"):
        StoreBuilder.opened(files, TARGET, build.run)
    check_whole(files)


def test_nothing_of_an_attempt_that_fails_is_left() -> None:
    files = source_files()
    build = begin(files)

    def fail() -> None:
        with build.attempt(("t", 0)) as directory, directory.open_writing("file", create=True):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(files.names(BUILDING)) == [".lock", "kafkafs-building.json"]


def test_a_later_builder_goes_on_or_begins_again_if_asked() -> None:
    files = source_files()
    first = begin(files)
    work(files, first, ("t", 0))
    with pytest.raises(StoreLockedError, match="another process is making a store here"):
        begin(files)
    first.close()
    with pytest.raises(BuildError, match="something else was being made here"):
        begin(files, purpose={"codec": "zstd"})
    second = begin(files)
    assert (second.run, second.missing()) == (first.run, [("t", 1)])
    second.close()
    third = begin(files, resumes=False)
    assert third.run != first.run
    assert third.missing() == [("t", 0), ("t", 1)]
    with pytest.raises(BuildError, match="was begun again"):
        work(files, first, ("t", 1))
    third.close()


def test_it_is_made_of_nothing_else_than_an_empty_directory() -> None:
    files = source_files()
    run(files)
    with pytest.raises(NotAStoreError, match="empty directory only"):
        begin(files)
    files = source_files()
    files.make_directory(TARGET)
    run(files)
    check_whole(files)
    with pytest.raises(NotAStoreError, match="make that first"):
        StoreBuilder.begin(files, CLOCK, Path("/none/target"), PURPOSE, {})


def test_it_takes_the_place_of_an_empty_directory_on_disk(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    target.mkdir()
    given = {"files": Files(), "clock": CLOCK}
    with Store.create([source], **given) as store:
        store.topics.create("t", 1)
    with Store.open([source], mode=Mode.READ_ONLY, **given) as store:
        build = StoreBuilder.begin(Files(), CLOCK, target, PURPOSE, built_topics(store, None, {}))
        copy_rewritten(store, StoreBuilder.opened(Files(), target, build.run), ("t", 0), RULES)
    build.publish(CLOCK, [source])
    build.close()
    assert list(Verification(Files(), [target]).run(lambda: None)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


@pytest.mark.crash
@pytest.mark.parametrize("is_power_lost", [False, True])
def test_wherever_it_is_cut_the_same_call_completes_it(*, is_power_lost: bool, record_property: Any) -> None:
    whole = source_files()
    begun = whole.steps
    told = run(whole)
    points = range(begun, whole.steps)
    for step in points:
        files = source_files()
        files.cut = Cut(step, Effect.DEATH, seed=step)
        with pytest.raises(CutError):
            run(files)
        files = files.after_power_loss(step) if is_power_lost else files.after_process_death()
        if files.status(TARGET) is not None:
            assert content(files, TARGET) == content(files, SOURCE)
        with suppress(NotAStoreError):  # where all was done but for telling of it
            assert run(files) == told
        check_whole(files)
    record_property("cut_points", len(points))
