"""What a report gathers: in logs of real brokers the figures that other commands find, by other ways through a log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkafs.report import Extent, Gathering, Report
from kafkafs.report.facts import Next
from storage.clock import Clock
from storage.files import Files
from storage.log import log_statistics
from storage.store import InternalTopics, Mode, Store, StoreRetention
from storage.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.log import FollowedLog, LogStatistics


def opened(paths: list[Path]) -> Store:
    return Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock())


def gathered(store: Store, *, is_full: bool) -> Report:
    chosen = [(topic, number) for topic, numbers in store.topics.inventory.topics.items() for number in numbers]
    extent = Extent(is_full=is_full)
    gathering = Gathering(store, Files(), Clock(), extent, lambda *_: None, broker_settings={})
    return gathering.report(chosen, (), "0")


def state_of(*roots: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size) for root in roots for path in (root, *root.rglob("*"))
    }


@pytest.fixture
def paths(datasets: Callable[[str], Path]) -> list[Path]:
    root = datasets("kafka-3.9") / "kafka-3.9"
    return [root / "d1", root / "d2"]


@pytest.mark.golden
def test_a_full_report_counts_what_statistics_count(paths: list[Path]) -> None:
    before = state_of(*paths)
    with opened(paths) as store:
        report = gathered(store, is_full=True)
        counted = {
            (each.topic, each.partition): _statistics(store, each.topic, each.partition) for each in report.partitions
        }
        retention = StoreRetention(store, Clock())
        planned = {key: retention.plan(*key) for key in counted}
    assert len(counted) >= 30
    for each in report.partitions:
        found = counted[each.topic, each.partition]
        assert each.error is None
        assert (each.start_offset, each.end_offset) == (found.start_offset, found.end_offset)
        assert (each.size_bytes, len(each.segments)) == (found.size_bytes, found.segments)
        assert each.records == found.records
        assert {codec: facts.batches for codec, facts in each.codecs.items()} == found.codecs
        assert each.last_timestamp == found.last_timestamp
        plan = planned[each.topic, each.partition]
        assert (each.freed_bytes, each.freed_segments) == (plan.deleted_bytes, len(plan.deleted))
        assert sum(segment.next is Next.DELETED for segment in each.segments) == len(plan.deleted)
    verified = list(Verification(Files(), paths).run(lambda: None))
    assert sorted(each.reason for each in report.findings) == sorted(each.reason for each in verified)
    assert state_of(*paths) == before


def _statistics(store: Store, topic: str, partition: int) -> LogStatistics:
    return log_statistics(store.log(topic, partition).view)


@pytest.mark.golden
def test_indexes_alone_tell_nearly_the_same(paths: list[Path]) -> None:
    with opened(paths) as store:
        full, quick = gathered(store, is_full=True), gathered(store, is_full=False)
    assert (quick.size_bytes, quick.newest_ms) == (full.size_bytes, full.newest_ms)
    assert sum(bucket.size_bytes for bucket in quick.growth) == pytest.approx(quick.size_bytes, rel=0.02)
    assert quick.records >= full.records
    assert [each.lag for each in quick.groups] == [each.lag for each in full.groups]
    assert not any(each.severity == "damage" for each in quick.findings)
    ratio = {
        (each.topic, codec): facts.plain_bytes / facts.stored_bytes
        for each in full.topics
        for codec, facts in each.codecs.items()
        if facts.stored_bytes > 100_000
    }
    sampled = {each.topic: each.codecs for each in quick.topics}
    assert ratio
    for (topic, codec), plain in ratio.items():
        facts = sampled[topic][codec]
        assert facts.plain_bytes / facts.stored_bytes == pytest.approx(plain, rel=0.3)


@pytest.mark.golden
def test_groups_and_transactions_are_those_of_the_internal_topics(paths: list[Path]) -> None:
    def log_of(topic: str, partition: int) -> FollowedLog:
        return store.follow_partition(topic, partition)

    with opened(paths) as store:
        report = gathered(store, is_full=False)
        topics = InternalTopics(store, Clock(), log_of)
        groups, transactions = topics.groups().groups, topics.transactions().transactions
    assert report.has_groups
    assert {each.group for each in report.groups} == set(groups)
    assert [each.producer_id for each in report.transactions] == [each.producer_id for each in transactions]
    lags = {
        (each.group, each.topic, each.partition): each.end_offset - each.committed_offset
        for each in report.groups
        if each.end_offset is not None and each.committed_offset is not None
    }
    assert lags
    assert all(each.lag == lags.get((each.group, each.topic, each.partition), each.lag) for each in report.groups)


@pytest.mark.golden
def test_of_very_many_segments_the_newest_are_listed_and_all_are_counted(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(paths) as store:
        whole = gathered(store, is_full=False)
        monkeypatch.setattr("kafkafs.report.partition.SEGMENTS_MAX", 1)
        capped = gathered(store, is_full=False)
    assert max(len(each.segments) for each in whole.partitions) > 1
    for each, other in zip(whole.partitions, capped.partitions, strict=True):
        assert other.segments == each.segments[-1:]
        assert other.segment_count == each.segment_count == len(each.segments)
        assert replace(other, segments=(), unlisted_segments=0) == replace(each, segments=(), unlisted_segments=0)
    assert capped.topics == whole.topics
    assert (capped.growth, capped.day) == (whole.growth, whole.day)
