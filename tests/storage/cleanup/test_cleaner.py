"""One run of the cleaner over a log: what ends it early and what it leaves then, and how fast it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compacting import Compacting
from keyed_logs import COMPACT, KeyedLog
from memory_logs import DIRECTORY

from storage.cleanup.cleaner import Cleaner
from storage.cleanup.pace import CleanerLimits
from storage.config import StoreConfig
from storage.errors import (
    ChecksumError,
    CompactionError,
    CompactionStoppedError,
    CorruptBatchError,
    LogChangedError,
)
from storage.segment.names import FileName, FileSuffix, Kind
from storage.testing.faults import Cut, Effect
from storage.throttle import Throttle

if TYPE_CHECKING:
    from storage.log.log import Log


def names(log: KeyedLog, suffix: FileSuffix) -> list[str]:
    return sorted(name for name in log.files.names(DIRECTORY) if suffix and name.endswith(suffix))


def dirty_log() -> KeyedLog:
    """Four closed segments, each a group of its own."""
    log = KeyedLog({**COMPACT, "segment.bytes": "300"})
    for number in range(4):
        log.put(("a", f"{number}" * 60), (f"b{number}", "x" * 60))
        log.log.roll()
    return log


def contents(log: Log) -> list[bytes]:
    return [bytes(batch.view(0, batch.size_bytes)) for batch in log.view.batches(log.view.start_offset)]


def test_an_estimate_is_exact_and_changes_nothing() -> None:
    log = dirty_log()
    before, steps = log.contents(), log.files.steps
    compacting = Compacting(log.clock)
    plan = compacting.plan(log.log)
    estimate = compacting.estimate(log.log, plan)
    assert (log.contents(), log.files.steps) == (before, steps)
    report = compacting.compact(log.log, plan)
    for part in ("records", "after_bytes", "before_bytes", "segments_after", "first_dirty_offset", "map_keys"):
        assert getattr(estimate, part) == getattr(report, part)
    assert estimate.written_bytes == 0
    assert report.written_bytes == report.after_bytes


def test_a_plan_is_applied_only_to_the_log_that_it_speaks_of() -> None:
    log = dirty_log()
    compacting = Compacting(log.clock)
    plan = compacting.plan(log.log)
    log.put(("a", "later"))
    compacting.compact(log.log, plan)  # later appends do not matter
    before = log.contents()
    with pytest.raises(LogChangedError, match="topic-0 are no longer those"):
        compacting.compact(log.log, plan)
    with pytest.raises(LogChangedError):
        compacting.estimate(log.log, plan)
    assert log.contents() == before


def test_a_plan_for_a_topic_that_is_no_longer_compacted_is_not_applied() -> None:
    log = dirty_log()
    compacting = Compacting(log.clock)
    plan = compacting.plan(log.log)
    log.log.config = type(log.config).resolve({**COMPACT, "cleanup.policy": "delete"})
    with pytest.raises(LogChangedError, match=r"cleanup\.policy"):
        compacting.compact(log.log, plan)


def test_horizons_count_from_when_a_plan_is_applied() -> None:
    log = KeyedLog()
    log.put(("a", None), ("b", "1"))
    log.log.roll()
    compacting = Compacting(log.clock)
    plan = compacting.plan(log.log)
    log.clock.ms += 100_000
    compacting.compact(log.log, plan)
    assert [batch.delete_horizon_ms for batch in log.batches()] == [plan.now_ms + 101_000]


def test_a_plan_that_says_nothing_is_not_applied() -> None:
    log = KeyedLog()
    compacting = Compacting(log.clock)
    with pytest.raises(CompactionError, match="there is nothing to compact"):
        compacting.compact(log.log, compacting.plan(log.log))


def test_a_log_that_changes_meanwhile_is_left_as_it_is() -> None:
    log = dirty_log()
    asked = iter(range(1000))

    def remove_the_first_segment() -> bool:
        if next(asked) == 12:
            for name in log.log.remove_before(log.log.view.bases[1]):
                log.log.directory.remove(name)
        return False

    compacting = Compacting(log.clock, is_stopped=remove_the_first_segment, buffer_bytes=1)
    plan = compacting.plan(log.log)
    with pytest.raises((LogChangedError, CompactionError)):
        compacting.compact(log.log, plan)
    assert names(log, FileSuffix.CLEANED) == []
    assert log.rows()[-1] == (7, "b3", "x" * 60)


def test_a_run_can_be_stopped_anywhere() -> None:
    stopped_after = 0
    while True:
        log = dirty_log()
        before = log.rows()
        asked = iter(range(10_000))
        compacting = Compacting(log.clock, is_stopped=lambda asked=asked, limit=stopped_after: next(asked) >= limit)
        plan = compacting.plan(log.log)
        try:
            compacting.compact(log.log, plan)
            break
        except CompactionStoppedError:
            assert names(log, FileSuffix.CLEANED) == names(log, FileSuffix.SWAP) == []
            assert set(log.rows()) <= set(before)
            assert sorted(map(str, compacting.deleted)) == [
                f"{DIRECTORY}/{name}" for name in names(log, FileSuffix.DELETED)
            ]
            assert Compacting(log.clock).compact(log.log, Compacting(log.clock).plan(log.log))
            assert len(log.rows()) == 5
        stopped_after += 1
    assert stopped_after > 20


def test_damage_ends_a_run_and_is_not_given_a_new_checksum() -> None:
    log = dirty_log()
    segment = log.log.view.segments[1]
    with log.files.open_writing(segment.path(Kind.LOG)) as file:
        file.write_at(80, [b"\xff"])
    before = contents(log.log)
    with pytest.raises(ChecksumError) as raised:
        log.compact()
    assert raised.value.path == str(segment.path(Kind.LOG))
    assert raised.value.offset == segment.base_offset
    assert names(log, FileSuffix.CLEANED) == []
    assert contents(log.log) == before, "nothing is decided by a damaged batch"


def test_damage_in_what_is_clean_ends_a_run_as_well() -> None:
    log = dirty_log()
    segment = log.log.view.segments[1]
    with log.files.open_writing(segment.path(Kind.LOG)) as file:
        file.write_at(80, [b"\xff"])
    before = contents(log.log)
    with pytest.raises(ChecksumError):
        log.compact(checkpoint=log.log.view.segments[2].base_offset)
    assert names(log, FileSuffix.CLEANED) == []
    assert contents(log.log)[1:] == before[1:]


@pytest.mark.parametrize("offset", [0, 1, 4, 2**40])
def test_an_offset_that_cannot_be_right_ends_a_run(offset: int) -> None:
    """No checksum covers a batch's offset, and all before it would go if a wrong one were believed."""
    log = dirty_log()
    segment = log.log.view.segments[1]
    with log.files.open_writing(segment.path(Kind.LOG)) as file:
        file.write_at(0, [offset.to_bytes(8, "big")])
    log.log.close()
    log.open()
    before = contents(log.log)
    with pytest.raises(CorruptBatchError, match="has to lie above 1 and below 4") as raised:
        log.compact()
    assert raised.value.path == str(segment.path(Kind.LOG))
    assert contents(log.log) == before


