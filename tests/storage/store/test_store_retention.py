"""What retention does in a store: which topics it touches, when files go, and what is remembered of compaction."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, StandingClock, sent

from storage.cleanup.retention_plan import RetentionPlan, Rule, Scope
from storage.errors import LogChangedError, ReadOnlyStoreError
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets, write_offsets
from storage.log_dir.settings_file import SettingsFile, SettingsFileContents
from storage.store.cleaning import StoreRetention
from storage.store.log_opener import LogOpener
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALL = {"segment.bytes": "300", "segment.index.bytes": "120", "index.interval.bytes": "100"}


class Lab:
    """A store in memory with the topic `t`, whose segments have two records each, and are ten seconds apart."""

    def __init__(self, settings: Mapping[str, str] = SMALL, *, records: int = 8) -> None:
        self.files = MemoryFiles()
        self.clock = StandingClock()
        self.files.make_directory("/a")
        self.store = Store.create(["/a"], **self.given())
        self.store.topics.create("t", 1, {**SMALL, **settings})
        self.append(records)

    def given(self) -> dict[str, object]:
        return {
            "files": self.files,
            "clock": self.clock,
            "open_log": LogOpener(rng=random.Random(0)),
            "entropy": random.Random(self.files.steps).randbytes,
        }

    @property
    def retentions(self) -> StoreRetention:
        return StoreRetention(self.store, self.clock)

    @property
    def log(self):
        return self.store.log("t", 0)

    def append(self, count: int) -> None:
        for _ in range(count):
            offset = self.log.view.end_offset
            self.log.append_as_leader(sent([(NOW_MS + offset // 2 * 10_000, b"%03d" % offset * 20)]))

    def reopen(self, mode: Mode = Mode.READ_WRITE) -> Store:
        self.store.close()
        self.store = Store.open(["/a"], mode=mode, **self.given())
        return self.store

    def reopen_after_crash(self) -> Store:
        self.files = self.files.after_process_death()
        self.store = Store.open(["/a"], mode=Mode.READ_WRITE, **self.given())
        return self.store

    def forget_settings(self) -> None:
        """Have the store be one that a broker made."""
        SettingsFile.find([self.store.log_dirs[0].directory]).replace(SettingsFileContents())

    def plan(self) -> RetentionPlan:
        return self.retentions.plan("t", 0)

    def deleted_names(self) -> list[str]:
        return sorted(name for name in self.files.names("/a/t-0") if name.endswith(".deleted"))


def test_files_are_removed_when_the_topics_delay_is_over() -> None:
    lab = Lab({"retention.ms": "15000", "file.delete.delay.ms": "500"})
    assert lab.log.view.bases == (0, 2, 4, 6)
    assert not lab.plan().is_due
    lab.clock.ms = NOW_MS + 25_001
    plan = lab.plan()
    assert [(each.base_offset, each.rule) for each in plan.deleted] == [(0, Rule.TIME), (2, Rule.TIME)]
    deleted = lab.retentions.apply("t", 0, plan)
    assert sorted(doomed.name for doomed in deleted) == lab.deleted_names() != []
    assert lab.log.view.start_offset == 4
    removals = lab.store.topics.removals
    assert removals.due(lab.clock.ms + 499) == []
    assert set(removals.due(lab.clock.ms + 500)) == set(deleted)
    for doomed in removals.due(lab.clock.ms + 500):
        removals.remove(doomed)
    assert lab.deleted_names() == []
    assert removals.due(2**62) == []
    with pytest.raises(LogChangedError):
        lab.retentions.apply("t", 0, plan)


def test_closing_removes_deleted_files_and_a_crash_leaves_them_to_recovery() -> None:
    for is_crash in (False, True):
        lab = Lab({"retention.bytes": "1"})
        lab.retentions.apply("t", 0, lab.plan())
        assert lab.deleted_names() != []
        if is_crash:
            lab.reopen_after_crash()
            assert lab.deleted_names() != []
            assert lab.log.view.bases == (6,)
        else:
            lab.store.close()
        assert lab.deleted_names() == []


def test_a_topic_of_a_broker_is_touched_once_its_policy_is_known_and_only_below_the_high_watermark() -> None:
    lab = Lab({"retention.bytes": "0"})
    lab.store.close()
    lab.forget_settings()
    write_offsets(lab.files.directory("/a"), OffsetCheckpoint.HIGH_WATERMARK, {("t", 0): 5})
    store = lab.reopen()
    plan = lab.plan()
    assert (plan.scope, plan.is_due, plan.high_watermark) == (Scope.SETTINGS_UNKNOWN, False, 5)
    assert lab.retentions.apply("t", 0, plan) == []
    store.topics.change_config("t", {"retention.bytes": "0"})
    assert lab.plan().scope is Scope.SETTINGS_UNKNOWN
    store.topics.change_config("t", {"cleanup.policy": "delete"})
    plan = lab.plan()
    assert [segment.base_offset for segment in plan.deleted] == [0, 2]
    assert "its last offset is 5, and only those before 5 are replicated" in plan.segments[2].reason
    lab.append(1)
    assert [segment.base_offset for segment in lab.plan().deleted] == [0, 2]
    store.topics.create("ours", 1)
    store.log("ours", 0).append_as_leader(sent(b"x"))
    assert lab.retentions.plan("ours", 0).high_watermark == 1


def test_a_store_that_is_only_read_says_what_would_go_and_changes_nothing() -> None:
    lab = Lab({"retention.bytes": "0"})
    expected = lab.plan()
    lab.reopen(Mode.READ_ONLY)
    steps = lab.files.steps
    plan = lab.plan()
    assert replace(plan, now_ms=expected.now_ms) == expected
    with pytest.raises(ReadOnlyStoreError):
        lab.retentions.apply("t", 0, plan)
    assert lab.files.steps == steps


def test_a_checkpointed_start_outlives_the_segments_below_it() -> None:
    lab = Lab()
    lab.log.advance_start(5)
    lab.store.write_checkpoints()
    lab.retentions.apply("t", 0, lab.plan())
    assert lab.log.view.bases == (4, 6)
    lab.reopen_after_crash()
    assert (lab.log.view.start_offset, lab.log.view.bases) == (5, (4, 6))


@pytest.mark.parametrize("was_noted", [True, False])
def test_a_log_that_was_compacted_once_keeps_its_holes_after_its_policy_is_another(*, was_noted: bool) -> None:
    """Where nothing says so, a hole between segments is what a loss of power leaves."""
    lab = Lab({"cleanup.policy": "compact"})
    lab.log.replace(lab.log.view.segments[1:2], [])
    lab.store.topics.change_config("t", {"cleanup.policy": "delete"})
    noted = read_offsets(lab.files.directory("/a"), OffsetCheckpoint.FIRST_DIRTY)
    assert noted == {("t", 0): 0}
    if not was_noted:
        write_offsets(lab.files.directory("/a"), OffsetCheckpoint.FIRST_DIRTY, {})
    lab.reopen_after_crash()
    assert lab.log.view.bases == ((0, 4, 6) if was_noted else (0,))
    lab.reopen()
    assert read_offsets(lab.files.directory("/a"), OffsetCheckpoint.FIRST_DIRTY) == (noted if was_noted else {})


def test_what_the_cleaner_knows_of_a_topic_stays_when_its_policy_is_another() -> None:
    lab = Lab({"cleanup.policy": "compact"})
    lab.store.close()
    write_offsets(lab.files.directory("/a"), OffsetCheckpoint.FIRST_DIRTY, {("t", 0): 4})
    lab.reopen().topics.change_config("t", {"cleanup.policy": "delete"})
    assert read_offsets(lab.files.directory("/a"), OffsetCheckpoint.FIRST_DIRTY) == {("t", 0): 4}
