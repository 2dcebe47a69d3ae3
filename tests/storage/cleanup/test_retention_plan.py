"""Which segments retention lets go: every rule at its edges, and the rules together, under a clock that stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, sent

from storage.cleanup.retention import plan_retention
from storage.cleanup.retention_plan import Fate, RetentionPlan, Rule, Scope
from storage.config import StoreConfig, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DAY_MS = 86_400_000
KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass
class Lab:
    """A log with a segment for each number of timestamps, two records a batch of two offsets."""

    timestamps: Sequence[int] = (NOW_MS, NOW_MS, NOW_MS)
    is_rolled: bool = False
    log: LogOnMemory = field(init=False)

    def __post_init__(self) -> None:
        self.log = LogOnMemory({"message.timestamp.type": "CreateTime"})
        self.log.files.now_ms = NOW_MS
        for number, timestamp in enumerate(self.timestamps):
            if number:
                self.log.log.roll()
            self.log.log.append_as_leader(sent([(timestamp, b"x" * 100), (timestamp, b"y" * 50 * number)]))
        if self.is_rolled:
            self.log.log.roll()

    @property
    def sizes(self) -> list[int]:
        view = self.log.log.view
        return [segment.size_bytes for segment in view.segments[:-1]] + [view.end_position]

    def plan(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        now_ms: int = NOW_MS,
        high_watermark: int | None = None,
    ) -> RetentionPlan:
        config = TopicConfig.resolve({**KEEP_ALL, **(settings or {})})
        view = self.log.log.view
        end_offset = view.end_offset if high_watermark is None else high_watermark
        return plan_retention("topic-0", view, config, high_watermark=end_offset, now_ms=now_ms)


def bases(plan: RetentionPlan) -> list[int]:
    return [segment.base_offset for segment in plan.deleted]


def rules(plan: RetentionPlan) -> list[Rule | None]:
    return [segment.rule for segment in plan.deleted]


# The log's start


@pytest.mark.parametrize(
    ("start_offset", "deleted"), [(0, []), (1, []), (2, [0]), (3, [0]), (4, [0, 2]), (5, [0, 2]), (6, [0, 2])]
)
def test_a_segment_goes_whose_end_the_logs_start_has_reached(start_offset: int, deleted: list[int]) -> None:
    lab = Lab()
    lab.log.log.advance_start(start_offset)
    for policy in ("delete", "compact", "compact,delete", ""):
        plan = lab.plan({"cleanup.policy": policy})
        assert bases(plan) == deleted
        assert set(rules(plan)) <= {Rule.LOG_START}
        assert plan.new_start_offset == start_offset
        assert not plan.rolls


# Size


@pytest.mark.parametrize(("over_bytes", "deleted"), [(-1, [0]), (0, [0]), (1, [])])
def test_a_segment_goes_if_what_is_left_is_not_less_than_the_limit(over_bytes: int, deleted: list[int]) -> None:
    lab = Lab()
    limit_bytes = sum(lab.sizes[1:]) + over_bytes
    plan = lab.plan({"retention.bytes": str(limit_bytes)})
    assert bases(plan) == deleted
    assert set(rules(plan)) <= {Rule.SIZE}


def test_a_log_within_its_limit_keeps_everything() -> None:
    lab = Lab()
    for limit_bytes in (sum(lab.sizes), sum(lab.sizes) + 1, -1):
        assert not lab.plan({"retention.bytes": str(limit_bytes)}).is_due


def test_a_limit_of_zero_takes_everything_after_a_roll() -> None:
    lab = Lab()
    assert bases(lab.plan({"retention.bytes": str(lab.sizes[2])})) == [0, 2]
    assert bases(lab.plan({"retention.bytes": "1"})) == [0, 2]
    plan = lab.plan({"retention.bytes": "0"})
    assert [segment.fate for segment in plan.segments] == [Fate.DELETE, Fate.DELETE, Fate.ROLL_AND_DELETE]
    assert plan.rolls
    assert plan.new_start_offset == 6


# Time


@pytest.mark.parametrize(("age_ms", "deleted"), [(DAY_MS - 1, []), (DAY_MS, []), (DAY_MS + 1, [0])])
def test_a_segment_goes_whose_newest_record_is_older_than_the_limit(age_ms: int, deleted: list[int]) -> None:
    plan = Lab((NOW_MS - age_ms, NOW_MS)).plan({"retention.ms": str(DAY_MS)})
    assert bases(plan) == deleted
    assert set(rules(plan)) <= {Rule.TIME}


def test_the_largest_timestamp_counts_and_not_the_last_one() -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent([(NOW_MS - DAY_MS, b"newest")]))
    lab.log.append_as_leader(sent([(5, b"out of order")]))
    lab.log.roll()
    config = TopicConfig.resolve({"retention.ms": str(DAY_MS)})

    def deleted(now_ms: int) -> list[int]:
        plan = plan_retention("topic-0", lab.log.view, config, high_watermark=2, now_ms=now_ms)
        return bases(plan)

    assert deleted(NOW_MS) == []
    assert deleted(NOW_MS + 1) == [0]


@pytest.mark.parametrize(("age_ms", "deleted"), [(DAY_MS - 1, []), (DAY_MS, []), (DAY_MS + 1, [0, 2])])
def test_without_timestamps_the_files_last_modification_counts(age_ms: int, deleted: list[int]) -> None:
    lab = Lab((-1, -1), is_rolled=True)
    plan = lab.plan({"retention.ms": str(DAY_MS)}, now_ms=NOW_MS + age_ms)
    assert bases(plan) == deleted
    assert plan.warnings == (
        "of the segment at 0, and of 1 more no record has a timestamp, so that the file's last modification counts",
    )
    assert "without timestamps, its file's last change" in plan.segments[0].reason


@pytest.mark.parametrize(
    ("timestamp", "words"),
    [
        (NOW_MS + 3 * DAY_MS, "lies in the future, 1700259200000, by 3 d"),
        (NOW_MS * 1000, "looks like microseconds"),
        (NOW_MS * 1_000_000, "looks like nanoseconds"),
    ],
)
def test_a_timestamp_in_the_future_keeps_its_segment_and_all_later_ones(timestamp: int, words: str) -> None:
    lab = Lab((NOW_MS - 9 * DAY_MS, timestamp, NOW_MS - 9 * DAY_MS, NOW_MS))
    plan = lab.plan({"retention.ms": str(DAY_MS)})
    assert bases(plan) == [0]
    assert "in the future" in plan.segments[1].reason
    assert plan.segments[2].reason == "it comes after the segment at 2, which stays"
    (warning,) = plan.warnings
    assert warning.startswith("of the segment at 2")
    assert words in warning
    # The size takes it all the same.
    assert bases(lab.plan({"retention.ms": str(DAY_MS), "retention.bytes": "0"})) == [0, 2, 4, 6]
    assert lab.plan({"retention.bytes": "0"}).warnings == ()


def test_timestamps_in_seconds_go_at_once_and_are_told() -> None:
    plan = Lab((NOW_MS // 1000, NOW_MS)).plan({"retention.ms": str(365 * DAY_MS)})
    assert bases(plan) == [0]
    (warning,) = plan.warnings
    assert "looks like seconds" in warning


def test_a_limit_of_minus_one_keeps_everything_for_ever() -> None:
    lab = Lab((0, 1, 2))
    assert not lab.plan(now_ms=NOW_MS + 10**15).is_due
    assert bases(lab.plan({"retention.ms": "0"})) == [0, 2, 4]


# All of it


def test_when_everything_has_expired_the_active_segment_is_rolled_first() -> None:
    plan = Lab((1, 2, 3)).plan({"retention.ms": "1000"})
    assert bases(plan) == [0, 2, 4]
    assert plan.rolls
    assert (plan.start_offset, plan.new_start_offset, plan.end_offset) == (0, 6, 6)


def test_an_empty_active_segment_stays() -> None:
    lab = Lab((1, 2), is_rolled=True)
    plan = lab.plan({"retention.ms": "1000"}, now_ms=NOW_MS + DAY_MS)
    assert bases(plan) == [0, 2]
    assert not plan.rolls
    assert plan.segments[-1].reason == "it is the active segment, and empty"
    empty = Lab((), is_rolled=True)
    assert not empty.plan({"retention.ms": "1", "retention.bytes": "0"}, now_ms=NOW_MS + DAY_MS).is_due


# The rules together


def test_the_rules_come_one_after_the_other() -> None:
    lab = Lab((1, NOW_MS, 2, NOW_MS))
    lab.log.log.advance_start(2)
    left_bytes = sum(lab.sizes[2:])
    plan = lab.plan({"retention.ms": "1000", "retention.bytes": str(left_bytes)})
    assert bases(plan) == [0, 2, 4]
    assert rules(plan) == [Rule.LOG_START, Rule.SIZE, Rule.TIME]
    assert plan.new_start_offset == 6
    # What the first rule takes does not count for the second.
    assert rules(lab.plan({"retention.bytes": str(left_bytes + 1)})) == [Rule.LOG_START]


def test_the_first_segment_that_stays_keeps_those_after_it() -> None:
    plan = Lab((NOW_MS, 1, 2)).plan({"retention.ms": "1000"})
    assert not plan.is_due
    first, second, third = plan.segments
    assert "log start: the log starts at 0, before its end" in first.reason
    assert "retention.bytes sets no limit" in first.reason
    assert "within retention.ms=1000" in first.reason
    assert second.reason == third.reason == "it comes after the segment at 0, which stays"


@pytest.mark.parametrize(
    ("high_watermark", "deleted"), [(0, []), (1, []), (2, [0]), (3, [0]), (4, [0, 2]), (5, [0, 2])]
)
@pytest.mark.parametrize("settings", [{"retention.ms": "1000"}, {"retention.bytes": "0"}])
def test_nothing_goes_that_is_not_replicated(high_watermark: int, deleted: list[int], settings: dict[str, str]) -> None:
    plan = Lab((1, 2, 3)).plan(settings, high_watermark=high_watermark)
    assert bases(plan) == deleted
    assert not plan.rolls
    kept = plan.segments[len(deleted)]
    reason = f"its last offset is {kept.end_offset - 1}, and only those before {high_watermark} are replicated"
    assert reason in kept.reason


def test_a_high_watermark_counts_within_the_log_only() -> None:
    lab = Lab((1, 2, 3))
    lab.log.log.advance_start(2)
    assert bases(lab.plan({"retention.ms": "1000"}, high_watermark=0)) == [0]
    assert bases(lab.plan({"retention.ms": "1000"}, high_watermark=100)) == [0, 2, 4]


# Whose settings they are


def test_what_is_not_deleted_by_its_policy_goes_by_the_logs_start_alone() -> None:
    lab = Lab((1, 2, 3))
    lab.log.log.advance_start(3)
    limits = {"retention.ms": "1000", "retention.bytes": "0"}
    for policy in ("compact", ""):
        plan = lab.plan({**limits, "cleanup.policy": policy})
        assert plan.scope is Scope.LOG_START
        assert bases(plan) == [0]
        assert plan.warnings == ()
    assert bases(lab.plan({**limits, "cleanup.policy": "compact,delete"})) == [0, 2, 4]


def test_a_topic_with_unknown_settings_is_left_alone() -> None:
    lab = Lab((1, 2, 3))
    lab.log.log.advance_start(4)
    plan = plan_retention("topic-0", lab.log.log.view, None, high_watermark=6, now_ms=NOW_MS)
    assert plan.scope is Scope.SETTINGS_UNKNOWN
    assert not plan.is_due
    assert list(plan.lines()) == ["topic-0: nothing is deleted, because the topic's settings are unknown"]


def test_a_topic_with_remote_storage_is_left_alone() -> None:
    lab = Lab((1, 2, 3))
    lab.log.log.advance_start(4)
    plan = lab.plan({"remote.storage.enable": "true", "retention.ms": "1000", "retention.bytes": "0"})
    assert plan.scope is Scope.TIERED
    assert not plan.is_due
    assert "remote storage" in plan.reason


@pytest.mark.parametrize(
    ("broker", "topic", "deleted"),
    [
        ({}, {}, []),  # a week
        ({"log.retention.hours": "1"}, {}, [0]),
        ({"log.retention.hours": "1", "log.retention.minutes": "121"}, {}, []),
        ({"log.retention.hours": "1000", "log.retention.minutes": "119"}, {}, [0]),
        ({"log.retention.minutes": "1", "log.retention.ms": "7200000"}, {}, []),
        ({"log.retention.minutes": "1", "log.retention.ms": "7199999"}, {}, [0]),
        ({"log.retention.ms": "1"}, {"retention.ms": "7200000"}, []),
        ({"log.retention.ms": "-1"}, {"retention.ms": "7199999"}, [0]),
        ({"log.retention.ms": "-5"}, {}, []),
        ({"log.cleanup.policy": "compact", "log.retention.ms": "1"}, {}, []),
        ({"log.cleanup.policy": "compact", "log.retention.ms": "1"}, {"cleanup.policy": "delete"}, [0]),
        ({"log.retention.bytes": "0"}, {"retention.bytes": "-1"}, []),
    ],
)
def test_limits_come_from_the_topic_then_from_the_finest_that_the_broker_has(
    broker: dict[str, str], topic: dict[str, str], deleted: list[int]
) -> None:
    lab = Lab((NOW_MS - 7_200_000, NOW_MS))
    config = StoreConfig.resolve(broker).topic(topic)
    plan = plan_retention("topic-0", lab.log.log.view, config, high_watermark=4, now_ms=NOW_MS)
    assert bases(plan) == deleted


# The plan as a value


def test_a_plan_is_a_value_that_is_printed_stored_and_compared() -> None:
    lab = Lab((NOW_MS - 8 * DAY_MS, NOW_MS - 2 * DAY_MS, NOW_MS))
    settings = {"retention.ms": str(7 * DAY_MS)}
    plan = lab.plan(settings)
    assert plan == lab.plan(settings)
    assert hash(plan) == hash(lab.plan(settings))
    assert plan != lab.plan({"retention.ms": str(6 * DAY_MS)})
    assert RetentionPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    first, second, third = lab.sizes
    lines = (
        f"topic-0: 1 of 3 segments to be deleted, {first} of {first + second + third} bytes; "
        f"the log then starts at 2, and now at 0\n"
        f"cleanup.policy=delete retention.ms=604800000 (7 d) retention.bytes=-1 high watermark 6\n"
        f"delete offsets 0 to 1, {first} bytes: time: its newest record is 691200000 ms (8 d) old, "
        f"more than retention.ms=604800000\n"
        f"keep offsets 2 to 3, {second} bytes: log start: the log starts at 0, before its end; "
        f"size: retention.bytes sets no limit; "
        f"time: its newest record is 172800000 ms (2 d) old, within retention.ms=604800000\n"
        f"keep offsets 4 to 5, {third} bytes: it comes after the segment at 2, which stays"
    )
    assert "\n".join(plan.lines()) == lines


@pytest.mark.parametrize(
    ("retention_ms", "age", "expected"),
    [(60_000, NOW_MS, NOW_MS + 60_000), (-1, NOW_MS, None), (2**63 - 1, 0, 2**63 - 1), (2**63 - 1, 1, None)],
)
def test_no_segment_expires_after_the_last_time_there_is(retention_ms: int, age: int, expected: int | None) -> None:
    plan = Lab().plan({"retention.ms": str(retention_ms)})
    assert plan.expires_ms(age) == expected


def test_a_view_whose_segments_are_gone_raises() -> None:
    lab = Lab((1, 2, 3))
    view = lab.log.log.view
    for name in lab.log.log.remove_before(2):
        lab.log.log.directory.remove(name)
    with pytest.raises(FileNotFoundError):
        plan_retention("topic-0", view, TopicConfig.resolve(), high_watermark=6, now_ms=NOW_MS)
