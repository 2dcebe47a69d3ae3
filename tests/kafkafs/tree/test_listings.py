"""What `offset/` and `by-time/` list, and where times lead."""

from __future__ import annotations

import json
import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from kafkafs.locator.paths import PartitionDirectoryPath
from kafkafs.locator.views import View
from kafkafs.tree import offset_directory
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.offset_directory import OffsetDirectory
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.time_views import TimeDirectory
from storage.log.view import Isolation

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource


def offsets(source: LogSource) -> OffsetDirectory:
    return OffsetDirectory(PartitionDirectoryPath(source.path, View.OFFSET), source, NOW_MS)


def times(source: LogSource) -> TimeDirectory:
    return TimeDirectory(PartitionDirectoryPath(source.path, View.BY_TIME), source, NOW_MS)


def filled(count: int) -> LogOnMemory:
    """One record a batch, a second apart, in many segments."""
    lab = LogOnMemory()
    for number in range(count):
        lab.log.append_as_leader(sent([(NOW_MS + number * 1000, bytes(60))]))
    return lab


# offset/


def test_all_is_listed_if_it_is_not_too_much(views: Views, caplog: pytest.LogCaptureFixture) -> None:
    source = views.memory(filled(100), TreeOptions(list_limit=100))
    directory = offsets(source)
    with caplog.at_level(logging.INFO, "kafkafs"):
        assert list(directory.names()) == [*map(str, range(100)), "earliest", "latest"]
    assert directory.xattrs() == {}
    assert not caplog.records
    assert directory.attributes().access == source.access()


