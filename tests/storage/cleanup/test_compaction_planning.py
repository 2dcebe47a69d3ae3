"""What of a log is to be compacted now, by each rule and at each edge."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from storage.cleanup.compaction_plan import Boundary, CompactionPlan, SegmentExtent, Verdict, dirtiest, grouped
from storage.cleanup.compaction_planning import plan_compaction
from storage.config import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPACT = {"cleanup.policy": "compact", "segment.bytes": "400", "index.interval.bytes": "64"}


def log_of(*ages_ms: int, settings: Mapping[str, str] = {}) -> LogOnMemory:
    """A log of segments with one record each, so much older than now; the active one is empty."""
    log = LogOnMemory({**COMPACT, "segment.ms": "1", **settings})
    for age_ms in ages_ms:
        log.log.append_as_leader(sent([(NOW_MS - age_ms, b"x" * 100)]))
        log.log.roll()
    return log


def plan_of(
    log: LogOnMemory,
    checkpoint: int | None = None,
    *,
    settings: Mapping[str, str] = {},
    high_watermark: int | None = None,
) -> CompactionPlan:
    view = log.log.view
    return plan_compaction(
        "topic-0",
        view,
        TopicConfig.resolve({**COMPACT, **settings}),
        checkpoint=checkpoint,
        high_watermark=view.end_offset if high_watermark is None else high_watermark,
        now_ms=NOW_MS,
    )


def test_a_log_without_known_settings_is_left_alone() -> None:
    view = log_of(5, 4).log.view
    plan = plan_compaction("topic-0", view, None, checkpoint=None, high_watermark=2, now_ms=NOW_MS)
    assert (plan.verdict, plan.is_due, plan.is_applicable) == (Verdict.SETTINGS_UNKNOWN, False, False)
    assert list(plan.lines()) == ["topic-0: nothing is compacted, because the topic's settings are unknown"]


def test_a_cleaner_that_is_disabled_compacts_no_log_and_is_named() -> None:
    view = log_of(5, 4).log.view
    config = TopicConfig.resolve(COMPACT)
    given = {"checkpoint": None, "high_watermark": view.end_offset, "now_ms": NOW_MS}
    plan = plan_compaction("topic-0", view, config, is_cleaner_enabled=False, **given)
    assert (plan.verdict, plan.is_due, plan.is_applicable) == (Verdict.CLEANER_DISABLED, False, True)
    assert plan.reason.startswith("nothing is compacted, because log.cleaner.enable=false; 100.0% of its bytes")
    assert CompactionPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    clean = plan_compaction("topic-0", view, config, is_cleaner_enabled=False, **{**given, "checkpoint": 2})
    assert (clean.verdict, clean.is_applicable) == (Verdict.CLEANER_DISABLED, False)


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    assert plan_of(log_of(5), settings={"cleanup.policy": "delete"}).verdict is Verdict.NOT_COMPACTED
    assert plan_of(log_of(5), settings={"cleanup.policy": "compact,delete"}).verdict is Verdict.DIRTY


def test_all_but_the_active_segment_is_dirty_at_first() -> None:
    log = log_of(5, 4, 3)
    plan = plan_of(log)
    size_bytes = sum(segment.size_bytes for segment in log.log.view.segments)
    assert (plan.verdict, plan.boundary, plan.is_due) == (Verdict.DIRTY, Boundary.ACTIVE_SEGMENT, True)
    assert (plan.first_dirty_offset, plan.uncleanable_offset, plan.dirty_ratio) == (0, 3, 1.0)
    assert (plan.clean_bytes, plan.dirty_bytes) == (0, size_bytes)
    assert list(plan.lines()) == [
        "topic-0: the log is due: 100.0% of its bytes are dirty, and min.cleanable.dirty.ratio is 50.0%",
        "dirty: offsets 0 to 2, before 3, where the active segment begins",
        f"0 bytes clean, {size_bytes} bytes dirty",
        f"segments 0, 1: {size_bytes // 3 * 2} bytes into one segment",
        f"segment 2: {size_bytes // 3} bytes, rebuilt",
    ]


@pytest.mark.parametrize(
    ("checkpoint", "verdict", "dirty"),
    [(0, Verdict.DIRTY, 4), (1, Verdict.DIRTY, 3), (2, Verdict.TOO_CLEAN, 2), (3, Verdict.TOO_CLEAN, 1)],
)
def test_the_ratio_has_to_be_exceeded(checkpoint: int, verdict: Verdict, dirty: int) -> None:
    plan = plan_of(log_of(9, 8, 7, 6), checkpoint)
    assert (plan.verdict, plan.dirty_ratio) == (verdict, dirty / 4)
    assert plan.is_applicable


def test_a_checkpoint_at_the_end_leaves_nothing() -> None:
    plan = plan_of(log_of(9, 8), 2)
    assert (plan.verdict, plan.is_applicable, plan.groups, plan.segments) == (Verdict.NOTHING_DIRTY, False, (), ())
    assert list(plan.lines()) == [
        "topic-0: there is nothing to compact before offset 2, where the active segment begins"
    ]


def test_a_checkpoint_within_a_segment_makes_all_of_that_dirty_and_clean() -> None:
    """As a broker counts, whole segments."""
    log = LogOnMemory(COMPACT)
    log.log.append_as_leader(sent([(NOW_MS, b"x" * 20)] * 4))
    log.log.roll()
    plan = plan_of(log, 2)
    assert (plan.first_dirty_offset, plan.clean_bytes) == (2, plan.dirty_bytes)
    assert plan.dirty_ratio == 0.5


@pytest.mark.parametrize(
    ("checkpoint", "said"), [(1, "starts at 2"), (0, "starts at 2"), (5, "ends at 4"), (2**40, "ends at 4")]
)
def test_a_checkpoint_outside_of_the_log_does_not_count(checkpoint: int, said: str) -> None:
    log = log_of(9, 8, 7, 6)
    log.log.advance_start(2)
    plan = plan_of(log, checkpoint)
    assert (plan.first_dirty_offset, plan.uncleanable_offset) == (2, 4)
    assert plan.warnings == (f"the cleaner's checkpoint {checkpoint} does not count: the log {said}",)
    if checkpoint < 2:
        assert plan_of(log, checkpoint, settings={"cleanup.policy": "compact,delete"}).warnings == ()


def test_a_checkpoint_after_the_active_segments_beginning_is_no_trouble() -> None:
    log = log_of(9, 8)
    log.log.append_as_leader(sent(b"x"))
    plan = plan_of(log, 3)
    assert (plan.verdict, plan.uncleanable_offset) == (Verdict.NOTHING_DIRTY, 2)


@pytest.mark.parametrize(("high_watermark", "end"), [(4, 4), (3, 3), (1, 1), (0, 0)])
def test_what_is_not_replicated_is_left_alone(high_watermark: int, end: int) -> None:
    plan = plan_of(log_of(9, 8, 7, 6), high_watermark=high_watermark)
    assert plan.uncleanable_offset == end
    assert plan.boundary is (Boundary.ACTIVE_SEGMENT if end == 4 else Boundary.HIGH_WATERMARK)
    assert plan.is_applicable is (end > 0)


def test_a_transaction_that_is_open_ends_it_at_its_segments_beginning() -> None:
    log = log_of(9, 8, settings={"segment.ms": "100000"})
    log.produce(b"before", 0)
    log.produce(b"in it", 0, producer_id=8, transactional=True)
    log.log.roll()
    plan = plan_of(log)
    assert (plan.uncleanable_offset, plan.boundary) == (2, Boundary.OPEN_TRANSACTION)
    assert "dirty: offsets 0 to 1, before 2, where a transaction is open" in plan.lines()
    log.end_transaction(8, committed=True)
    assert plan_of(log).uncleanable_offset == 4


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 4), (10, 4), (11, 3), (20, 3), (21, 2), (41, 0), (10**12, 0)])
def test_what_is_younger_than_the_lag_is_left_alone(lag_ms: int, end: int) -> None:
    plan = plan_of(log_of(40, 30, 20, 10), settings={"min.compaction.lag.ms": str(lag_ms)})
    assert plan.uncleanable_offset == end
    assert plan.boundary is (Boundary.ACTIVE_SEGMENT if end == 4 else Boundary.COMPACTION_LAG)


def test_what_is_clean_already_is_not_held_back_again() -> None:
    plan = plan_of(log_of(40, 5, 20, 10), 2, settings={"min.compaction.lag.ms": "10"})
    assert (plan.uncleanable_offset, plan.first_dirty_offset) == (4, 2)


def test_timestamps_of_the_future_hold_back_and_are_told_of() -> None:
    plan = plan_of(log_of(40, -3_600_000, 20), settings={"min.compaction.lag.ms": "5"})
    assert plan.uncleanable_offset == 1
    (warning,) = plan.warnings
    assert warning.startswith("of the segment at 1 the largest timestamp")
    assert "by 1 h" in warning


@pytest.mark.parametrize(("lag_ms", "overdue_ms"), [(39, 1), (40, 0), (41, 0), (10, 30)])
def test_what_is_older_than_it_may_be_is_due_however_clean_the_log_is(lag_ms: int, overdue_ms: int) -> None:
    settings = {"max.compaction.lag.ms": str(lag_ms), "min.cleanable.dirty.ratio": "1"}
    plan = plan_of(log_of(50, 40, 30), 1, settings=settings)
    assert plan.overdue_ms == overdue_ms
    assert plan.verdict is (Verdict.OVERDUE if overdue_ms else Verdict.TOO_CLEAN)


def test_of_records_without_a_time_none_is_too_old() -> None:
    log = LogOnMemory({**COMPACT, "message.timestamp.type": "CreateTime"})
    log.log.append_as_leader(sent([(-1, b"x")]))
    log.log.roll()
    assert plan_of(log, settings={"max.compaction.lag.ms": "1"}).overdue_ms == 0


def test_the_dirtiest_of_those_that_are_due_comes_first() -> None:
    clean, dirty = plan_of(log_of(9, 8, 7), 2), plan_of(log_of(9, 8, 7))
    half = plan_of(log_of(9, 8, 7), 1)
    assert dirtiest([clean]) is None
    assert dirtiest([clean, half, dirty, half]) is dirty
    assert dirtiest([half, clean]) is half


def test_plans_can_be_stored_and_compared() -> None:
    log = log_of(9, 8, 7)
    plan = plan_of(log, 2**40)
    assert CompactionPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan == plan_of(log, 2**40)
    unknown = plan_compaction("topic-0", log.log.view, None, checkpoint=3, high_watermark=3, now_ms=NOW_MS)
    assert CompactionPlan.from_json(json.loads(json.dumps(unknown.as_json()))) == unknown
    log.log.append_as_leader(sent(b"more"))
    log.log.roll()
    assert plan_of(log, 2**40) != plan


def extent(base_offset: int, end_offset: int, size_bytes: int = 100, index_bytes: int = 8) -> SegmentExtent:
    return SegmentExtent(base_offset, end_offset, size_bytes, index_bytes, index_bytes)


def bases(segments: list[SegmentExtent], settings: Mapping[str, str]) -> list[list[int]]:
    config = TopicConfig.resolve(settings)
    return [[each.base_offset for each in group] for group in grouped(segments, config)]


def test_groups_are_as_large_as_a_segment_may_be() -> None:
    segments = [extent(10 * number, 10 * number + 10) for number in range(6)]
    assert bases(segments, {"segment.bytes": "300"}) == [[0, 10, 20], [30, 40, 50]]
    assert bases(segments, {"segment.bytes": "299"}) == [[0, 10], [20, 30], [40, 50]]
    assert bases(segments, {"segment.bytes": "50"}) == [[0], [10], [20], [30], [40], [50]]
    assert bases(segments, {"segment.index.bytes": "16"}) == [[0, 10], [20, 30], [40, 50]]
    assert bases([], {}) == []


def test_groups_span_no_more_offsets_than_an_index_can_tell() -> None:
    limit = 2**31
    assert bases([extent(0, 5), extent(5, limit)], {}) == [[0, 5]]
    assert bases([extent(0, 5), extent(5, limit + 1)], {}) == [[0], [5]]
    assert bases([extent(0, 5), extent(5, limit + 1, 0), extent(limit + 1, limit + 9, 0)], {}) == [[0, 5, limit + 1]]


def test_every_segment_is_in_one_group() -> None:
    rng = random.Random(7)
    for _ in range(50):
        segments = [extent(10 * number, 10 * number + 10, rng.randrange(200)) for number in range(20)]
        groups = bases(segments, {"segment.bytes": "250"})
        assert [base for group in groups for base in group] == [each.base_offset for each in segments]