def test_bytes_that_are_no_batch_are_not_dropped_in_silence() -> None:
    log = dirty_log()
    segment = log.log.view.segments[1]
    with log.files.open_writing(segment.path(Kind.LOG)) as file:
        file.truncate(segment.size_bytes - 5)
    log.log.close()
    log.open()
    with pytest.raises(CompactionError, match="at the segment's end are no batch"):
        log.compact()


@pytest.mark.parametrize("effect", [Effect.DISK_FULL, Effect.DISK_ERROR])
def test_a_disk_that_refuses_ends_a_run(effect: Effect) -> None:
    log = dirty_log()
    before = contents(log.log)
    log.files.cut = Cut(log.files.steps + 3, effect)
    with pytest.raises(CompactionError, match=r"^compacting topic-0 failed: "):
        log.compact()
    assert names(log, FileSuffix.CLEANED) == []
    assert contents(log.log) == before
    log.files.cut = None
    log.compact()
    assert len(log.rows()) == 5


def test_what_an_earlier_run_has_left_is_removed_first() -> None:
    log = dirty_log()
    for kind in (Kind.LOG, Kind.OFFSET_INDEX):
        log.files.open_writing(f"{DIRECTORY}/{FileName(77, kind, FileSuffix.CLEANED)}", create=True).close()
    log.compact()
    assert names(log, FileSuffix.CLEANED) == []


class PassingClock:
    """Time that passes while somebody waits."""

    def __init__(self) -> None:
        self.s = 100.0
        self.waits: list[float] = []

    def now_ms(self) -> int:
        return round(self.s * 1000)

    def elapsed_s(self) -> float:
        return self.s

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.s += seconds


def test_it_reads_and_writes_no_faster_than_it_may() -> None:
    log = dirty_log()
    clock = PassingClock()
    limits = CleanerLimits(map_bytes=10_000, map_load_factor=0.9, buffer_bytes=100)
    cleaner = Cleaner(clock, limits, Throttle(clock, 500, clock.wait))  # type: ignore[arg-type]
    report = cleaner.compact(log.log, Compacting(log.clock).plan(log.log), lambda _: None)
    assert report.duration_s == pytest.approx((report.read_bytes + report.written_bytes) / 500)
    assert max(clock.waits) <= 1


def test_a_stop_ends_waiting() -> None:
    clock = PassingClock()
    throttle = Throttle(clock, 1, clock.wait)  # type: ignore[arg-type]
    throttle.took(1000, lambda: len(clock.waits) == 3)
    assert clock.waits == [1, 1, 1]
    throttle = Throttle(clock, float("inf"), clock.wait)  # type: ignore[arg-type]
    throttle.took(10**12, lambda: False)
    assert len(clock.waits) == 3


def test_time_in_which_nothing_is_done_is_not_made_up_for() -> None:
    clock = PassingClock()
    throttle = Throttle(clock, 100, clock.wait)  # type: ignore[arg-type]
    clock.s += 50
    throttle.took(100, lambda: False)
    assert sum(clock.waits) == pytest.approx(1)


def test_the_cleaners_of_a_store_share_what_it_may_use() -> None:
    config = StoreConfig.resolve({"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "8000000"})
    assert CleanerLimits.of(config) == CleanerLimits(4_000_000, 0.9, 131_072)