@pytest.mark.parametrize("limit", [0, 30, 100])
def test_what_takes_long_to_decode_is_listed_by_its_headers(
    views: Views, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    source = views.memory(filled(100), TreeOptions(list_limit=limit))
    names = list(offsets(source).names())
    assert len(names) == (limit or 100) + 2
    decoded = list(offsets(source).entries())
    monkeypatch.setattr(offset_directory, "LOOK_S", -1.0)
    skimmed = list(offsets(source).entries())
    assert [entry.name for entry in skimmed] == names
    assert all(entry.attributes is None for entry in skimmed)
    assert all(entry.attributes is not None for entry in decoded[:-2])


def test_a_list_that_is_cut_has_the_newest_and_says_so_once(views, caplog):
    source = views.memory(filled(100), TreeOptions(list_limit=30))
    with caplog.at_level(logging.INFO, "kafkafs"):
        for _ in range(2):
            assert list(offsets(source).names()) == [*map(str, range(70, 100)), "earliest", "latest"]
            assert offsets(source).xattrs() == {"user.kafkafs.listed": b"30 of 100"}
    (logged,) = caplog.records
    assert logged.getMessage().startswith("/topic/0/offset: the newest records are listed, 30 of 100")


def test_without_a_limit_nothing_is_held(views: Views) -> None:
    lab = filled(100)
    source = views.memory(lab, TreeOptions(list_limit=0), is_followed=True)
    names = offsets(source).names()
    assert [next(names) for _ in range(5)] == ["0", "1", "2", "3", "4"]
    assert offsets(source).xattrs() == {}
    second = lab.log.view.segments[1].base_offset
    for name in lab.files.names(DIRECTORY):
        if name.startswith((f"{0:020}.", f"{second:020}.")):
            lab.files.remove(f"{DIRECTORY}/{name}")
    rest = list(names)
    assert rest[-2:] == ["earliest", "latest"]
    assert rest[-3] == "99"
    listed = [int(name) for name in rest[:-2]]
    assert listed == sorted(set(listed))
    assert set(range(lab.log.view.segments[2].base_offset, 100)) <= set(listed)


def test_an_empty_log_lists_nothing(views: Views) -> None:
    source = views.memory(LogOnMemory())
    assert list(offsets(source).names()) == []
    assert offsets(source).xattrs() == {}
    assert list(times(source).names()) == []


def test_what_is_damaged_is_not_listed(views: Views) -> None:
    lab = LogOnMemory()
    for number in range(4):
        lab.log.append_as_leader(sent(b"%d" % number))
    batch = lab.log.view.find(2)
    assert batch is not None
    with lab.files.open_writing(f"{DIRECTORY}/{0:020}.log") as file:
        file.write_at(batch.position + batch.size_bytes - 1, [b"\xff"])
    assert list(offsets(views.memory(lab)).names()) == ["0", "1", "3", "earliest", "latest"]
    limited = views.memory(lab, TreeOptions(list_limit=2))
    assert list(offsets(limited).names()) == ["1", "3", "earliest", "latest"]


@pytest.mark.golden
def test_what_is_listed_of_real_logs_can_be_opened(views: Views) -> None:
    listed = 0
    for isolation in Isolation:
        for directory in views.partitions("kafka-3.9/kafka-3.9"):
            source = views.follow(directory, TreeOptions(isolation=isolation, list_limit=20))
            scanned = views.scan(directory, source.visible().view, is_committed=isolation is Isolation.COMMITTED)
            expected = [str(record.offset) for each in scanned for record in each.records][-20:]
            names = list(offsets(source).names())
            assert names == ([*expected, "earliest", "latest"] if expected else [])
            for name in names:
                views.node(source, name)
            listed += len(names)
    assert listed > 1000


# by-time/


def test_a_time_leads_to_the_first_record_at_or_after_it(views: Views) -> None:
    source = views.memory(filled(10))
    for name, target in [
        (str(NOW_MS), "../offset/0"),
        (str(NOW_MS + 1), "../offset/1"),
        ("0", "../offset/0"),
        (f"{NOW_MS + 9000}.json", "../offset/9.json"),
        ("2023-11-14T22:13:25Z.headers", "../offset/5.headers"),
        ("-3s", "../offset/4"),
        ("-1d.batch", "../offset/0.batch"),
        ("2023-11-14T22:13:24.9995Z", "../offset/5"),  # and not the record of 24.999, before that time
        ("2023-11-14T22:13:25.000001Z", "../offset/6"),
        ("today", "../offset/0"),
    ]:
        link = views.by_time(source, name, NOW_MS + 7000)
        assert link.target() == target
        attributes = link.attributes()
        assert (attributes.size_bytes, attributes.access) == (len(target), source.access())
        assert link.identity == offsets(source).identity
    assert views.by_time(source, "-3s", NOW_MS + 11_000).target() == "../offset/8"
    for name in (str(NOW_MS + 9001), "now"):
        with pytest.raises(NotThereError, match="no record at or after"):
            views.by_time(source, name, NOW_MS + 9001)


def test_a_range_of_times_is_cut_to_whole_milliseconds_upwards_at_both_ends(views: Views) -> None:
    source = views.memory(filled(3))
    for name, offsets in [
        (f"2023-11-14T22:13:20.0000001Z..{NOW_MS + 2000}", [1]),
        (f"{NOW_MS}..2023-11-14T22:13:21.0000001Z", [0, 1]),
        ("2023-11-14T22:13:20.9991Z..2023-11-14T22:13:20.9999Z", []),
        ("yesterday..today", []),
        ("today..", [0, 1, 2]),
    ]:
        lines = bytes(views.by_time(source, f"{name}.jsonl", NOW_MS + 7000).open().read(0, 10_000)).splitlines()
        assert [json.loads(line)["offset"] for line in lines] == offsets


def test_a_time_never_leads_to_what_is_not_to_be_seen(views: Views) -> None:
    lab = LogOnMemory()
    lab.produce(b"aborted", 0, transactional=True)
    lab.end_transaction(committed=False)
    lab.produce(b"seen", 1, transactional=True)
    lab.end_transaction(committed=True)
    assert views.by_time(views.memory(lab), "0").target() == "../offset/0"
    committed = views.memory(lab, TreeOptions(isolation=Isolation.COMMITTED))
    assert views.by_time(committed, "0").target() == "../offset/2"
    assert views.by_time(committed, str(NOW_MS)).target() == "../offset/2"


def test_times_after_damage(views: Views) -> None:
    lab = filled(10)
    batch = lab.log.view.find(4)
    assert batch is not None
    with lab.files.open_writing(f"{DIRECTORY}/{0:020}.log") as file:
        file.write_at(batch.position + batch.size_bytes - 1, [b"\xff"])
    source = views.memory(lab)
    assert views.by_time(source, str(NOW_MS + 3000)).target() == "../offset/3"
    with pytest.raises(DamagedError):
        views.by_time(source, str(NOW_MS + 4000))
    assert views.by_time(source, str(NOW_MS + 5000)).target() == "../offset/5"


@pytest.mark.parametrize("count", [1, 3, 500, 1500])
def test_times_that_are_listed_are_even_and_lead_somewhere(views: Views, count: int) -> None:
    lab = filled(count)
    source = views.memory(lab)
    names = list(times(source).names())
    noted = sum(segment.time_index.entries_count for segment in lab.log.view.segments)
    assert min(noted, 450) <= len(names) <= 1000
    assert names == sorted(set(names))
    targets = [int(views.by_time(source, name).target().removeprefix("../offset/")) for name in names]
    assert targets == sorted(targets)
    assert targets[-1] == count - 1
    if count > 3:
        assert max(after - before for before, after in pairwise(targets)) <= count // 20


@pytest.mark.golden
@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", ["kafka-2.2/kafka-2.2", "kafka-3.9-killed/kafka-3.9-killed"])
def test_times_of_real_logs_lead_to_records(views: Views, name: str, isolation: Isolation) -> None:
    listed = 0
    for directory in views.partitions(name):
        source = views.follow(directory, TreeOptions(isolation=isolation))
        names = list(times(source).names())
        assert len(names) <= 1000
        for each in names:
            link = views.by_time(source, each)
            views.node(source, link.target().removeprefix("../offset/"))
        listed += len(names)
    assert listed > 100


def test_times_of_indexes_that_are_too_large_are_those_of_segments(views, monkeypatch):
    monkeypatch.setattr("kafkafs.tree.time_views._READ_ENTRIES_MAX", 10)
    lab = filled(400)
    segments = lab.log.view.segments
    assert len(list(times(views.memory(lab)).names())) == len(segments) > 5
