"""A store is kept in order: each job when it is due, log after log, and what fails keeps nothing from the rest."""

from __future__ import annotations

import errno
import logging
import random
from threading import Event
from typing import TYPE_CHECKING

from memory_logs import NOW_MS, sent

from storage.clock import Clock
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.removals import Doomed
from storage.log_dir.settings_file import SettingsFile, SettingsFileContents
from storage.store.cleaning import StoreRetention
from storage.store.log_opener import LogOpener
from storage.store.maintenance import Maintenance
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from storage.cleanup import RetentionPlan
    from storage.log import LogView

SMALL = {"segment.bytes": "300", "segment.index.bytes": "120", "index.interval.bytes": "100"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}


class PassingClock(Clock):
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return NOW_MS + round(self.seconds * 1000)

    def elapsed_s(self) -> float:
        return self.seconds


class Keeper:
    """A store in memory and its maintenance, which began when the clock did."""

    def __init__(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        self.files, self.clock, self.stopped = MemoryFiles(), PassingClock(), Event()
        self.files.make_directory("/a")
        self.store = Store.create(
            ["/a"],
            files=self.files,
            clock=self.clock,
            open_log=LogOpener(rng=random.Random(0)),
            entropy=random.Random(0).randbytes,
        )
        for topic, settings in topics.items():
            self.store.topics.create(topic, 1, {**SMALL, **settings})
        self.maintenance = Maintenance(self.store, self.clock, self.stopped)

    def append(self, topic: str, count: int, *, keys: int = 0) -> None:
        """Records of 60 bytes, two a segment; their keys repeat after so many, if they have any."""
        log = self.store.log(topic, 0)
        for _ in range(count):
            offset = log.view.end_offset
            key = b"%d" % (offset % keys) if keys else None
            log.append_as_leader(sent([(self.clock.now_ms(), b"%03d" % offset * 20)], key=key))

    def after(self, seconds: float) -> float:
        """Let time pass, and do what is due then; gives when the next will be."""
        self.clock.seconds += seconds
        return self.maintenance.run_due()

    def job(self, name: str):
        return next(job for job in self.maintenance.jobs if job.name == name)

    def bases(self, topic: str) -> tuple[int, ...]:
        return self.store.log(topic, 0).view.bases

    def offsets(self, checkpoint: OffsetCheckpoint) -> dict[tuple[str, int], int]:
        return read_offsets(self.files.directory("/a"), checkpoint)


def test_jobs_are_done_on_a_brokers_schedules() -> None:
    keeper = Keeper({"t": {}})
    for _ in range(700):
        keeper.after(1.0)
    runs = {job.name: job.runs for job in keeper.maintenance.jobs}
    assert runs == {
        "removal": 700,
        "flush": 671,
        "checkpoints": 135,
        "retention": 3,
        "producers": 1,
        "compaction": 45,
    }
    assert all(job.failures == 0 for job in keeper.maintenance.jobs)


def test_it_says_when_there_is_something_to_do() -> None:
    keeper = Keeper({"t": {}})
    assert keeper.after(0) == 1.0
    assert keeper.after(0.25) == 0.75


def test_what_has_expired_is_deleted_and_later_removed(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper({"t": {"retention.ms": "10000", "file.delete.delay.ms": "5000"}, "kept": {}})
    keeper.append("t", 6)
    keeper.append("kept", 6)
    with caplog.at_level(logging.INFO):
        keeper.after(30.5)
    assert keeper.bases("t") == (6,)
    assert keeper.bases("kept") == (0, 2, 4)
    totals = keeper.maintenance.totals
    assert (totals.deleted_segments, keeper.store.log("t", 0).view.start_offset) == (3, 6)
    assert "t-0: retention deleted 3 segments" in caplog.text
    names = keeper.files.names("/a/t-0")
    assert any(name.endswith(".deleted") for name in names)
    keeper.after(4.0)
    assert any(name.endswith(".deleted") for name in keeper.files.names("/a/t-0"))
    keeper.after(1.5)
    assert not any(name.endswith(".deleted") for name in keeper.files.names("/a/t-0"))


def test_unopened_logs_are_looked_at_without_opening_them() -> None:
    keeper = Keeper({"t": {"retention.ms": "10000000"}, "u": {"retention.ms": "10000"}})
    keeper.append("t", 6)
    keeper.append("u", 6)
    keeper.store.close()
    keeper.store = Store.open(
        ["/a"], mode=Mode.READ_WRITE, files=keeper.files, clock=keeper.clock, open_log=LogOpener(rng=random.Random(0))
    )
    keeper.maintenance = Maintenance(keeper.store, keeper.clock, keeper.stopped)
    keeper.after(31)
    assert set(keeper.store.open_logs()) == {("u", 0)}  # which had something to delete
    assert keeper.bases("u") == (6,)


def test_the_dirtiest_log_is_compacted_first_and_then_the_next() -> None:
    keeper = Keeper({"a": COMPACTED, "b": COMPACTED, "c": {}})
    for topic in ("a", "b", "c"):
        keeper.append(topic, 21, keys=2)
    keeper.after(30.5)
    first = keeper.job("compaction").runs
    for _ in range(5):
        keeper.after(0)
    assert keeper.job("compaction").runs == first + 2  # one more log, and a look that found none
    totals = keeper.maintenance.totals
    assert (totals.compactions, totals.freed_bytes > 0) == (2, True)
    for topic in ("a", "b"):
        log = keeper.store.log(topic, 0)
        offsets = [record.offset for batch in log.view.batches(0) for record in batch.records()]
        assert offsets[-1] == 20
        assert len(offsets) < 6
    assert len(keeper.bases("c")) == 11
    assert keeper.offsets(OffsetCheckpoint.FIRST_DIRTY) == {("a", 0): 20, ("b", 0): 20}


def test_a_log_that_cannot_be_compacted_is_left_alone_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper({"bad": COMPACTED, "good": COMPACTED})
    for topic in ("bad", "good"):
        keeper.append(topic, 21, keys=2)
    with keeper.files.open_writing("/a/bad-0/00000000000000000004.log") as file:
        file.write_at(70, [b"damage"])
    with caplog.at_level(logging.ERROR):
        for _ in range(40):
            keeper.after(1.0)
    assert set(keeper.maintenance.uncleanable) == {("bad", 0)}
    assert keeper.job("compaction").failures == 1
    assert caplog.text.count("compaction of bad-0 failed") == 1
    assert keeper.maintenance.totals.compactions == 1
    assert keeper.offsets(OffsetCheckpoint.FIRST_DIRTY) == {("bad", 0): 0, ("good", 0): 20}
    assert not any(name.endswith(".cleaned") for name in keeper.files.names("/a/bad-0"))


def test_nothing_of_a_topic_goes_whose_settings_are_unknown() -> None:
    keeper = Keeper({"t": {"retention.ms": "10000"}, "c": COMPACTED})
    keeper.append("t", 6)
    keeper.append("c", 21, keys=2)
    SettingsFile.find([keeper.store.log_dirs[0].directory]).replace(SettingsFileContents())
    keeper.store.close()
    keeper.store = Store.open(
        ["/a"], mode=Mode.READ_WRITE, files=keeper.files, clock=keeper.clock, open_log=LogOpener(rng=random.Random(0))
    )
    keeper.maintenance = Maintenance(keeper.store, keeper.clock, keeper.stopped)
    for _ in range(400):
        keeper.after(1.0)
    assert keeper.bases("t") == (0, 2, 4)
    assert len(keeper.bases("c")) == 11


def test_a_topics_flush_interval_is_kept() -> None:
    keeper = Keeper({"t": {"flush.ms": "3000"}, "lazy": {}})
    keeper.after(31)
    keeper.append("t", 1)
    keeper.append("lazy", 1)
    keeper.after(1)
    assert keeper.store.log("t", 0).recovery_point == 0
    keeper.after(3)
    assert keeper.store.log("t", 0).recovery_point == 1
    assert keeper.store.log("lazy", 0).recovery_point == 0


def test_checkpoints_are_kept_up_to_date() -> None:
    keeper = Keeper({"t": {}})
    keeper.append("t", 5)
    keeper.after(31)
    assert keeper.offsets(OffsetCheckpoint.HIGH_WATERMARK) == {("t", 0): 5}
    keeper.append("t", 1)
    steps = keeper.files.steps
    keeper.after(5)
    assert keeper.offsets(OffsetCheckpoint.HIGH_WATERMARK) == {("t", 0): 6}
    assert keeper.files.steps > steps
    steps = keeper.files.steps
    keeper.after(5)
    assert keeper.files.steps == steps  # nothing is written that says nothing new


def test_a_full_disk_is_said_once_and_told_from_its_end(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper({"t": {}})
    keeper.append("t", 1)
    keeper.files.capacity_bytes = 0
    with caplog.at_level(logging.ERROR):
        for _ in range(50):
            keeper.after(1)
    assert keeper.job("checkpoints").failures > 1
    assert caplog.text.count("checkpoints failed") == 1
    keeper.files.capacity_bytes = None
    keeper.after(5)
    assert not keeper.job("checkpoints").is_failing
    assert keeper.offsets(OffsetCheckpoint.HIGH_WATERMARK) == {("t", 0): 1}


def test_a_deleted_topic_is_removed_when_its_delay_is_over() -> None:
    keeper = Keeper({"t": {}})
    keeper.append("t", 1)
    keeper.store.topics.delete("t")
    keeper.after(59)
    assert any(name.endswith("-delete") for name in keeper.files.names("/a"))
    keeper.after(2)
    assert not any(name.endswith("-delete") for name in keeper.files.names("/a"))


def test_it_ends_when_it_is_told_to() -> None:
    keeper = Keeper({"t": COMPACTED})
    keeper.append("t", 21, keys=2)
    keeper.stopped.set()
    keeper.clock.seconds = 31
    keeper.maintenance.run()
    assert all(job.runs == 0 for job in keeper.maintenance.jobs)
    assert len(keeper.bases("t")) == 11


def test_one_directory_that_cannot_be_removed_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper({"a": {}, "b": {}})
    keeper.store.topics.delete("a")
    keeper.store.topics.delete("b")
    remove = Doomed.remove

    def stubborn(doomed: Doomed) -> None:
        if doomed.name.startswith("a-0"):
            raise PermissionError(errno.EPERM, "Operation not permitted", doomed.name)
        remove(doomed)

    monkeypatch.setattr(Doomed, "remove", stubborn)
    keeper.after(61)
    keeper.after(61)
    (left,) = keeper.store.topics.removals.due(2**60)
    assert left.name.startswith("a-0")
    assert caplog.text.count("removal failed: ") == 1
    assert keeper.job("removal").failures > 1


def test_an_error_that_it_does_not_handle_keeps_no_other_job_and_no_other_log_from_their_turn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper({"a": {"retention.bytes": "300"}, "b": {"retention.bytes": "300"}})
    for topic in ("a", "b"):
        keeper.append(topic, 12)
    keeper.store.topics.delete("a")
    monkeypatch.setattr(Doomed, "remove", lambda _: {}["unexpected"])
    keeper.store.topics.create("a", 1, SMALL)
    plan = StoreRetention.plan

    def broken(retention: StoreRetention, topic: str, partition: int, view: LogView | None = None) -> RetentionPlan:
        if topic == "a":
            raise KeyError("unexpected")
        return plan(retention, topic, partition, view)

    monkeypatch.setattr(StoreRetention, "plan", broken)
    for _ in range(10):
        keeper.after(60)
    assert keeper.bases("b")[0] > 0
    assert keeper.job("removal").failures > 1
    assert caplog.text.count("removal ended with an error that kafkafs does not handle") == 1
    assert "retention of a-0 ended with an error that kafkafs does not handle" in caplog.text
