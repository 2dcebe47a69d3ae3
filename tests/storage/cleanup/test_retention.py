"""Applying what a plan says: to the log that it speaks of, while others read it, and to no other."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, LogOnMemory, StandingClock, sent

from storage.cleanup.retention import apply_retention, delete_unopened, plan_retention
from storage.cleanup.retention_plan import Rule
from storage.config import TopicConfig
from storage.errors import LogChangedError
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.recover.recovery import recover_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.cleanup.retention_plan import RetentionPlan
    from storage.log.view import LogView

EXPIRATION_MS = 86_400_000
OLD = (NOW_MS - 5000, NOW_MS - 5000, NOW_MS - 5000)


def filled(*timestamps: int) -> LogOnMemory:
    lab = LogOnMemory()
    for number, timestamp in enumerate(timestamps):
        if number:
            lab.log.roll()
        lab.log.append_as_leader(sent([(timestamp, b"%d" % number), (timestamp, b"%d" % number * 9)]))
    lab.run_tasks()
    return lab


def planned(lab: LogOnMemory, **settings: int) -> RetentionPlan:
    given = {"retention.ms": "-1"} | {key.replace("_", "."): str(value) for key, value in settings.items()}
    view = lab.log.view
    config = TopicConfig.resolve(given)
    return plan_retention("topic-0", view, config, high_watermark=view.end_offset, now_ms=NOW_MS)


def offsets(view: LogView) -> list[int]:
    return [batch.base_offset for batch in view.batches(view.start_offset)]


def test_what_the_plan_says_is_deleted() -> None:
    lab = filled(1, 2, NOW_MS)
    plan = planned(lab, retention_ms=1000)
    deleted = apply_retention(lab.log, plan)
    assert [name for name in deleted if ".log" in name] == [f"{base:020}.log.deleted" for base in (0, 2)]
    assert (lab.log.view.start_offset, lab.log.view.bases) == (plan.new_start_offset, (4,)) == (4, (4,))
    assert apply_retention(lab.log, planned(lab, retention_ms=1000)) == []


def test_all_of_it_is_deleted_after_a_roll() -> None:
    lab = filled(1, 2, 3)
    plan = planned(lab, retention_ms=1000)
    apply_retention(lab.log, plan)
    view = lab.log.view
    assert (view.start_offset, view.end_offset, view.bases) == (6, 6, (6,))
    assert lab.log.append_as_leader(sent(b"on")).first_offset == 6
    lab.log.close()
    assert lab.open().view.start_offset == 6


def test_later_appends_do_not_matter_unless_all_goes() -> None:
    lab = filled(1, 2, NOW_MS)
    plan = planned(lab, retention_ms=1000)
    lab.log.append_as_leader(sent(b"more" * 1000))
    lab.log.append_as_leader(sent(b"more" * 1000))
    assert apply_retention(lab.log, plan)
    assert lab.log.view.start_offset == 4
    lab = filled(*OLD)
    plan = planned(lab, retention_ms=1000)
    lab.log.append_as_leader(sent(b"more"))
    with pytest.raises(LogChangedError, match="another start or end"):
        apply_retention(lab.log, plan)
    assert lab.log.view.bases == (0, 2, 4)


def test_what_is_appended_while_the_log_is_rolled_stays() -> None:
    lab = filled(*OLD)
    plan = planned(lab, retention_ms=1000)
    roll = lab.log.roll

    def roll_late() -> None:
        lab.log.append_as_leader(sent(b"in between"))
        roll()

    lab.log.roll = roll_late  # type: ignore[method-assign]
    with pytest.raises(LogChangedError, match="appended to since"):
        apply_retention(lab.log, plan)
    assert offsets(lab.log.view) == [0, 2, 4, 6]


CHANGES: dict[str, Callable[[Log], object]] = {
    "a start": lambda log: log.advance_start(1),
    "a truncation": lambda log: log.truncate_to(3),
    "a truncation that is made up for": lambda log: (log.truncate_to(2), log.append_as_leader(sent([(1, b"1")] * 2))),
    "a deletion": lambda log: log.remove_before(2),
    "a replacement": lambda log: log.replace(log.view.segments[:2], []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_of_a_log_that_has_changed_is_refused(name: str) -> None:
    lab = filled(1, 2, NOW_MS)
    plan = planned(lab, retention_ms=1000)
    CHANGES[name](lab.log)
    before = lab.contents()
    with pytest.raises(LogChangedError):
        apply_retention(lab.log, plan)
    assert lab.contents() == before


def test_a_full_disk_keeps_the_active_segment_only() -> None:
    lab = filled(1, 2, 3)
    plan = planned(lab, retention_ms=1000)
    lab.files.capacity_bytes = 0
    assert apply_retention(lab.log, plan)
    assert lab.log.view.bases == (4,)
    assert not lab.log.is_poisoned
    lab.files.capacity_bytes = None
    apply_retention(lab.log, planned(lab, retention_ms=1000))
    assert lab.log.view.bases == (6,)


def test_a_log_that_is_not_open_loses_the_segments_that_recovery_would_not_read() -> None:
    for recovery_point, left in ((0, (0, 2, 4)), (3, (2, 4)), (4, (4,)), (6, (4,))):
        lab = filled(1, 2, 3)
        plan = planned(lab, retention_ms=1000)
        assert len(plan.deleted) == 3
        lab.log.close()
        lab.files.capacity_bytes = 0
        deleted = delete_unopened(lab.log.directory, plan, recovery_point)
        assert deleted == plan.segments[: 3 - len(left)]
        names = lab.log.directory.names()
        assert sorted(name for name in names if name.endswith(".log")) == [f"{base:020}.log" for base in left]
        assert not any(name.endswith(".deleted") for name in names)
        lab.files.capacity_bytes = None
        lab.recover(recovery_point=recovery_point)
        view = lab.open().view
        assert (view.start_offset, view.end_offset, view.bases) == (left[0], 6, left)


def test_a_reader_that_holds_a_deleted_segment_finishes() -> None:
    lab = filled(1, 2, NOW_MS)
    view = lab.log.view
    reading = view.batches(0)
    held = view.segments[0].open_log()
    assert next(reading).base_offset == 0
    deleted = apply_retention(lab.log, planned(lab, retention_ms=1000))
    assert [batch.base_offset for batch in reading] == [2, 4]
    assert offsets(view) == [0, 2, 4]
    for name in deleted:
        lab.log.directory.remove(name)
    assert held.read_at(0, 8) == bytes(8)
    with pytest.raises(FileNotFoundError):
        offsets(view)
    assert offsets(lab.log.view) == [4]


# What real brokers did


def copied(source: Path, target: Path) -> Path:
    """A partition as it was before its broker deleted what bears the suffix for that."""
    shutil.copytree(source, target)
    for path in target.glob("*.deleted"):
        path.rename(path.with_suffix(""))
    return target


def opened(directory: Path, config: TopicConfig, *, start_offset: int = 0) -> Log:
    files, clock, rng = Files(), StandingClock(), random.Random(0)
    given = {"start_offset": start_offset, "producer_expiration_ms": EXPIRATION_MS}
    recover_log(clock, files.directory(directory), config, is_clean=False, **given)
    parts = open_sound_log(clock, files.directory(directory), config, rng=rng, **given)
    return Log(clock, files.directory(directory), config, parts, rng=rng)


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_a_broker_that_keeps_to_a_size_has_kept_what_we_would_keep(datasets, tmp_path: Path, name: str) -> None:
    """It had 40000 bytes as its limit, and goes below that for no segment."""
    log = opened(copied(datasets(name) / name / "d2" / "t-retain-0", tmp_path / "t-retain-0"), TopicConfig.resolve())
    assert log.view.bases == (900, 1050, 1250, 1400)

    def deleted(limit_bytes: int) -> list[int]:
        config = TopicConfig.resolve({"retention.bytes": str(limit_bytes), "retention.ms": "-1"})
        plan = plan_retention("t-retain-0", log.view, config, high_watermark=1500, now_ms=NOW_MS)
        return [segment.base_offset for segment in plan.deleted]

    total_bytes, first_bytes = 50817, 13395
    assert deleted(40000) == []
    assert deleted(total_bytes - first_bytes + 1) == []
    assert deleted(total_bytes - first_bytes) == [900]


def test_below_a_start_offset_the_same_files_go_as_with_a_broker(datasets, tmp_path: Path) -> None:
    """Records below 777 were deleted, and the broker was killed while it waited to remove the files."""
    source = datasets("kafka-3.9-killed") / "kafka-3.9-killed" / "d1" / "t-delrec-0"
    theirs = sorted(path.name for path in source.glob("*.deleted"))
    assert theirs == [f"{0:020}.{kind}.deleted" for kind in ("index", "log", "timeindex")]
    config = TopicConfig.resolve({"segment.bytes": "65536", "retention.ms": "-1"})
    directory = copied(source, tmp_path / "t-delrec-0")
    log = opened(directory, config)
    assert log.view.bases == (0, 750, 1450)
    log.advance_start(777)
    plan = plan_retention("t-delrec-0", log.view, config, high_watermark=1500, now_ms=NOW_MS)
    assert [(segment.base_offset, segment.rule) for segment in plan.deleted] == [(0, Rule.LOG_START)]
    assert sorted(apply_retention(log, plan)) == theirs
    assert sorted(path.name for path in directory.glob("*.log")) == sorted(path.name for path in source.glob("*.log"))
    assert log.view.start_offset == 777
    log.close()


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_what_a_broker_kept_above_a_start_offset_stays(datasets, name: str) -> None:
    directory = datasets(name) / name / "d1" / "t-delrec-0"
    config = TopicConfig.resolve({"retention.ms": "-1"})
    log = FollowedLog(
        StandingClock(),
        Files().directory(directory),
        config,
        start_offset=777,
        recovery_point=1500,
        producer_expiration_ms=EXPIRATION_MS,
    )
    plan = plan_retention("t-delrec-0", log.view, config, high_watermark=1500, now_ms=NOW_MS)
    assert [segment.base_offset for segment in plan.segments] == [750, 1450]
    assert not plan.is_due
